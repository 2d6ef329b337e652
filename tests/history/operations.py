"""What clients write down of what they did: one JSON line when an operation begins, and one when it ends.

An operation is a sequence of steps, sends and polls, that happens as a whole (a transaction), or a single step.
How it ended: ``ok`` (acknowledged or committed), ``fail`` (certainly not in the log, or aborted), ``info`` (nobody
knows). One that began and never ended is ``info``, too: its client was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

OK, FAIL, INFO = "ok", "fail", "info"


class Send(NamedTuple):
    """A value for a partition; ``offset`` as it was acknowledged, None when it was not."""

    partition: str
    value: str
    offset: int | None = None


class Poll(NamedTuple):
    """What one poll brought: (offset, value) in the order in which it came, by partition."""

    records: dict[str, list[tuple[int, str]]]


@dataclass(frozen=True)
class Operation:
    """``place`` counts a client's operations; ``assignment`` changes when its consumer may begin elsewhere."""

    client: str
    place: int
    status: str
    steps: tuple[Send | Poll, ...]
    is_transaction: bool = False
    assignment: int = 0
    is_final: bool = False
    assigned: bool = field(default=True)

    @property
    def sends(self) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send)]

    @property
    def polls(self) -> list[Poll]:
        return [step for step in self.steps if isinstance(step, Poll)]


def to_line(operation: Operation) -> str:
    """One operation as a line of JSON."""
    steps: list[Any] = [
        ["send", *step] if isinstance(step, Send) else ["poll", step.records] for step in operation.steps
    ]
    return json.dumps({**operation.__dict__, "steps": steps})


def from_line(line: str) -> Operation:
    """The operation of a line. Raises ValueError, TypeError, KeyError for a line that is none."""
    data = json.loads(line)
    data["steps"] = tuple(_step(*step) for step in data["steps"])
    return Operation(**data)


def _step(kind: str, *values: Any) -> Send | Poll:
    if kind == "send":
        return Send(*values)
    return Poll({name: [(int(offset), value) for offset, value in records] for name, records in values[0].items()})


def read_history(files: Iterable[Path]) -> list[Operation]:
    """All operations, each as its last line says; the last line of a killed client may be torn and is left out."""
    found: dict[tuple[str, int], Operation] = {}
    for operation in _lines(files):
        found[operation.client, operation.place] = operation
    return [found[key] for key in sorted(found)]


def _lines(files: Iterable[Path]) -> Iterator[Operation]:
    for file in files:
        text = file.read_text()
        whole, _, _torn = text.rpartition("\n")
        for line in whole.splitlines():
            yield from_line(line)
