"""The data source ``mainstem``: any Kafka-protocol log in Spark, batch and stream, without a jar.

    spark.dataSource.register(MainstemDataSource)
    spark.read.format("mainstem").option("kafka.bootstrap.servers", …).option("subscribe", "flights").load()

Columns are a record's own, or (option ``valueSchema``: DDL, or ``registered`` for the schema that the topic has in the
log) the topic's typed ones beside ``_offset``, ``_partition`` and ``_timestamp``. With ``table=true`` a batch read
gives the latest value of each key. Spark makes these objects in short-lived planner processes and sends them to tasks
pickled: none of them holds a connection. Planning is in ``batch_reader`` and ``stream_reader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mainstem.errors import ConfigError, SchemaError
from mainstem.schema.avro import parse_avro, topic_schema_of
from mainstem.spark.clients import opened
from mainstem.spark.features import HAS_ADMISSION_CONTROL
from mainstem.spark.options.columns import OFFERED_COLUMNS, record_ddl, typed_columns, typed_ddl
from mainstem.spark.options.options import REGISTERED, WriteOptions
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning.batch_reader import LogReader
from mainstem.spark.planning.stream_reader import LogStreamReader
from mainstem.spark.schemas import require_columns, topic_schema
from mainstem.spark.tasks import dead_letters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.schema.topic_schemas import RegisteredSchema

# As long as Kafka's producers go on trying, and longer than a restart of a machine takes.
STREAM_TIMEOUT_S: Final = 120.0
_Options = TypeVar("_Options", ReadOptions, WriteOptions)


class MainstemDataSource(DataSource):
    """Spark's entry point to the ``mainstem`` data source."""

    @classmethod
    def name(cls) -> str:
        return "mainstem"

    def schema(self) -> str:
        options = _resolved(ReadOptions.parse(self.options))
        if options.value_schema is None:
            return record_ddl(options.columns)
        corrupt = options.values.shown_corrupt
        return typed_ddl(_value_schema(options), with_place=not options.as_table, corrupt=corrupt)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(self._reading(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = self._patient(self._reading(schema))
        if HAS_ADMISSION_CONTROL:
            return LogStreamReader(options, schema)
        from mainstem.spark.planning.start_tracking_reader import StartTrackingReader  # for Spark 4.0 and 4.1

        return StartTrackingReader(options, schema)

    def _reading(self, schema: StructType) -> ReadOptions:
        """The options, once what was asked for is there. Raises SchemaError for columns that cannot be."""
        options = _resolved(ReadOptions.parse(self.options))
        require_columns(schema, _offered(options))
        if options.values.dead_letter_topic is not None:
            dead_letters.create(options.log, options.values.dead_letter_topic)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from mainstem.spark.sink.sink import LogWriter  # the encoder is loaded by those who write

        _refuse_overwrite(overwrite)
        return LogWriter(self._writing(schema), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from mainstem.spark.sink.sink import LogStreamWriter

        _refuse_overwrite(overwrite)
        return LogStreamWriter(self._patient(self._writing(schema)), schema)

    def _writing(self, schema: StructType) -> WriteOptions:
        """The options, with the rows' columns where they say how to encode them. Raises SchemaError."""
        options = WriteOptions.parse(self.options)
        formats = options.formats
        if not formats.is_encoded:
            return options
        return replace(options, formats=replace(formats, columns=topic_schema(schema)))

    def _patient(self, options: _Options) -> _Options:
        """For a stream, which outwaits a log that is away for a minute; unless the options say how long to wait."""
        if any(name.lower() == "kafka.request.timeout.ms" for name in self.options):
            return options
        return replace(options, log=replace(options.log, timeout_s=STREAM_TIMEOUT_S))


def register_source(spark: SparkSession) -> None:
    """Make the format known in the session."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(MainstemDataSource)
    except AnalysisException as error:
        # Spark 4.0 replaces no source that it has found by itself, as it finds ``pyspark_mainstem``.
        if error.getErrorClass() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _resolved(options: ReadOptions) -> ReadOptions:
    """With the reader's Avro schema among them: without one that was given, the registry's latest of the topic."""
    values = options.values
    if _is_registered(options) and values.encoding is None and values.avro_schema is None:
        registered = _registered(options)
        has_keys = values.has_encoded_keys or registered.key_encoding is not None
        return replace(options, values=replace(values, encoding=registered.encoding, has_encoded_keys=has_keys))
    if values.registry is None or values.avro_schema is not None:
        return options
    if len(options.topics) != 1 and values.subject is None:
        raise ConfigError(
            "option schemaRegistry without avroSchema needs one topic in the option subscribe, or valueSubject"
        )
    subject = values.subject or f"{options.topics[0]}-value"
    return replace(options, values=replace(values, avro_schema=values.registry.latest(subject)))


def _offered(options: ReadOptions) -> Mapping[str, str]:
    if options.value_schema is None:
        return OFFERED_COLUMNS
    corrupt = options.values.corrupt_column
    return typed_columns(_value_schema(options), with_place=not options.as_table, corrupt=corrupt)


def _value_schema(options: ReadOptions) -> str:
    assert options.value_schema is not None
    if options.values.avro_schema is not None:
        return topic_schema_of(parse_avro(options.values.avro_schema)).ddl_text()
    if not _is_registered(options):
        return options.value_schema
    return _registered(options).schema.ddl_text()


def _is_registered(options: ReadOptions) -> bool:
    return options.value_schema is not None and options.value_schema.lower() == REGISTERED


def _registered(options: ReadOptions) -> RegisteredSchema:
    """The schema that the log has of the one topic that is read."""
    from mainstem.schema.topic_schemas import lookup

    if len(options.topics) != 1:
        raise ConfigError("option valueSchema=registered needs one topic in the option subscribe")
    with opened(options.log) as log:
        registered = lookup(log, options.topics[0])
    if registered is None:
        raise SchemaError(f"topic {options.topics[0]} has no registered schema; give option valueSchema as DDL")
    return registered


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigError('a log is only ever appended to: use mode "append" (or output mode append)')
