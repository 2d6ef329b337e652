"""``App``: what a user's file declares. Its methods only record frozen definitions; nothing runs at import.

Invariants, kept at each call: names are unique among topics, among captures and pipelines, and among views; one
pipeline or capture writes a topic; the pipelines form no cycle (an input must exist before it is named). A breach
raises DefinitionError, which names the line of the user's file. Not safe to declare from several threads; once
declared, read from any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from mainstem.errors import DefinitionError
from mainstem.model import ON_DAMAGED, OnDamaged, is_topic_name
from mainstem.pipelines.definitions import (
    MODES,
    CapturedTables,
    CaptureSettings,
    Input,
    Mode,
    Pipeline,
    Table,
    Topic,
    View,
)
from mainstem.pipelines.kinds import KINDS, SINKS, Kind, Sink
from mainstem.schema.types import ENCODINGS, FRAMINGS, Encoding, Framing

_Function = TypeVar("_Function", bound=Callable[..., Any])
Key = str | Sequence[str] | None


class App:
    """Topics, captures, pipelines and views under one name. The module's docstring has the invariants."""

    def __init__(self, name: str) -> None:
        where = _caller()
        _check_name("App", name, where)
        self.name = name
        self.where = where
        self._topics: dict[str, Topic] = {}
        self._pipelines: dict[str, Pipeline] = {}
        self._views: dict[str, View] = {}
        self._captures: dict[str, CapturedTables] = {}

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Every topic by its name, those that pipelines derive included."""
        return MappingProxyType(self._topics)

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """Every pipeline by its name, in an order in which each comes after those whose output it reads."""
        return MappingProxyType(self._pipelines)

    @property
    def captures(self) -> Mapping[str, CapturedTables]:
        """Every database that is captured, by the capture's name."""
        return MappingProxyType(self._captures)

    @property
    def views(self) -> Mapping[str, View]:
        """Every view by its name."""
        return MappingProxyType(self._views)

    def topic(  # noqa: PLR0913 - a topic has these properties
        self,
        name: str,
        schema: Any = None,
        key: Key = None,
        *,
        partitions: int = 1,
        compacted: bool = False,
        configs: Mapping[str, str] | None = None,
        encoding: Encoding | None = None,
        key_encoding: Encoding | None = None,
        framing: Framing = "id",
    ) -> Topic:
        """Declare a topic.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            schema: A dataclass, a pydantic model, or a Spark DDL string. Without it values are any bytes.
            key: The column that is the record's key, or several.
            partitions: How many. A topic that exists keeps those that it has.
            compacted: Keep the newest record of each key; it needs a key.
            configs: Kafka's topic configs and Mainstem's own, by name.
            encoding: ``"avro"``, ``"json-schema"`` or ``"protobuf"`` for values that begin with the id of a schema, as
                Confluent's serializers write them. The schema is made of the columns. Without it values are plain JSON.
            key_encoding: The same for keys, which are text without it.
            framing: Where encoded values name their schema: ``"id"`` in front, by its id; ``"guid"`` in front, by its
                global id; ``"header"`` in the record's header ``__value_schema_id``, and the value is bare.

        Raises:
            DefinitionError: The name is taken, or an argument is invalid. The error names the line of your file.

        Examples:
            >>> app.topic("flights", "flight_id STRING, carrier STRING", key="flight_id", partitions=4).name
            'flights'
        """
        settings = MappingProxyType(dict(configs or {}))
        topic = Topic(
            name, schema, _key_columns(key), partitions, compacted, settings, _caller(), encoding, key_encoding, framing
        )
        return self._add_topic(topic)

    def postgres(
        self,
        name: str,
        *,
        dsn: str,
        tables: Sequence[str],
        envelope: str = "row",
        partitions: int = 1,
        encoding: Encoding | None = None,
    ) -> CapturedTables:
        """Capture tables of a PostgreSQL database: each a topic, with a snapshot first and then every change.

        Returns the topics by the tables' names.

        Args:
            name: The capture's name; its topics begin with it.
            dsn: libpq's connection string. Leave the password to ``PGPASSWORD`` or a password file.
            tables: The tables with their schemas.
            envelope: ``"row"``, the row after each change and a tombstone for a deletion, or ``"debezium"``.
            partitions: How many each topic has.
            encoding: That of the rows, as for ``topic``.

        Raises:
            DefinitionError: The name is taken, or an argument is invalid.

        Examples:
            >>> shop = app.postgres("shop", dsn="host=db dbname=shop", tables=["public.orders"])
            >>> shop["public.orders"].name
            'shop.orders'
        """
        where = _caller()
        try:
            settings = CaptureSettings.of(
                name, dsn, tables, envelope=envelope, partitions=partitions, encoding=encoding
            )
        except DefinitionError as error:
            raise DefinitionError(f"{where}: {error}") from error
        self._refuse_twice("capture", name, self._captures, where)
        self._refuse_twice("pipeline", name, self._pipelines, where)
        captured = CapturedTables(settings, where)
        for topic in captured.values():
            self._add_topic(topic)
        self._captures[name] = captured
        return captured

    def pipeline(
        self,
        *inputs: Input | str,
        into: Topic | str | Sequence[Topic | str],
        key: Key = None,
        mode: Mode = "append",
        name: str | None = None,
        partitions: int | None = None,
        on_damaged: OnDamaged = "stop",
    ) -> Callable[[_Function], _Function]:
        """Declare the decorated function as a pipeline from ``inputs`` into the topic ``into``, or into several.

        The function gets a Spark DataFrame for each input, and returns one for each topic of ``into``, in that order.

        Args:
            inputs: Topics, their names, or ``topic.table()``.
            into: The topic that it derives, or several; a name that is not declared makes a topic.
            key: The key of topics that are not declared.
            mode: Spark's output mode. A topic derived by ``update`` or ``complete`` holds changing rows, so it needs a
                key and is compacted.
            name: The pipeline's name. Without it the function's, with ``-`` for ``_``.
            partitions: Those of topics that are not declared; by default those of the first streamed input.
            on_damaged: When input records cannot be read, the pipeline stops. With ``"skip"`` it skips them and records
                their offsets in the progress topic.

        Raises:
            DefinitionError: An input does not exist, the output has another writer, or the pipelines form a circle.

        Examples:
            >>> @app.pipeline("flights", into="late", key="flight_id")
            ... def late(flights):
            ...     return flights.where("dep_delay > 60")
        """
        wanted = (into,) if isinstance(into, Topic | str) else tuple(into)

        def register(function: _Function) -> _Function:
            where, pipeline_name = self._new_pipeline(function, name)
            found = tuple(self._find_input(entry, where) for entry in inputs)
            _check_inputs(pipeline_name, function, found, where)
            if mode not in MODES:
                raise DefinitionError(f"{where}: mode is one of {', '.join(MODES)}, not {mode!r}")
            if not wanted:
                raise DefinitionError(f"{where}: say into which topic pipeline {pipeline_name} derives")
            source = next(entry for entry in found if isinstance(entry, Topic))
            count = partitions if partitions is not None else source.partitions
            columns = _key_columns(key)
            others = columns if len(wanted) == 1 else ()  # of several topics, the declared ones have their own keys
            outputs = tuple(
                self._output(topic, others if self._is_declared(topic) else columns, mode, count, where)
                for topic in wanted
            )
            _check_on_damaged(on_damaged, where)
            self._add_pipeline(
                Pipeline(
                    pipeline_name, function, found, outputs, mode, where=where, app=self.name, on_damaged=on_damaged
                )
            )
            return function

        return register

    def foreach_batch(
        self,
        source: Input | str,
        *,
        into: Topic | str | Sequence[Topic | str] = (),
        name: str | None = None,
        on_damaged: OnDamaged = "stop",
    ) -> Callable[[_Function], _Function]:
        """Declare the decorated function to be called with each micro-batch of ``source``: a DataFrame, and its id.

        Use it to write to other systems. After a crash a micro-batch is repeated with the same id and the same rows.

        Args:
            source: The topic.
            into: The topics, declared before, that the function appends to. It then returns the position after its
                records, or None when it appended none, so that positions propagate through these topics.
            name: The pipeline's name. Without it the function's, with ``-`` for ``_``.
            on_damaged: As for a pipeline.

        Raises:
            DefinitionError: The source is a table or does not exist, or the function takes other arguments.

        Examples:
            >>> @app.foreach_batch("flights")
            ... def export(rows, batch_id):
            ...     rows.write.mode("overwrite").parquet(f"export/{batch_id}")
        """
        wanted = (into,) if isinstance(into, Topic | str) else tuple(into)

        def register(function: _Function) -> _Function:
            where, pipeline_name = self._new_pipeline(function, name)
            stream = self._find_input(source, where)
            if isinstance(stream, Table):
                raise DefinitionError(f"{where}: a table has no micro-batches; name the topic itself")
            _check_arguments(pipeline_name, function, (stream, 0), "a micro-batch and its id", where)
            outputs = tuple(self._declared_output(self._find_topic(topic, where), where) for topic in wanted)
            _check_on_damaged(on_damaged, where)
            self._add_pipeline(
                Pipeline(
                    pipeline_name,
                    function,
                    (stream,),
                    outputs,
                    "append",
                    each_batch=True,
                    where=where,
                    app=self.name,
                    on_damaged=on_damaged,
                )
            )
            return function

        return register

    def view(self, name: str, topic: Topic | str, kind: Kind, *, on_damaged: OnDamaged = "stop") -> View:
        """Declare a view of ``kind`` over a topic, derived ones included.

        Args:
            name: The view's name, by which it is asked.
            topic: The topic or its name.
            kind: ``ms.KeyValue()``, ``ms.SQL()``, ``ms.Lake()``, or a Search, Graph or Metrics view with its columns.
            on_damaged: When records in the log cannot be read, the view stops. With ``"skip"`` it skips them and writes
                their offsets in a dead letter.

        Raises:
            DefinitionError: The name is taken, the topic does not exist, or the kind's arguments are invalid.

        Examples:
            >>> app.view("by-flight", "flights", ms.KeyValue()).name
            'by-flight'
        """
        where = _caller()
        if not isinstance(kind, KINDS):
            known = ", ".join(f"{known.__name__}(…)" for known in KINDS)
            raise DefinitionError(f"{where}: a view is one of {known}, not {kind!r}")
        return self._add_view("view", name, topic, kind, on_damaged, where)

    def sink(self, topic: Topic | str, table: Sink, *, name: str | None = None, on_damaged: OnDamaged = "stop") -> View:
        """Declare a table of a foreign database that is kept in step with a topic: a view with that table as its store.

        Args:
            topic: The topic or its name.
            table: ``ms.Postgres(…)``, ``ms.MariaDB(…)`` or ``ms.SQLite(…)``, with ``table=``.
            name: The sink's name. Without it the table's, without the schema.
            on_damaged: As for a view.

        Raises:
            DefinitionError: The name or the table is taken, or the topic does not exist.

        Examples:
            >>> app.sink("flights", ms.Postgres("postgresql://db/shop", table="public.flights")).name
            'flights'
        """
        where = _caller()
        if not isinstance(table, SINKS):
            known = ", ".join(f"{known.__name__}(…, table=…)" for known in SINKS)
            raise DefinitionError(f"{where}: a sink is one of {known}, not {table!r}")
        if table.fault is not None:
            raise DefinitionError(f"{where}: {table.fault}")
        for other in self._views.values():
            if other.kind == table:
                raise DefinitionError(f"{where}: table {table.table} is the sink {other.name}'s already, {other.where}")
        return self._add_view("sink", name or table.table.rpartition(".")[2], topic, table, on_damaged, where)

    def _add_view(
        self, word: str, name: str, topic: Topic | str, kind: Kind, on_damaged: OnDamaged, where: str
    ) -> View:
        _check_on_damaged(on_damaged, where)
        _check_name(word, name, where)
        self._refuse_twice("view", name, self._views, where)
        if kind.fault is not None:
            raise DefinitionError(f"{where}: {kind.fault}")
        view = View(self.name, name, self._find_topic(topic, where), kind, where, on_damaged)
        self._views[name] = view
        return view

    def _add_topic(self, topic: Topic) -> Topic:
        _check_name("topic", topic.name, topic.where)
        self._refuse_twice("topic", topic.name, self._topics, topic.where)
        if not isinstance(topic.partitions, int) or topic.partitions < 1:
            raise DefinitionError(
                f"{topic.where}: invalid partitions {topic.partitions!r} of topic {topic.name}: use 1 or more"
            )
        if topic.compacted and not topic.key:
            raise DefinitionError(f"{topic.where}: topic {topic.name} is compacted, so it needs a key")
        for word, encoding in (("encoding", topic.encoding), ("key_encoding", topic.key_encoding)):
            if encoding is not None and encoding not in ENCODINGS:
                raise DefinitionError(
                    f"{topic.where}: unknown {word} {encoding!r} of topic {topic.name}: use one of "
                    f"{', '.join(ENCODINGS)}, or leave it out for plain {'JSON' if word == 'encoding' else 'text'}"
                )
        if topic.framing not in FRAMINGS:
            raise DefinitionError(
                f"{topic.where}: unknown framing {topic.framing!r} of topic {topic.name}: use one of "
                f"{', '.join(FRAMINGS)}"
            )
        if topic.framing != FRAMINGS[0] and topic.encoding is None:
            raise DefinitionError(
                f"{topic.where}: topic {topic.name} has a framing but no encoding: values of plain JSON name no schema"
            )
        self._topics[topic.name] = topic
        return topic

    def _new_pipeline(self, function: Callable[..., Any], name: str | None) -> tuple[str, str]:
        """The function's place in the source, and its pipeline's name."""
        code = getattr(function, "__code__", None)
        if code is None:
            raise DefinitionError(f"{_caller()}: a pipeline is a function declared with def, not {function!r}")
        where = _line(code.co_filename, code.co_firstlineno)
        pipeline_name = name or function.__name__.replace("_", "-")
        _check_name("pipeline", pipeline_name, where)
        self._refuse_twice("pipeline", pipeline_name, self._pipelines, where)
        self._refuse_twice("capture", pipeline_name, self._captures, where)
        return where, pipeline_name

    def _add_pipeline(self, pipeline: Pipeline) -> None:
        names = [topic.name for topic in pipeline.outputs]
        for topic in pipeline.outputs:
            if topic in (*pipeline.streams, *pipeline.tables):
                raise DefinitionError(
                    f"{pipeline.where}: pipeline {pipeline.name} would read its own output {topic.name}"
                )
            if names.count(topic.name) > 1:
                raise DefinitionError(f"{pipeline.where}: pipeline {pipeline.name} names {topic.name} twice in into=")
        self._pipelines[pipeline.name] = pipeline

    def _output(self, into: Topic | str, key: tuple[str, ...], mode: Mode, partitions: int, where: str) -> Topic:
        declared = into if isinstance(into, Topic) else self._topics.get(into)
        if declared is None:
            if mode != "append" and not key:
                raise DefinitionError(f"{where}: mode {mode} changes rows: say by which key= they are known")
            assert isinstance(into, str)
            return self._add_topic(Topic(into, None, key, partitions, mode != "append", where=where))
        topic = self._find_topic(declared, where)
        if key and key != topic.key:
            known = ", ".join(topic.key) or "none"
            raise DefinitionError(
                f"{where}: the key of topic {topic.name} is declared as {known}, the pipeline says {', '.join(key)}"
            )
        if mode != "append" and not topic.key:
            raise DefinitionError(f"{where}: mode {mode} changes rows: topic {topic.name} needs a key")
        return self._declared_output(topic, where)

    def _declared_output(self, topic: Topic, where: str) -> Topic:
        """``topic``. Refused if it already has a writer, or a reader, since that would form a cycle."""
        if topic.captured:
            raise DefinitionError(f"{where}: topic {topic.name} is written by a capture ({topic.where})")
        for other in self._pipelines.values():
            if any(output.name == topic.name for output in other.outputs):
                raise DefinitionError(f"{where}: topic {topic.name} is written by pipeline {other.name} already")
            if topic in (*other.streams, *other.tables):
                raise DefinitionError(
                    f"{where}: pipeline {other.name} ({other.where}) reads {topic.name}: declare what writes a topic "
                    "before what reads it; pipelines must not form a circle"
                )
        return topic

    def _find_input(self, entry: Input | str, where: str) -> Input:
        if isinstance(entry, Table):
            topic = self._find_topic(entry.topic, where)
            if not topic.key and not topic.captured:
                raise DefinitionError(f"{where}: topic {topic.name} has no key, so it cannot be read as a table")
            return topic.table()
        return self._find_topic(entry, where)

    def _is_declared(self, topic: Topic | str) -> bool:
        return isinstance(topic, Topic) or topic in self._topics

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
    _check_arguments(name, function, inputs, f"{len(inputs)} inputs", where)


def _check_arguments(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], described: str, where: str
) -> None:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise DefinitionError(
            f"{where}: pipeline {name} has {described}, but its function cannot be called with them: {error}"
        ) from error


def _check_on_damaged(word: str, where: str) -> None:
    if word not in ON_DAMAGED:
        raise DefinitionError(f"{where}: on_damaged is one of {', '.join(ON_DAMAGED)}, not {word!r}")


def _check_name(word: str, name: str, where: str) -> None:
    if not isinstance(name, str) or not is_topic_name(name):
        raise DefinitionError(f"{where}: invalid {word} name {name!r}: use letters, digits, '.', '_' and '-' only")
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
