"""The data source ``mainstem``: any Kafka-protocol log in Spark, batch and stream, without a jar.

    spark.dataSource.register(MainstemDataSource)
    spark.read.format("mainstem").option("kafka.bootstrap.servers", …).option("subscribe", "flights").load()

Columns are a record's own, or (option ``valueSchema``: DDL, or ``registered`` for the schema that the topic has in the
log) the topic's typed ones beside ``_offset``, ``_partition`` and ``_timestamp``. With ``table=true`` a batch read
gives the latest value of each key. Spark makes these objects in short-lived planner processes and sends them to tasks
pickled: none of them holds a connection.

A stream's end offsets are last stable offsets: were they high watermarks, a transaction that commits later below them
would be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mainstem.client.wire.cluster import EARLIEST, LATEST, WireClient
from mainstem.errors import ConfigError, SchemaError
from mainstem.model import Position, TopicPartition
from mainstem.spark import dead_letters
from mainstem.spark.clients import borrowed, opened
from mainstem.spark.columns import RECORD_COLUMNS, record_ddl, typed_columns, typed_ddl
from mainstem.spark.offsets import (
    NO_LIMIT,
    StreamOffsets,
    limited,
    require_same_lives,
    resolve,
    topics_of,
)
from mainstem.spark.options import REGISTERED, ReadOptions, WriteOptions
from mainstem.spark.ranges import ScanPartition, plan
from mainstem.spark.schemas import require_columns
from mainstem.spark.task_reads import TableRead, read_partition

# How long a stream waits for news before it tells Spark that there is none: the idle query's only work.
_NEWS_WAIT_MS = 250


class MainstemDataSource(DataSource):
    """Spark's entry point; see the module."""

    @classmethod
    def name(cls) -> str:
        return "mainstem"

    def schema(self) -> str:
        options = ReadOptions.parse(self.options)
        if options.value_schema is None:
            return record_ddl(options.columns)
        corrupt = options.values.shown_corrupt
        return typed_ddl(_value_schema(options), with_place=not options.as_table, corrupt=corrupt)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(self._reading(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return LogStreamReader(self._reading(schema), schema)

    def _reading(self, schema: StructType) -> ReadOptions:
        """The options, once what was asked for is there. Raises SchemaError for columns that cannot be."""
        options = ReadOptions.parse(self.options)
        require_columns(schema, _offered(options))
        if options.values.dead_letter_topic is not None:
            dead_letters.create(options.log, options.values.dead_letter_topic)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from mainstem.spark.sink import LogWriter  # the encoder is loaded by those who write

        _refuse_overwrite(overwrite)
        return LogWriter(WriteOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from mainstem.spark.sink import LogStreamWriter

        _refuse_overwrite(overwrite)
        return LogStreamWriter(WriteOptions.parse(self.options), schema)


class LogReader(DataSourceReader):
    """A batch scan. What it reads is fixed when Spark plans it, unless it is a pipeline's table."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with borrowed(options.log) as client:
            topics = topics_of(client, options)
            if options.as_table:
                return _table_partitions(client, options, topics)
            partitions = [tp for _, tps in topics.values() for tp in tps]
            start = resolve(client, partitions, EARLIEST if options.starting is None else options.starting)
            end = resolve(client, partitions, LATEST if options.ending is None else options.ending, options.isolation)
        return plan(start, end, options.min_partitions) or [ScanPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)


def _table_partitions(
    client: WireClient, options: ReadOptions, topics: dict[str, tuple[str, tuple[TopicPartition, ...]]]
) -> list[InputPartition]:
    """One input partition for each of the table's partitions: a key lies in one of them."""
    partitions = [tp for _, tps in topics.values() for tp in tps]
    end = Position() if options.checkpoint else resolve(client, partitions, LATEST, options.isolation)
    return [
        TableRead(tp, topic_id, None if options.checkpoint else end[tp])
        for topic_id, tps in topics.values()
        for tp in tps
    ]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Lives in one driver-side process for as long as the query runs; owned by Spark's one thread there."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.as_table:
            raise ConfigError("a table is read by spark.read, not as a stream")
        if options.ending is not None:
            raise ConfigError("option endingOffsets is for batch reads; a stream has no end")
        self._options = options
        self._schema = schema
        self._target: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        options = self._options
        with borrowed(options.log) as client:
            topics = topics_of(client, options)
            partitions = [tp for _, tps in topics.values() for tp in tps]
            start = resolve(client, partitions, LATEST if options.starting is None else options.starting)
        ids = {topic: topic_id for topic, (topic_id, _) in topics.items()}
        return StreamOffsets(start, ids, Position()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        since = StreamOffsets.from_json(start)
        with borrowed(self._options.log) as client:
            topics = topics_of(client, self._options)
            require_same_lives(since, {topic: topic_id for topic, (topic_id, _) in topics.items()})
            partitions = [tp for _, tps in topics.values() for tp in tps]
            ends = self._ends(client, partitions, since.position)
            if self._target is None and since.position.covers(ends):
                ends = self._after_waiting(client, partitions, since.position)
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else NO_LIMIT
            ends = limited(since.position, ends, rows_max)
            if since.position.covers(ends):
                return start
            ids = {topic: topic_id for topic, (topic_id, _) in topics.items()}
            return StreamOffsets(since.position | ends, ids, self._table_ends(client)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with borrowed(self._options.log) as client:
            partitions = [tp for _, tps in topics_of(client, self._options).values() for tp in tps]
            self._target = resolve(client, partitions, LATEST, self._options.isolation)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with borrowed(self._options.log) as client:
            topics = topics_of(client, self._options)
            partitions = [tp for _, tps in topics.values() for tp in tps]
            ends = resolve(client, partitions, LATEST, self._options.isolation)
        ids = {topic: topic_id for topic, (topic_id, _) in topics.items()}
        return StreamOffsets(ends, ids, Position()).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        return plan(first.position, last.position, self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)

    def _ends(self, client: WireClient, partitions: list[TopicPartition], since: Position) -> Position:
        """The ends of the partitions; with AvailableNow, of those that were there at the start, as they were then."""
        if self._target is not None:
            return self._target
        return resolve(client, partitions, LATEST, self._options.isolation)

    def _after_waiting(self, client: WireClient, partitions: list[TopicPartition], since: Position) -> Position:
        """The ends, once there is something behind ``since`` or the wait is over."""
        offsets = {tp: since.get(tp, 0) for tp in partitions}
        client.fetch(offsets, max_wait_ms=_NEWS_WAIT_MS, min_bytes=1, max_bytes=1, partition_max_bytes=1)
        return self._ends(client, partitions, since)

    def _table_ends(self, client: WireClient) -> Position:
        """Where the tables end that the query joins: decided here, once for each micro-batch, and checkpointed."""
        if not self._options.tables:
            return Position()
        found = client.metadata(self._options.tables, wait=True)
        partitions = [TopicPartition(name, number) for name in found for number in found[name].partitions]
        return resolve(client, partitions, LATEST, self._options.isolation)


def _offered(options: ReadOptions) -> Mapping[str, str]:
    if options.value_schema is None:
        return RECORD_COLUMNS
    corrupt = options.values.corrupt_column
    return typed_columns(_value_schema(options), with_place=not options.as_table, corrupt=corrupt)


def _value_schema(options: ReadOptions) -> str:
    assert options.value_schema is not None
    if options.value_schema.lower() != REGISTERED:
        return options.value_schema
    from mainstem.schema.registry import lookup

    if len(options.topics) != 1:
        raise ConfigError("option valueSchema=registered needs one topic in the option subscribe")
    with opened(options.log) as log:
        registered = lookup(log, options.topics[0])
    if registered is None:
        raise SchemaError(f"topic {options.topics[0]} has no registered schema; give option valueSchema as DDL")
    return registered.schema.ddl_text()


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigError('a log is only ever appended to: use mode "append" (or output mode append)')
