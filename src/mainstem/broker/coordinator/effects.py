"""The result of a coordinator's step: records to write, then answers to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from mainstem.protocol.schema import Message


class StateRecord(NamedTuple):
    """A record for an internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


Reply: TypeAlias = Callable[[Message], None]
"""Where an answer goes; given at most once."""


@dataclass(slots=True)
class Effects:
    """The records of a step, in order, and the answers that leave when they are durable."""

    records: list[StateRecord] = field(default_factory=list)
    answers: list[tuple[Reply, Message]] = field(default_factory=list)

    def answer(self, reply: Reply, message: Message) -> None:
        """Give ``message`` once the records are durable."""
        self.answers.append((reply, message))


def new_reply() -> tuple[asyncio.Future[Message], Reply]:
    """A handler's answer that is given later, and where a step gives it."""
    future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def reply(answer: Message) -> None:
        if not future.done():
            future.set_result(answer)

    return future, reply
