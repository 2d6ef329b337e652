"""The parts of an App: topics, tables, pipelines and views, as frozen definitions.

Nothing here touches a log or Spark: a definition only says what shall be, and where in the user's file it says so
(``where``, ``flights.py:12``), so that every later error can point there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from mainstem.errors import InputError
from mainstem.model import OnDamaged, is_topic_name
from mainstem.pipelines.kinds import Kind

Mode: TypeAlias = Literal["append", "update", "complete"]
MODES: tuple[str, ...] = get_args(Mode)


def require_name(word: str, name: str) -> None:
    """Raises InputError for what no App can have declared under ``word``; what it says may then be part of a path."""
    if not is_topic_name(name) or name.startswith("__"):
        raise InputError(
            f"invalid name {name!r} for {word}: use letters, digits, '.', '_' and '-', not '__' at the start"
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the App reads or writes.

    ``schema`` is what the user gave: a dataclass, a pydantic model, a DDL string, or None when the topic's registered
    schema shall be used. ``key`` are the key's columns; none means records without a key.
    ``encoding`` is the form of its values, None for plain JSON. ``stands_for`` is the topic that it will be compared
    with, while a new version of a pipeline derives into it.
    """

    name: str
    schema: Any = None
    key: tuple[str, ...] = ()
    partitions: int = 1
    compacted: bool = False
    configs: Mapping[str, str] = field(default_factory=dict, hash=False)
    where: str = field(default="", compare=False)
    encoding: str | None = None
    stands_for: str = ""

    @property
    def schema_topic(self) -> str:
        """The topic under whose name its schema is registered."""
        return self.stands_for or self.name

    def table(self) -> Table:
        """This topic as a table: the latest value of each key, fresh at each micro-batch."""
        return Table(self)


@dataclass(frozen=True, slots=True)
class Table:
    """A topic read as a table: the latest value of each of its keys."""

    topic: Topic


Input: TypeAlias = Topic | Table


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function from DataFrames to a DataFrame for each of ``outputs``, the topics that these are appended to.

    With ``each_batch`` it is a function of one micro-batch and its id instead, called for what it does by itself;
    ``outputs`` are then the topics that it appends to, which may be none. ``stands_for`` is the pipeline whose new
    version it is, while that is derived beside the old one. ``on_damaged``: whether it stops at input records that
    are in the log and cannot be read, or skips them.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    outputs: tuple[Topic, ...]
    mode: Mode
    each_batch: bool = False
    where: str = field(default="", compare=False)
    app: str = ""
    stands_for: str = ""
    on_damaged: OnDamaged = "stop"

    @property
    def streams(self) -> tuple[Topic, ...]:
        """The inputs that are read as streams: coverage follows these."""
        return tuple(entry for entry in self.inputs if isinstance(entry, Topic))

    @property
    def dead_letter_topic(self) -> str:
        """Where records of typed streams go whose value does not parse."""
        return f"__mainstem_dead_letters.{self.app}.{self.stands_for or self.name}"

    @property
    def tables(self) -> tuple[Topic, ...]:
        """The topics that are read as tables."""
        return tuple(entry.topic for entry in self.inputs if isinstance(entry, Table))


@dataclass(frozen=True, slots=True)
class View:
    """An index over one topic, of one kind.

    ``on_damaged``: whether it stops at records that are in the log and cannot be read, or skips them as dead letters.
    """

    app: str
    name: str
    topic: Topic
    kind: Kind
    where: str = field(default="", compare=False)
    on_damaged: OnDamaged = "stop"

    @property
    def dead_letter_topic(self) -> str:
        """Where records go that this view cannot apply; not where those of a pipeline of the same name do."""
        return f"__mainstem_view_dead_letters.{self.app}.{self.name}"
