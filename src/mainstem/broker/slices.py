"""Long requests in slices: the event loop serves others between any two of them.

An ``Api`` whose array items are answered independently declares it with ``Slices``. A request with many items is then
served as many small requests, and their answers are joined. A slice grows while it is fast and shrinks while it is
slow. The size of an answer and the number of long requests at a time are limited, so memory is bounded.
A handler that needs the whole request (repeated names, all or nothing, one checkpoint) goes through it ``in_turns``.
Concurrency: the event loop; the joined answer is encoded in a thread.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from mainstem.errors import FrameError
from mainstem.protocol.codec import Chunks, encode_response
from mainstem.protocol.schema import Message, Struct

if TYPE_CHECKING:
    from mainstem.broker.call import Answer, Call

AT_ONCE_ITEMS: Final = 64
"""A request with at most that many items is served at once."""
_WIDE_PARTITIONS: Final = 500
_PIECE_ITEMS: Final = 500
_QUICK_S: Final = 0.001
_SLOW_S: Final = 0.004
_SLICE_ITEMS_MAX: Final = 1024
_WRITE_IN_THREAD_BYTES: Final = 256 * 1024
Serve = Callable[["Call"], "Answer | Awaitable[Answer]"]
T = TypeVar("T")


class Slices(NamedTuple):
    """The array of a request whose items are served one by one, and the array of its answer.

    ``partitions``: the array in an item that may be long itself; it is ``partitions`` in the answer. ``once``: repeated
    items are answered once.
    """

    asked: str
    answered: str
    partitions: str = ""
    once: bool = False

    def items(self, body: Any) -> Sequence[Any]:
        """Return the items of a request, without repetitions if ``once`` is set."""
        items: Sequence[Any] = getattr(body, self.asked) or ()
        if not self.once or len(items) < 2:
            return items
        return list({_identity(item): item for item in items}.values())

    def is_long(self, items: Sequence[Any]) -> bool:
        """Whether a request must be served in slices."""
        if len(items) > AT_ONCE_ITEMS:
            return True
        return bool(self.partitions) and any(len(getattr(item, self.partitions)) > _WIDE_PARTITIONS for item in items)


async def serve_in_slices(
    call: Call, slices: Slices, items: Sequence[Any], serve: Serve, bytes_max: int
) -> tuple[Message, Chunks]:
    """Serve a long request; return the answer and its bytes. Raises FrameError if it exceeds ``bytes_max``."""
    answer: Any = None
    answered: list[Any] = []
    count, at, size_bytes = 1, 0, 0
    while at < len(items):
        part = items[at : at + count]
        at += len(part)
        began_s = time.perf_counter()
        for body, continues in _bodies(call.body, slices, part):
            served = serve(call._replace(body=body))
            if isinstance(served, Awaitable):
                served = await served
            assert served is not None
            size_bytes += sum(map(len, encode_response(call, served)))
            if size_bytes > bytes_max:
                raise FrameError(
                    f"the answer to {len(items)} items would be longer than mainstem.response.max.bytes={bytes_max}; "
                    "ask for fewer at once"
                )
            new = list(getattr(served, slices.answered))
            if continues and new and answered:
                answered[-1].partitions = [*answered[-1].partitions, *new.pop(0).partitions]
            answered += new
            answer = answer or served
            if continues:
                await asyncio.sleep(0)
        took_s = time.perf_counter() - began_s
        count = (
            min(2 * count, _SLICE_ITEMS_MAX) if took_s < _QUICK_S else max(1, count // 2 if took_s > _SLOW_S else count)
        )
        await asyncio.sleep(0)
    setattr(answer, slices.answered, answered)
    if size_bytes < _WRITE_IN_THREAD_BYTES:
        return answer, encode_response(call, answer)
    return answer, await asyncio.to_thread(encode_response, call, answer)


def in_pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield what is written in one piece; at least one piece, which may be empty."""
    for start in range(0, len(items) or 1, _PIECE_ITEMS):
        yield items[start : start + _PIECE_ITEMS]


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items one by one; the event loop serves others whenever they have taken long.

    State may change at each item: check what must hold at the end in one piece with the change.
    """
    since_s = time.perf_counter()
    for item in items:
        if time.perf_counter() - since_s > _QUICK_S:
            await asyncio.sleep(0)
            since_s = time.perf_counter()
        yield item


def _bodies(body: Any, slices: Slices, part: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield the requests of a slice, and whether each one continues the last item of the request before."""
    narrow: list[Any] = []
    for item in part:
        numbers = getattr(item, slices.partitions) if slices.partitions else ()
        if len(numbers) <= _WIDE_PARTITIONS:
            narrow.append(item)
            continue
        if narrow:
            yield _with(body, slices.asked, narrow), False
            narrow = []
        for start in range(0, len(numbers), _WIDE_PARTITIONS):
            piece = _with(item, slices.partitions, numbers[start : start + _WIDE_PARTITIONS])
            yield _with(body, slices.asked, [piece]), start > 0
    if narrow:
        yield _with(body, slices.asked, narrow), False


def _with(struct: Any, field: str, value: Any) -> Any:
    changed = copy.copy(struct)
    setattr(changed, field, value)
    return changed


def _identity(item: Any) -> Any:
    """Return the key by which equal items are found."""
    if isinstance(item, Struct):
        return tuple(map(_identity, item.__dict__.values()))
    return tuple(map(_identity, item)) if isinstance(item, (list, tuple)) else item
