"""Tasks of Kafka Streams: a subtopology's work on one partition number. Values; pure functions.

An *active* task processes records. A *standby* task keeps a copy of an active task's state. A *warm-up* task is a copy
that becomes active once it has caught up; this coordinator assigns none, as Kafka 4.3 does not either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

Tasks: TypeAlias = Mapping[str, frozenset[int]]
"""Partition numbers by the id of their subtopology; subtopologies without any are left out."""
Task: TypeAlias = tuple[str, int]
"""A subtopology's id and a partition number."""
_NONE: Final[Tasks] = MappingProxyType({})


class TaskSet(NamedTuple):
    """The tasks of one member by their roles."""

    active: Tasks = _NONE
    standby: Tasks = _NONE
    warmup: Tasks = _NONE

    @classmethod
    def of(cls, active: Any, standby: Any, warmup: Any) -> TaskSet:
        """From lists of structs with ``subtopology_id`` and ``partitions``."""
        return cls(tasks_of(active), tasks_of(standby), tasks_of(warmup))

    def __bool__(self) -> bool:
        """Whether there is any task."""
        return any(self[role] for role in range(len(self)))

    def both(self, other: TaskSet) -> TaskSet:
        """The tasks of both, each in its role."""
        return TaskSet(*(_both(one, another) for one, another in zip(self, other, strict=True)))

    def without(self, other: TaskSet) -> TaskSet:
        """The tasks that ``other`` has not in the same role."""
        return TaskSet(*(_minus(one, another) for one, another in zip(self, other, strict=True)))

    def plus(self, other: TaskSet) -> TaskSet:
        """The tasks of either."""
        return TaskSet(*(_plus(one, another) for one, another in zip(self, other, strict=True)))


def tasks_of(items: Iterable[Any]) -> Tasks:
    """Tasks from structs with ``subtopology_id`` and ``partitions``; a subtopology may come more than once."""
    found: dict[str, frozenset[int]] = {}
    for item in items:
        found[item.subtopology_id] = found.get(item.subtopology_id, frozenset()) | frozenset(item.partitions)
    return {subtopology: numbers for subtopology, numbers in found.items() if numbers}


def each_of(tasks: Tasks) -> Iterator[Task]:
    """Every task, in order."""
    for subtopology in sorted(tasks):
        for number in sorted(tasks[subtopology]):
            yield subtopology, number


def gathered(tasks: Iterable[Task]) -> Tasks:
    """Single tasks by their subtopologies."""
    found: dict[str, set[int]] = {}
    for subtopology, number in tasks:
        found.setdefault(subtopology, set()).add(number)
    return {subtopology: frozenset(numbers) for subtopology, numbers in found.items()}


def _both(one: Tasks, other: Tasks) -> Tasks:
    return _filled({key: numbers & other.get(key, frozenset()) for key, numbers in one.items()})


def _minus(one: Tasks, other: Tasks) -> Tasks:
    return _filled({key: numbers - other.get(key, frozenset()) for key, numbers in one.items()})


def _plus(one: Tasks, other: Tasks) -> Tasks:
    nothing: frozenset[int] = frozenset()
    return {key: one.get(key, nothing) | other.get(key, nothing) for key in sorted({*one, *other})}


def _filled(found: Tasks) -> Tasks:
    return {key: numbers for key, numbers in found.items() if numbers}
