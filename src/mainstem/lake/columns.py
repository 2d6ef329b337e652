"""The columns of a lake: each record byte for byte, and its value typed by the topic's schema.

The record's columns begin with an underscore. The typed columns are what a SQL view reads of the value, in types that
Parquet's readers share: TINYINT and SMALLINT are stored as INT; a nested value and BINARY are their JSON text. All of
them may be null: an archive keeps what does not fit its schema too, and ``_error`` says why. Pure functions.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from mainstem.errors import DefinitionError
from mainstem.schema.types import TopicSchema

KEY: Final = "_key"
VALUE: Final = "_value"
HEADERS: Final = "_headers"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
TIMESTAMP_TYPE: Final = "_timestamp_type"
ERROR: Final = "_error"

UNREADABLE: Final = "the value is "
"""How ``_error`` begins where the value is not a JSON object, so that no column can be read.

Otherwise some columns do not fit, and are null, and the others are there.
"""

_INSTANT = pa.timestamp("us", tz="UTC")
RECORD: Final = pa.schema(
    [
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field(HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIMESTAMP, _INSTANT),
        pa.field(TIMESTAMP_TYPE, pa.int32()),
        pa.field(ERROR, pa.string()),
    ]
)
"""A record, and why its value could not be read, if so. ``_timestamp_type``: 0 its producer's, 1 the log's."""

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int32(),
    "SMALLINT": pa.int32(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": _INSTANT,
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def typed_columns(schema: TopicSchema | None) -> pa.Schema:
    """The typed columns of a topic; none without a schema. Raises DefinitionError for a name that is the record's."""
    if schema is None:
        return pa.schema([])
    taken = sorted(set(schema.names) & set(RECORD.names))
    if taken:
        raise DefinitionError(f"column {', '.join(taken)}: a lake keeps the record itself under that name; rename it")
    return pa.schema([pa.field(column.name, _arrow_type(column.type)) for column in schema.columns])


def _arrow_type(spark_type: str) -> pa.DataType:
    if spark_type.startswith("DECIMAL("):
        precision, scale = spark_type[len("DECIMAL(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES.get(spark_type, pa.string())
