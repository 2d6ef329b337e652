"""``RecordPages``: what one question finds in a topic, page by page: newest or oldest first, from a moment, of one key.

* Forwards a page is one bounded read. Its position is where the next one begins, until it covers the end.
* Backwards a page is made of windows of offsets, each just before the last one and read whole. An answer may be cut, by
  its number of records or by its bytes, and then lacks the newest of its window: so a smaller window is asked for
  instead, down to one offset of each partition, which is read on to its end. Windows that hold little, because of a
  rare key or of gaps, grow.

The end is that of committed records: records after it, in an open transaction, cannot be read yet.

The question never changes, whatever becomes of the form that it came from. A page that failed can be asked for again.
Used by one page of the console, for one page of records at a time.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import Position, TopicPartition

PAGE_RECORDS: Final = 50
_ANSWER_RECORDS: Final = 200
_WINDOW_MAX: Final = 1 << 20
_GROWS, _SHRINKS = 8, 4
_WINDOWS_MAX: Final = 12
"""The highest number of windows in one page; the next page continues further back."""

Document = dict[str, Any]
Ask = Callable[[ConsoleRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The records to show. ``start``: an offset, a position, a time or ``earliest``; None: backwards from the end."""

    topic: str
    start: str | None = None
    key: str | None = None


class RecordPages:
    """The pages of one query. ``has_more``: whether another page may exist; ``beginning`` moves on with retention."""

    def __init__(self, ask: Ask, question: RecordQuery, beginning: Position, end: Position) -> None:
        self.beginning = beginning
        self.has_more = True
        self._ask = ask
        self._question = question
        self._end = end
        self._next = question.start or ""
        self._top = end
        self._window = max(1, math.ceil(PAGE_RECORDS / max(1, len(end.items()))))

    @property
    def looked_back(self) -> int:
        """How many offsets the pages so far have gone back."""
        return sum(offset - self._top.get(tp, 0) for tp, offset in self._end.items())

    async def next_page(self) -> list[Document]:
        """The records of the next page; maybe none, and more after them. Raises GatewayError."""
        return await self._forwards() if self._question.start is not None else await self._backwards()

    async def _forwards(self) -> list[Document]:
        answer = await self._read({"from": self._next, "limit": PAGE_RECORDS})
        self._next = answer["position"]
        self.has_more = not _reaches(answer, self._end)
        return list(answer["records"])

    async def _backwards(self) -> list[Document]:
        found: list[Document] = []
        top = self._top
        for _ in range(_WINDOWS_MAX):
            start = Position({tp: max(self._least(tp, at), at - self._window) for tp, at in top.items()})
            window = await self._between(start, top)
            if window is None:
                self._window = max(1, self._window // _SHRINKS)
                continue
            found += window
            top = start
            if len(found) >= PAGE_RECORDS // 2 or not self._is_more_below(top):
                break
            if len(window) * _GROWS <= PAGE_RECORDS:
                self._window = min(_WINDOW_MAX, self._window * _GROWS)
        self._top, self.has_more = top, self._is_more_below(top)
        return sorted(found, key=lambda record: (record["timestamp_ms"], record["offset"]), reverse=True)

    def _is_more_below(self, top: Position) -> bool:
        return any(at > self._least(tp, at) for tp, at in top.items())

    def _least(self, tp: TopicPartition, at: int) -> int:
        return min(at, self.beginning.get(tp, 0))

    async def _between(self, start: Position, end: Position) -> list[Document] | None:
        """All records between two positions; None when they are too many for one answer, and can be fewer."""
        query = {"from": str(start), "to": str(end), "limit": _ANSWER_RECORDS}
        answer = await self._read(query)
        records: list[Document] = list(answer["records"])
        if not _reaches(answer, end) and self._window > 1:
            return None
        while not _reaches(answer, end):
            answer = await self._read({**query, "from": answer["position"]})
            records += answer["records"]
        return records

    async def _read(self, query: dict[str, Any]) -> Any:
        of_key = {**query, "key": self._question.key}
        return await self._ask(ConsoleRequest(path("topics", self._question.topic, "records"), of_key))


def _reaches(answer: Document, end: Position) -> bool:
    """Whether an answer got to ``end``, in the partitions that it looked into: one of them for a key."""
    return all(offset >= end.get(tp, 0) for tp, offset in Position.parse(answer["position"]).items())
