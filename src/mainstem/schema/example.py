"""An example of a value that fits a schema, to begin writing one from. Pure functions."""

from __future__ import annotations

import json
from typing import Any, Final

from mainstem.errors import DefinitionError
from mainstem.schema.ddl import fields_of, nested_parts
from mainstem.schema.types import TopicSchema, type_name

_SCALARS: Final[dict[str, Any]] = {
    "STRING": "text",
    "BOOLEAN": True,
    "TINYINT": 1,
    "SMALLINT": 1,
    "INT": 1,
    "BIGINT": 1,
    "FLOAT": 1.5,
    "DOUBLE": 1.5,
    "DATE": "2026-01-31",
    "TIMESTAMP": "2026-01-31T12:00:00Z",
    "TIMESTAMP_NTZ": "2026-01-31T12:00:00",
    "BINARY": "AAE=",
}
_DEPTH_MAX: Final = 20


def example_value(schema: TopicSchema) -> dict[str, Any]:
    """A value with all columns of the schema."""
    return {column.name: _of(column.type, 0) for column in schema.columns}


def example_key(value: dict[str, Any], key: tuple[str, ...]) -> str | None:
    """The key of a value as text, made of these columns as writers make it; None without any."""
    parts = [value[name] for name in key]
    if not parts:
        return None
    if len(parts) > 1:
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    return parts[0] if isinstance(parts[0], str) else json.dumps(parts[0], separators=(",", ":"))


def _of(name: str, depth: int) -> Any:
    known = type_name(name) or "STRING"
    if known in _SCALARS:
        return _SCALARS[known]
    if known.startswith("DECIMAL"):
        return "1" if known.endswith(",0)") else "0.5"
    kind, inside = nested_parts(known)
    if kind != "STRUCT" or depth >= _DEPTH_MAX:
        return [] if kind == "ARRAY" else {}
    try:
        fields = fields_of(inside)
    except DefinitionError:
        return {}
    return {field: _of(of_field, depth + 1) for field, of_field in fields}
