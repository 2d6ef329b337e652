"""``Later``: a response that calls back in the turn of the event loop in which it comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainstem.broker.later import Later


def test_callbacks_run_at_once_and_in_order() -> None:
    later: Later[int] = Later()
    seen: list[object] = []
    later.add_done_callback(lambda done: seen.append(done.result()))
    later.add_done_callback(lambda _: seen.append("second"))
    later.set_result(5)
    assert seen == [5, "second"]
    later.add_done_callback(lambda done: seen.append(done.result()))
    assert seen == [5, "second", 5]


def test_an_error_and_a_cancellation_are_told_apart() -> None:
    failed: Later[int] = Later()
    failed.set_exception(ValueError("no"))
    assert not failed.cancelled()
    with pytest.raises(ValueError, match="no"):
        failed.result()
    given_up: Later[int] = Later()
    assert given_up.cancel()
    assert given_up.cancelled()
    assert not given_up.cancel()


def test_it_is_awaited_like_a_future() -> None:
    async def scene() -> list[int]:
        given, coming = Later[int](), Later[int]()
        given.set_result(1)
        asyncio.get_running_loop().call_soon(coming.set_result, 2)
        return [await given, await coming]

    assert asyncio.run(scene()) == [1, 2]


def test_a_cancelled_waiter_gives_it_up() -> None:
    async def scene() -> bool:
        later: Later[int] = Later()

        async def wait() -> int:
            return await later

        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return later.cancelled()

    assert asyncio.run(scene())


def test_a_callback_that_fails_stops_neither_the_others_nor_the_giver() -> None:
    async def scene() -> tuple[list[str], list[dict[str, Any]]]:
        later: Later[int] = Later()
        seen: list[str] = []
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        later.add_done_callback(lambda _: 1 // 0)
        later.add_done_callback(lambda _: seen.append("the other"))
        later.set_result(1)
        return seen, faults

    seen, faults = asyncio.run(scene())
    assert seen == ["the other"]
    assert [type(fault["exception"]) for fault in faults] == [ZeroDivisionError]
