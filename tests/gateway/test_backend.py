"""The threads of a view host: whoever waits for one view keeps nobody from another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mainstem.errors import UnavailableError
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.views.backend import LocalBackend

NO_REQUEST = cast(Request, None)


class NoViews:
    """As much of a host as is asked here."""

    def status(self) -> list[Any]:
        return []


@asynccontextmanager
async def waiting(backend: LocalBackend, view: str, count: int) -> AsyncIterator[None]:
    """So many requests of a view that wait, those that get a thread in a thread."""
    answered = threading.Event()

    def wait(_: object) -> Response:
        answered.wait(100)
        return Response()

    tasks = [asyncio.create_task(backend.respond(NO_REQUEST, view, wait)) for _ in range(count)]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        answered.set()
        await asyncio.gather(*tasks, return_exceptions=True)


def made(**options: Any) -> LocalBackend:
    return LocalBackend(cast(Any, NoViews()), Streams(), **options)


def test_waits_for_one_view_keep_nobody_from_another() -> None:
    async def scenario() -> None:
        backend = made()
        async with waiting(backend, "slow", 200):
            async with asyncio.timeout(60):
                assert (await backend.respond(NO_REQUEST, "other", lambda _: Response(b"x"))).body == b"x"
                assert await backend.statuses() == []

    asyncio.run(scenario())


@pytest.mark.parametrize(("count", "words"), [(65, "none was answered in"), (256, "being answered already")])
def test_who_finds_no_turn_is_told_so(count: int, words: str) -> None:
    async def scenario() -> None:
        backend = made(queue_s=0.05 if count < 100 else 100.0)
        async with waiting(backend, "slow", count):
            with pytest.raises(UnavailableError, match=words):
                await backend.respond(NO_REQUEST, "slow", lambda _: Response())
        assert (await backend.respond(NO_REQUEST, "slow", lambda _: Response(b"x"))).body == b"x"

    asyncio.run(scenario())
