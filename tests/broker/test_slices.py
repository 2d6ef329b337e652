"""Long requests in slices: the event loop runs others between the items."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mainstem.broker.slices import in_turns


def test_others_run_between_items_that_take_long() -> None:
    async def serve() -> tuple[list[int], int]:
        seen: list[int] = []
        others = 0

        def other() -> None:
            nonlocal others
            others += 1
            loop.call_soon(other)

        loop = asyncio.get_running_loop()
        loop.call_soon(other)
        async for item in in_turns(slow_items()):
            seen.append(item)
        return seen, others

    seen, others = asyncio.run(serve())
    assert seen == list(range(30))
    assert others >= 10


def slow_items() -> Iterator[int]:
    for item in range(30):
        sum(range(200_000))
        yield item
