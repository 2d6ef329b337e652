"""A topic's columns as an Avro schema: the one that its writers register and its readers resolve by.

Every field is a union with null whose default is null, in the order of the columns: all typed columns may be null, and
columns may then be added and removed under every compatibility level. What is ``NOT NULL`` is checked where it is for
JSON. Pure functions.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from mainstem.errors import DefinitionError
from mainstem.schema.arrow import value_type
from mainstem.schema.types import TopicSchema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS: Final = (
    (pa.types.is_string, "string"),
    (pa.types.is_boolean, "boolean"),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width <= 32, "int"),
    (pa.types.is_integer, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_floating, "double"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
)


def avro_schema_of(topic: str, schema: TopicSchema, *, nullable: bool = True) -> str:
    """The Avro schema of a topic's columns, as JSON text. Raises DefinitionError for a name that Avro does not take.

    Not ``nullable``: that of a key, whose columns are never null.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    record = name if _NAME.fullmatch(name) else f"_{name}"
    fields = [(column.name, value_type(column.type)) for column in schema.columns]
    said = _record(record, fields, topic)
    if not nullable:
        said["fields"] = [{"name": each["name"], "type": each["type"][1]} for each in said["fields"]]
    return json.dumps(said)


def arrow_schema(schema: TopicSchema) -> pa.Schema:
    """The columns in Arrow's types, nested ones as such."""
    return pa.schema([pa.field(column.name, value_type(column.type)) for column in schema.columns])


def _record(name: str, fields: list[tuple[str, pa.DataType]], topic: str) -> dict[str, Any]:
    for field, _ in fields:
        if not _NAME.fullmatch(field):
            raise DefinitionError(
                f"topic {topic}: column {field!r} cannot be a field in Avro: use letters, digits and '_' only"
            )
    parts = [
        {"name": field, "type": ["null", _type(f"{name}_{field}", kind, topic)], "default": None}
        for field, kind in fields
    ]
    return {"type": "record", "name": name, "fields": parts}


def _type(name: str, kind: pa.DataType, topic: str) -> Any:
    if pa.types.is_struct(kind):
        return _record(name, [(field.name, field.type) for field in kind], topic)
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _type(name, kind.item_type, topic)]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(name, kind.value_type, topic)]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        logical = "timestamp-micros" if kind.tz else "local-timestamp-micros"
        return {"type": "long", "logicalType": logical}
    return next(avro for is_kind, avro in _SCALARS if is_kind(kind))
