"""``App``: what a user's file declares. Its methods only record frozen definitions; nothing runs at import.

Invariants, kept at each call: names are unique among topics, among pipelines and among views; one pipeline writes a
topic; the pipelines form no cycle (an input must exist before it is named). A breach raises DefinitionError, which
names the line of the user's file. Not safe to declare from several threads; once declared, read from any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from mainstem.errors import DefinitionError
from mainstem.model import is_topic_name
from mainstem.pipelines.definitions import MODES, Input, Mode, Pipeline, Table, Topic, View
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Kind, Search

_Function = TypeVar("_Function", bound=Callable[..., Any])
Key = str | Sequence[str] | None


class App:
    """Topics, pipelines and views under one name; see the module for its invariants."""

    def __init__(self, name: str) -> None:
        where = _caller()
        _check_name("app", name, where)
        self.name = name
        self.where = where
        self._topics: dict[str, Topic] = {}
        self._pipelines: dict[str, Pipeline] = {}
        self._views: dict[str, View] = {}

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Every topic by its name, those that pipelines derive included."""
        return MappingProxyType(self._topics)

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """Every pipeline by its name, in an order in which each comes after those whose output it reads."""
        return MappingProxyType(self._pipelines)

    @property
    def views(self) -> Mapping[str, View]:
        """Every view by its name."""
        return MappingProxyType(self._views)

    def topic(
        self,
        name: str,
        schema: Any = None,
        key: Key = None,
        *,
        partitions: int = 1,
        compacted: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> Topic:
        """Declare a topic. ``schema``: a dataclass, a pydantic model, or a Spark DDL string."""
        settings = MappingProxyType(dict(configs or {}))
        topic = Topic(name, schema, _key_columns(key), partitions, compacted, settings, _caller())
        return self._add_topic(topic)

    def pipeline(
        self,
        *inputs: Input | str,
        into: Topic | str,
        key: Key = None,
        mode: Mode = "append",
        name: str | None = None,
        partitions: int | None = None,
    ) -> Callable[[_Function], _Function]:
        """Declare the decorated function as a pipeline from ``inputs`` into the topic ``into``.

        The function gets one Spark DataFrame for each input and gives one back; it stays callable as it is. ``mode``
        is Spark's output mode; a topic derived by ``update`` or ``complete`` holds changing rows, so it needs a
        ``key`` and is compacted. ``partitions`` is that of a derived topic; default: as many as the first input.
        """

        def register(function: _Function) -> _Function:
            where = _line(function.__code__.co_filename, function.__code__.co_firstlineno)
            pipeline_name = name or function.__name__.replace("_", "-")
            _check_name("pipeline", pipeline_name, where)
            self._refuse_twice("pipeline", pipeline_name, self._pipelines, where)
            found = tuple(self._find_input(entry, where) for entry in inputs)
            _check_inputs(pipeline_name, function, found, where)
            columns = _key_columns(key)
            if mode not in MODES:
                raise DefinitionError(f"{where}: mode is one of {', '.join(MODES)}, not {mode!r}")
            source = next(entry for entry in found if isinstance(entry, Topic))
            count = partitions if partitions is not None else source.partitions
            output = self._output(into, columns, mode, count, where)
            if output in (entry.topic if isinstance(entry, Table) else entry for entry in found):
                raise DefinitionError(f"{where}: pipeline {pipeline_name} would read its own output {output.name}")
            self._pipelines[pipeline_name] = Pipeline(pipeline_name, function, found, output, mode, where)
            return function

        return register

    def view(self, name: str, topic: Topic | str, kind: Kind) -> View:
        """Declare a view of ``kind`` over a topic, derived ones included."""
        where = _caller()
        _check_name("view", name, where)
        self._refuse_twice("view", name, self._views, where)
        if not isinstance(kind, KeyValue | SQL | Search | Graph):
            raise DefinitionError(f"{where}: a view is a KeyValue(), SQL(), Search(…) or Graph(…), not {kind!r}")
        if isinstance(kind, Search) and not kind.fields:
            raise DefinitionError(f'{where}: say which fields to search, e.g. Search("name", "city")')
        view = View(self.name, name, self._find_topic(topic, where), kind, where)
        self._views[name] = view
        return view

    def _add_topic(self, topic: Topic) -> Topic:
        _check_name("topic", topic.name, topic.where)
        self._refuse_twice("topic", topic.name, self._topics, topic.where)
        if topic.partitions < 1:
            raise DefinitionError(f"{topic.where}: topic {topic.name} needs at least one partition")
        if topic.compacted and not topic.key:
            raise DefinitionError(f"{topic.where}: topic {topic.name} is compacted, so it needs a key")
        self._topics[topic.name] = topic
        return topic

    def _output(self, into: Topic | str, key: tuple[str, ...], mode: Mode, partitions: int, where: str) -> Topic:
        declared = into if isinstance(into, Topic) else self._topics.get(into)
        if declared is None:
            if mode != "append" and not key:
                raise DefinitionError(f"{where}: mode {mode} changes rows: say by which key= they are known")
            assert isinstance(into, str)
            return self._add_topic(Topic(into, None, key, partitions, mode != "append", where=where))
        topic = self._find_topic(declared, where)
        if key and topic.key and key != topic.key:
            raise DefinitionError(f"{where}: topic {topic.name} has the key {topic.key}, the pipeline says {key}")
        if mode != "append" and not topic.key:
            raise DefinitionError(f"{where}: mode {mode} changes rows: topic {topic.name} needs a key")
        self._refuse_cycle_or_second_writer(topic, where)
        return topic

    def _refuse_cycle_or_second_writer(self, topic: Topic, where: str) -> None:
        for other in self._pipelines.values():
            if other.output.name == topic.name:
                raise DefinitionError(f"{where}: topic {topic.name} is written by pipeline {other.name} already")
            if topic in (*other.streams, *other.tables):
                raise DefinitionError(
                    f"{where}: pipeline {other.name} ({other.where}) reads {topic.name}: declare what writes a topic "
                    "before what reads it; pipelines must not form a circle"
                )

    def _find_input(self, entry: Input | str, where: str) -> Input:
        if isinstance(entry, Table):
            topic = self._find_topic(entry.topic, where)
            if not topic.key:
                raise DefinitionError(f"{where}: topic {topic.name} has no key, so it cannot be read as a table")
            return topic.table()
        return self._find_topic(entry, where)

    def _find_topic(self, topic: Topic | str, where: str) -> Topic:
        name = topic.name if isinstance(topic, Topic) else topic
        found = self._topics.get(name) if isinstance(name, str) else None
        if found is None or (isinstance(topic, Topic) and found is not topic):
            raise DefinitionError(f"{where}: app {self.name} declares no topic {name!r} before this line")
        return found

    def _refuse_twice(self, word: str, name: str, known: Mapping[str, Any], where: str) -> None:
        if name in known:
            raise DefinitionError(f"{where}: {word} {name} is declared already, at {known[name].where}")


def _check_inputs(name: str, function: Callable[..., Any], inputs: tuple[Input, ...], where: str) -> None:
    if not any(isinstance(entry, Topic) for entry in inputs):
        raise DefinitionError(f"{where}: pipeline {name} needs at least one input that is not a table")
    try:
        inspect.signature(function).bind(*inputs)
    except TypeError as error:
        raise DefinitionError(
            f"{where}: pipeline {name} has {len(inputs)} inputs, but its function cannot be called with them: {error}"
        ) from error


def _check_name(word: str, name: str, where: str) -> None:
    if not isinstance(name, str) or not is_topic_name(name):
        raise DefinitionError(f"{where}: {name!r} is no name for a {word}: letters, digits, '.', '_' and '-' only")
    if name.startswith("__"):
        raise DefinitionError(f"{where}: {word} {name}: names that start with two underscores are kept for the system")


def _key_columns(key: Key) -> tuple[str, ...]:
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else tuple(key)


def _caller() -> str:
    """The line of the file that called into this module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno) if frame is not None else "?"


def _line(filename: str, line: int) -> str:
    return f"{Path(filename).name}:{line}"
