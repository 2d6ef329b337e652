"""``RecordPages``: what one question finds in a topic, page by page: newest or oldest first, from a moment, of one key.

* Forwards a page is one bounded read. Its position is where the next one begins, until it covers the end.
* Backwards a page is made of windows of offsets, each just before the last one and read whole. An answer may be cut, by
  its number of records or by its bytes, and then lacks the newest of its window: so a smaller window is asked for
  instead, down to one offset of each partition, which is read on to its end. Windows that hold little, because of a
  rare key or of gaps, grow. Several partitions are merged by time: a record is held back until every partition has been
  read down to that time, so a quiet partition's old records come after the newer ones of a busy one.

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
    """The records to show. ``start``: an offset, a position, a time or ``earliest``; None: backwards from the end.

    ``partition``: only its records.
    """

    topic: str
    start: str | None = None
    key: str | None = None
    partition: int | None = None


class RecordPages:
    """The pages of one query. ``has_more``: whether another page may exist; ``beginning`` moves on with retention."""

    def __init__(self, ask: Ask, question: RecordQuery, beginning: Position, end: Position) -> None:
        self.beginning = beginning
        self.has_more = True
        self._ask = ask
        self._question = question
        self._end = self._top = end if question.partition is None else self._only(question.partition, end)
        self._next = question.start or ""
        if question.partition is not None and self._next.isdecimal() and self._next.isascii():
            at = TopicPartition(question.topic, question.partition)
            self._next = str(self._only(question.partition, Position({at: int(self._next)})))
        self._window = max(1, math.ceil(PAGE_RECORDS / max(1, len(end.items()))))
        self._held: list[Document] = []
        self._lowest_ms: dict[int, int] = {}

    def _only(self, partition: int, end: Position) -> Position:
        """A position that has nothing to read before it but in one partition."""
        others = {tp: offset for tp, offset in self.beginning.items() if tp.partition != partition}
        return Position({**others, **{tp: at for tp, at in end.items() if tp.partition == partition}})

    @property
    def looked_back(self) -> int:
        """How many offsets the pages so far have gone back."""
        return sum(offset - self._top.get(tp, 0) for tp, offset in self._end.items())

    async def next_page(self) -> list[Document]:
        """The records of the next page; maybe none, and more after them. Raises GatewayError."""
        return await self._forwards() if self._question.start is not None else await self._backwards()

    async def _forwards(self) -> list[Document]:
        until = {} if self._question.partition is None else {"to": str(self._end)}
        answer = await self._read({"from": self._next, **until, "limit": PAGE_RECORDS})
        self._next = answer["position"]
        self.has_more = not _reaches(answer, self._end)
        return list(answer["records"])

    async def _backwards(self) -> list[Document]:
        for _ in range(_WINDOWS_MAX):
            if len(self._ready()) >= PAGE_RECORDS // 2 or not self._is_more_below(self._top):
                break
            await self._look_below()
        page = (self._ready() or self._held)[: 2 * PAGE_RECORDS]
        shown = {(record["partition"], record["offset"]) for record in page}
        self._held = [each for each in self._held if (each["partition"], each["offset"]) not in shown]
        self.has_more = bool(self._held) or self._is_more_below(self._top)
        return page

    async def _look_below(self) -> None:
        """Read one more window of each partition that could still have the next record, into ``_held``."""
        blocking = self._blocking()
        start = Position(
            {
                tp: max(self._least(tp, at), at - self._window) if tp.partition in blocking else at
                for tp, at in self._top.items()
            }
        )
        window = await self._between(start, self._top)
        if window is None:
            self._window = max(1, self._window // _SHRINKS)
            return
        for record in window:
            partition, time_ms = record["partition"], record["timestamp_ms"]
            self._lowest_ms[partition] = min(time_ms, self._lowest_ms.get(partition, time_ms))
        self._held = sorted(self._held + window, key=lambda each: (each["timestamp_ms"], each["offset"]), reverse=True)
        self._top = start
        if len(window) * _GROWS <= PAGE_RECORDS:
            self._window = min(_WINDOW_MAX, self._window * _GROWS)

    def _unread(self) -> list[int]:
        """The partitions with records further below."""
        return [tp.partition for tp, at in self._top.items() if at > self._least(tp, at)]

    def _horizon_ms(self) -> float:
        """The time down to which every partition has been read; a key is in one partition, so it needs no merging."""
        if self._question.key is not None:
            return -math.inf
        return max((self._lowest_ms.get(partition, math.inf) for partition in self._unread()), default=-math.inf)

    def _blocking(self) -> set[int]:
        """The partitions to read on: those that hold back what was read of the others."""
        if self._question.key is not None:
            return set(self._unread())
        horizon_ms, held = self._horizon_ms(), {record["partition"] for record in self._held}
        unread = self._unread()
        return {each for each in unread if self._lowest_ms.get(each, math.inf) >= horizon_ms or each not in held}

    def _ready(self) -> list[Document]:
        horizon_ms = self._horizon_ms()
        return [record for record in self._held if record["timestamp_ms"] >= horizon_ms]

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
