"""A topic's columns as a JSON Schema: the one that its writers register. Pure functions.

Properties are in the order of the columns, may be missing or null, and no others are allowed: so columns can be added
under the compatibility level BACKWARD, the registry's default. Types are those of the product's JSON
(docs/reference/types.md): times are text in RFC 3339, bytes are base64.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from mainstem.schema.arrow import value_type
from mainstem.schema.types import TopicSchema


def json_schema_of(topic: str, schema: TopicSchema) -> str:
    """The JSON Schema of a topic's columns, as JSON text."""
    properties = {column.name: _nullable(value_type(column.type)) for column in schema.columns}
    return json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": topic,
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
    )


def _nullable(kind: pa.DataType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _type(kind)]}


def _type(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {field.name: _nullable(field.type) for field in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _nullable(kind.item_type)}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type)}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    return {"type": "boolean"} if pa.types.is_boolean(kind) else {"type": "string"}
