"""A topic's whole history as one DataFrame: its lake's Parquet files up to their position, and the log from there.

    frame = table("flights", lake="…/views/flights-lake")

No gap and no overlap: a commit of the lake is looked up once, its files (which are never changed, and stay for an hour
when they are merged) are read as they are, and the log from exactly the position of that commit. Both halves have the
columns and types of a read of the log. The frame ends where the log ended when Spark first planned it, as
any read of a log does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType

from mainstem.client.http.http import JsonHttp
from mainstem.client.log import Log
from mainstem.errors import ConfigError
from mainstem.lake.columns import ERROR, HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE, UNREADABLE, VALUE
from mainstem.lake.installed import require_iceberg
from mainstem.model import TopicPartition, topic_was_recreated
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.spark.options.columns import quoted
from mainstem.spark.options.options import BOOTSTRAP, REGISTERED
from mainstem.spark.session import register, session

if TYPE_CHECKING:
    from typing import Any

    from mainstem.lake.reading import LakeFiles
    from mainstem.lake.table import LakeFile

_GATEWAY = "http://localhost:8080"
_BOOTSTRAP = "localhost:9092"
_RECORD = {
    "key": KEY,
    "value": VALUE,
    "partition": PARTITION,
    "offset": OFFSET,
    "timestamp": TIMESTAMP,
    "timestampType": TIMESTAMP_TYPE,
    "headers": HEADERS,
}


def table(
    topic: str,
    *,
    lake: Path | str | None = None,
    gateway: str = _GATEWAY,
    bootstrap: str = _BOOTSTRAP,
    schema: Any = None,
    records: bool = False,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Every record of ``topic``, from its lake and the log: its typed columns, `_offset`, `_partition`, `_timestamp`.

    ``lake`` is the lake's directory, which Spark's workers have to see; without it the ``gateway`` is asked for a Lake
    view of the topic. ``schema``: DDL, a dataclass or a model, where the registered one is not meant. Tombstones and
    values that are no JSON objects are left out. With ``records``, or where the topic has no schema, the columns are
    the records' own (key, value, …), and nothing is left out.

    Raises ConfigError when there is no lake of the topic as it is now; InputError and StorageError when it cannot be
    read; MissingDependencyError, UnknownTopicError, LogUnavailableError.
    """
    require_iceberg()
    from mainstem.lake.reading import read_lake  # loads Iceberg

    spark = session(f"mainstem {topic}") if spark is None else register(spark)
    archive = read_lake(Path(lake) if lake is not None else _location(topic, gateway))
    with Log(bootstrap) as log:
        options = {BOOTSTRAP: bootstrap, "subscribe": topic, "startingOffsets": _position_of(archive, topic, log)}
        if not records and (schema is not None or lookup(log, topic) is not None):
            ddl = REGISTERED if schema is None else schema_of(schema).ddl_text()
            options |= {"valueSchema": ddl, "mode": "DROPMALFORMED"}
        else:
            options |= {"includeHeaders": "true"}
    newer = spark.read.format("mainstem").options(**options).load()
    if "valueSchema" in options:
        older = _rows(spark, archive)
        return older.select(*(_typed(field, older) for field in newer.schema)).union(newer)
    older = _read(spark, archive, archive.files)
    own = {"topic": f"'{topic}'", **_RECORD}
    columns = (_cast(own[field.name], field.dataType, field.name) for field in newer.schema)
    return older.selectExpr(*columns).union(newer)


def _location(topic: str, gateway: str) -> Path:
    """The lake of ``topic`` that the gateway's views name; of several the one that is furthest."""
    views = JsonHttp(gateway).call("GET", "/views")["views"]
    lakes = [view for view in views if view["topic"] == topic and view.get("location")]
    if not lakes:
        raise ConfigError(f"{gateway} has no Lake view of topic {topic}: declare one, or name its directory by `lake`")
    return Path(max(lakes, key=lambda view: (-int(view["lag"]), str(view["name"])))["location"])


def _position_of(lake: LakeFiles, topic: str, log: Log) -> str:
    """Where the log goes on, for each of its partitions, as Spark's options say it."""
    info = log.describe_topic(topic).info
    if lake.topic != topic:
        raise ConfigError(f"the lake in {lake.directory} is of topic {lake.topic}, not of {topic}")
    if topic_was_recreated(lake.topic_id, info.topic_id):
        raise ConfigError(f"topic {topic} was deleted and recreated since the lake in {lake.directory} read it")
    starts = {str(n): lake.position.get(TopicPartition(topic, n), -2) for n in range(info.partitions)}
    return json.dumps({topic: starts})


def _read(spark: SparkSession, lake: LakeFiles, files: Sequence[LakeFile]) -> DataFrame:
    schema = from_arrow_schema(lake.schema)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(str(file.path) for file in files))


def _rows(spark: SparkSession, lake: LakeFiles) -> DataFrame:
    """The records that a read of typed columns gives: no tombstones, and JSON objects, whether all of it fits or not.

    To tell a tombstone Spark has to read the values, which are most of a lake. So files without one are read apart.
    """
    error = sf.col(ERROR)
    is_object = error.isNull() | ~error.startswith(UNREADABLE)
    plain = [file for file in lake.files if file.tombstones == 0]
    others = [file for file in lake.files if file.tombstones != 0]
    if plain and not others:
        return _read(spark, lake, plain).where(is_object)
    rows = _read(spark, lake, others).where(sf.col(VALUE).isNotNull() & is_object)
    return _read(spark, lake, plain).where(is_object).union(rows) if plain else rows


def _typed(field: StructField, lake: DataFrame) -> Column:
    """The lake's column as a read of the log gives it. Raises ConfigError when the lake does not have it."""
    if field.name not in lake.columns:
        raise ConfigError(
            f"the lake has no column {field.name} yet: its view takes a new schema up when its host starts again"
        )
    column = quoted(field.name)
    if isinstance(field.dataType, (ArrayType, MapType, StructType)):
        return sf.from_json(sf.col(column), field.dataType).alias(field.name)
    value = f"unbase64({column})" if isinstance(field.dataType, BinaryType) else column
    return sf.expr(_cast(value, field.dataType, field.name))


def _cast(value: str, data_type: DataType, name: str) -> str:
    """SQL text: by ``Column``s the frame of a lake's records takes 402 requests to the JVM, by text 49."""
    return f"CAST({value} AS {data_type.simpleString()}) AS {quoted(name)}"
