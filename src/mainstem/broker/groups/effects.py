"""The result of a coordinator's step: records to write, then answers to send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mainstem.protocol.schema import Message


class GroupRecord(NamedTuple):
    """A record for ``__consumer_offsets``; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Reply(Protocol):
    """Where an answer goes; given at most once."""

    def __call__(self, answer: Message) -> None: ...


@dataclass(slots=True)
class Effects:
    """The records of a step, in order, and the answers that leave when they are durable."""

    records: list[GroupRecord] = field(default_factory=list)
    answers: list[tuple[Reply, Message]] = field(default_factory=list)

    def answer(self, reply: Reply, message: Message) -> None:
        """Give ``message`` once the records are durable."""
        self.answers.append((reply, message))
