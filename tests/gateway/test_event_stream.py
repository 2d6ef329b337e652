"""One stream as ASGI: it ends with its source, its client or its process, and whatever happens its source is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mainstem.errors import UnknownTopicError
from mainstem.gateway.streams.event_stream import EventStream, Message, Streams


class Client:
    """The other side: ``takes`` messages at most, and goes after ``stays`` of them if that is given."""

    def __init__(self, takes: int | None = None, stays: int | None = None) -> None:
        self.sent: list[bytes] = []
        self._takes, self._stays = takes, stays
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return
        if self._takes is not None and len(self.sent) >= self._takes:
            await asyncio.Event().wait()
        self.sent.append(message["body"])
        if len(self.sent) == self._stays:
            self._gone.set()


class Source:
    """Blocks that the test counts."""

    def __init__(self, count: int | None, error: Exception | None = None) -> None:
        self.closed = self.after = 0
        self._count, self._error = count, error

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        number = 0
        try:
            while self._count is None or number < self._count:
                yield b"%d" % number
                number += 1
                await asyncio.sleep(0)
            if self._error is not None:
                raise self._error
        finally:
            self.closed += 1

    def close(self) -> None:
        self.after += 1


def served(source: Source, end_at: int | None = None, **client: Any) -> list[bytes]:
    async def scenario() -> list[bytes]:
        streams, other = Streams(stall_s=0.05), Client(**client)
        stream = EventStream(source.blocks(), streams, source.close)
        serving = asyncio.create_task(stream({}, other.receive, other.send))
        while end_at is not None and len(other.sent) < end_at:
            await asyncio.sleep(0)
        if end_at is not None:
            streams.end()
        async with asyncio.timeout(60):
            await serving
        assert len(streams) == 0
        return other.sent

    return asyncio.run(scenario())


def test_a_stream_ends_with_its_source() -> None:
    source = Source(2)
    assert served(source) == [b"0", b"1", b""]
    assert (source.closed, source.after) == (1, 1)


def test_a_stream_ends_with_its_client() -> None:
    source = Source(None)
    assert served(source, stays=3)[:3] == [b"0", b"1", b"2"]
    assert (source.closed, source.after) == (1, 1)


def test_a_stream_ends_with_its_process_and_says_so() -> None:
    source = Source(None)
    assert served(source, end_at=2)[-1] == b": the server is stopping\n\n"
    assert (source.closed, source.after) == (1, 1)


def test_a_client_that_takes_nothing_is_given_up() -> None:
    source = Source(None)
    assert served(source, takes=2) == [b"0", b"1"]
    assert (source.closed, source.after) == (1, 1)


def test_an_error_is_the_last_event() -> None:
    last = served(Source(1, UnknownTopicError("it is gone")))[1]
    assert last.startswith(b"event: problem\ndata: {")
    assert b'"status":404' in last


def test_a_defect_is_raised_and_the_source_closed() -> None:
    source = Source(1, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        served(source)
    assert (source.closed, source.after) == (1, 1)
