"""The log with a defect in it, for tests of the test tiers: ``python -m tests.hostile.planted DEFECT`` and options."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from mainstem.broker import process
from mainstem.broker.apis import APIS
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.coordinator import GroupCoordinator
from mainstem.broker.node import Node
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.compiler import Budget
from mainstem.protocol.errors import ErrorCode
from tests.broker.harness import LogProcess

_WORK_S = 3.3
_WAIT_S = 5.3


def _do_first(planted: Callable[[], None]) -> None:
    """Let each Metadata request do this before it is served."""
    api = APIS[ApiKey.METADATA]
    serve = api.handle

    def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
        planted()
        return serve(node, call)

    object.__setattr__(api, "handle", handle)


def _fail() -> None:
    raise RuntimeError("planted")


def _work() -> None:
    end_s = time.process_time() + _WORK_S
    while time.process_time() < end_s:
        pass


def _wait() -> None:
    threading.Event().wait(_WAIT_S)


def _answer_wrongly() -> None:
    """Let DeleteRecords answer NOT_LEADER_OR_FOLLOWER for an offset that is out of range."""
    api = APIS[ApiKey.DELETE_RECORDS]
    serve: Any = api.handle

    async def handle(node: Node, call: Call) -> Answer:
        answer = await serve(node, call)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer

    object.__setattr__(api, "handle", handle)


def _make_array(self: Budget, count: int, bytes_left: int, bytes_each: int) -> None:
    """Believe the count that a request names, and make the array before its elements are read."""
    self.left -= len([None] * count)


def _remove_cap() -> None:
    Budget.take = _make_array  # type: ignore[method-assign]


def _fail_in_a_chore() -> None:
    """Let the expiry of committed offsets fail twice; after that its rounds are reported."""
    expire = GroupCoordinator.expire_offsets
    rounds = itertools.count(1)

    def expire_offsets(self: GroupCoordinator, now_ms: int, retention_ms: int) -> Iterator[None]:
        number = next(rounds)
        if number <= 2:
            raise RuntimeError(f"planted in round {number}")
        yield from expire(self, now_ms, retention_ms)
        sys.stderr.write(f"round {number} of the planted chore is done\n")
        sys.stderr.flush()

    GroupCoordinator.expire_offsets = expire_offsets  # type: ignore[method-assign]


DEFECTS: dict[str, Callable[[], None]] = {
    "a handler that raises": lambda: _do_first(_fail),
    "a handler that works on the loop": lambda: _do_first(_work),
    "a handler that waits on the loop": lambda: _do_first(_wait),
    "arrays of any count": _remove_cap,
    "a wrong error code": _answer_wrongly,
    "a chore that raises": _fail_in_a_chore,
}


class DefectiveLog(LogProcess):
    """The log process with one of ``DEFECTS``."""

    def __init__(self, defect: str, data_dir: Path, **settings: str) -> None:
        super().__init__(data_dir, **settings)
        self._defect = defect

    def argv(self, *more: str) -> list[str]:
        python, _, _, *options = super().argv(*more)
        return [python, "-m", "tests.hostile.planted", self._defect, *options]


def main(arguments: list[str]) -> Any:
    defect, *options = arguments
    DEFECTS[defect]()
    return process.main(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
