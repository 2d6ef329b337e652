"""``GET /views/{view}/stream``, in the process that hosts the view: its changes as events.

Key-value views send rows: an event's data is ``{"key", "row", "position"}``, where ``row`` is null for a deleted key,
and ``position`` is the position that the row reflects. An event has a position as its id only if it is the last event
before that position: so a client that disconnects between two events gets the rest again. Other views send
``changed`` with their position. ``reset`` means that the client's rows may be wrong: read them again, at least at its
position.

For one event loop; rows are read in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.event_format import beat, event, opening
from mainstem.gateway.streams.event_stream import BEAT_S, EventStream, Streams

if TYPE_CHECKING:
    from mainstem.views.subscriptions.change_rows import ChangeSubscription, RowChanges

_HELD_S: Final = 0.1


class Wake:
    """An event of the running loop that any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed: no client is connected
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_s: float) -> None:
        """Return when it is set, which unsets it, or after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        self._event.clear()


def view_stream(watch: ChangeSubscription, wake: Wake, workers: Workers, streams: Streams) -> EventStream:
    """The stream of a watch, which it closes."""
    return EventStream(_blocks(watch, wake, workers), streams, watch.close)


async def _blocks(watch: ChangeSubscription, wake: Wake, workers: Workers) -> AsyncGenerator[bytes, None]:
    yield opening(str(watch.began))
    while True:
        is_held = watch.is_held  # before ``next``: the view may come to the position just after it
        changes = await workers.run(watch.next)
        if changes is not None:
            for block in _events(changes):
                yield block
            if changes.position is None:
                continue
        if is_held:
            await wake.wait(_HELD_S)
            continue
        await wake.wait(BEAT_S)
        position = watch.position
        if position is not None:
            yield beat(str(position))


def _events(changes: RowChanges) -> Iterator[bytes]:
    position = None if changes.position is None else str(changes.position)
    state = str(changes.state)
    if changes.is_reset:
        yield event({"position": state}, name="reset", position=None if changes.rows else position)
    for number, (key, row) in enumerate(changes.rows, 1):
        is_last = number == len(changes.rows)
        yield event({"key": key, "row": row, "position": state}, position=position if is_last else None)
    if changes.has_moved:
        yield event({"position": state}, name="changed", position=position)
