"""Avro schemas, as far as reading records takes: parsing them, the columns that they mean, and one value at a time.

A column has the type that the field's Avro type has in Spark SQL; a union with null makes it nullable, as all typed
columns are. Nested values (arrays, maps, records, other unions) become their JSON text, as in a topic's own schema.
Contract of ``read_value``: for any bytes, the value or a SchemaError, in memory bounded by the bytes. Parsed schemas
are not changed after; safe from any thread.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from mainstem.errors import SchemaError
from mainstem.schema.types import Column, TopicSchema

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NESTED: Final = ("array", "map", "record", "union")
_COLUMN_TYPES: Final = {
    "null": "STRING",
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL_TYPES: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_LOGICAL_OF: Final = {"date": ("int",), "decimal": ("bytes", "fixed")}
_DEPTH_MAX: Final = 64


@dataclass(slots=True, eq=False)
class AvroType:
    """A type. ``branches`` are a union's, or the one of an array's items or a map's values."""

    kind: str
    logical: str = ""
    size: int = 0
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    branches: tuple[AvroType, ...] = ()
    fields: tuple[AvroField, ...] = ()

    @property
    def is_nested(self) -> bool:
        return self.kind in _NESTED

    def without_null(self) -> tuple[AvroType, int]:
        """The type beside null in a union of two, and which branch is null; else the type itself, and -1."""
        if self.kind == "union" and len(self.branches) == 2:
            kinds = [branch.kind for branch in self.branches]
            if kinds.count("null") == 1:
                return self.branches[1 - kinds.index("null")], kinds.index("null")
        return self, -1

    def column_type(self) -> str:
        """The type in Spark SQL of a column of such values."""
        inner, _ = self.without_null()
        if inner.logical == "decimal":
            return f"DECIMAL({inner.precision},{inner.scale})"
        return _LOGICAL_TYPES.get(inner.logical) or _COLUMN_TYPES.get(inner.kind, "STRING")


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record. ``default`` counts where ``has_default``."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = field(default=False)


def parse_type(text: str) -> AvroType:
    """The type that an Avro schema declares. Raises SchemaError."""
    try:
        return _Parser().type_of(json.loads(text), "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(f"the Avro schema cannot be read: {type(error).__name__}: {error}") from error


def parse_avro(text: str) -> AvroType:
    """The record that an Avro schema declares. Raises SchemaError."""
    found = parse_type(text)
    if found.kind != "record" or not found.fields:
        raise SchemaError(f"the Avro schema is a {found.kind}; columns need a record with fields")
    return found


def topic_schema_of(record: AvroType) -> TopicSchema:
    """The columns of the record's fields. Raises DefinitionError for names that cannot be columns."""
    return TopicSchema(tuple(Column(each.name, each.type.column_type()) for each in record.fields))


class _Parser:
    """Reads one schema; named types are known by their full names from where they are declared on."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def type_of(self, said: Any, namespace: str) -> AvroType:
        if isinstance(said, list):
            return AvroType("union", branches=tuple(self.type_of(each, namespace) for each in said))
        if isinstance(said, str):
            return self._by_name(said, namespace)
        kind = said["type"]
        if isinstance(kind, dict | list) or (
            kind not in _PRIMITIVES and kind not in ("array", "map") and "name" not in said
        ):
            return self.type_of(kind, namespace)
        if kind in ("array", "map"):
            return AvroType(kind, branches=(self.type_of(said["items" if kind == "array" else "values"], namespace),))
        return self._declared(said, kind, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        found = self._named.get(name if "." in name else f"{namespace}.{name}") or self._named.get(f".{name}")
        if found is None:
            raise SchemaError(f"the Avro schema cannot be read: there is no type {name!r}")
        return found

    def _declared(self, said: dict[str, Any], kind: str, namespace: str) -> AvroType:
        made = AvroType("record" if kind == "error" else kind)
        if kind not in _PRIMITIVES:
            name = said["name"]
            namespace = name.rpartition(".")[0] if "." in name else said.get("namespace", namespace)
            self._named[f"{namespace}.{name.rpartition('.')[2]}"] = made
        if kind == "fixed":
            made.size = int(said["size"])
            if made.size < 0:
                raise SchemaError(f"the Avro schema cannot be read: a fixed of {made.size} bytes")
        elif kind == "enum":
            made.symbols = tuple(map(str, said["symbols"]))
        elif made.kind == "record":
            made.fields = tuple(self._field(each, namespace) for each in said["fields"])
        elif kind not in _PRIMITIVES:
            raise SchemaError(f"the Avro schema cannot be read: there is no type {kind!r}")
        self._add_logical(made, said)
        return made

    def _add_logical(self, made: AvroType, said: dict[str, Any]) -> None:
        """A logical type that is unknown, or does not go with its type, is passed over, as Avro has it."""
        logical = said.get("logicalType", "")
        if logical == "decimal":
            made.precision, made.scale = int(said["precision"]), int(said.get("scale", 0))
            if not (1 <= made.precision <= 38 and 0 <= made.scale <= made.precision):
                return
        elif logical not in _LOGICAL_TYPES:
            return
        if made.kind in _LOGICAL_OF.get(logical, ("long",)):
            made.logical = logical

    def _field(self, said: dict[str, Any], namespace: str) -> AvroField:
        return AvroField(
            str(said["name"]),
            self.type_of(said["type"], namespace),
            tuple(map(str, said.get("aliases", ()))),
            said.get("default"),
            "default" in said,
        )


def read_value(data: bytes, record: AvroType) -> Any:
    """One value, of a record its fields by name; text that is not UTF-8 keeps its bytes as lone surrogates (PEP 383).

    Raises SchemaError when the bytes are not exactly one such value.
    """
    reader = _Reader(data)
    found = reader.read(record, 0)
    if reader.at != len(data):
        raise SchemaError(f"the value has {len(data) - reader.at} bytes after its last field")
    return found


class _Reader:
    """Reads forward through one value, and refuses to pass its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._items_left = len(data)

    def read(self, kind: AvroType, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise SchemaError(f"the value is nested more than {_DEPTH_MAX} deep")
        if kind.kind in ("int", "long"):
            return self.number()
        if kind.kind in ("bytes", "string"):
            return self._text(kind.kind, self.take(self.number()))
        if kind.kind == "union":
            return self.read(_chosen(kind.branches, self.number()), depth + 1)
        if kind.kind == "record":
            return {each.name: self.read(each.type, depth + 1) for each in kind.fields}
        if kind.kind in ("array", "map"):
            return self._items(kind, depth + 1)
        return self._scalar(kind)

    def _scalar(self, kind: AvroType) -> Any:
        if kind.kind == "null":
            return None
        if kind.kind == "boolean":
            return bool(_chosen((0, 1), self.take(1)[0]))
        if kind.kind == "enum":
            return _chosen(kind.symbols, self.number())
        if kind.kind == "fixed":
            return self.take(kind.size)
        return struct.unpack("<f", self.take(4))[0] if kind.kind == "float" else struct.unpack("<d", self.take(8))[0]

    def _text(self, kind: str, data: bytes) -> bytes | str:
        return data if kind == "bytes" else data.decode("utf-8", "surrogateescape")

    def _items(self, kind: AvroType, depth: int) -> Any:
        """Blocks of items until an empty one. A value has at most as many items as bytes, because a null takes none."""
        pairs: list[tuple[str, Any]] = []
        while (count := self.number()) != 0:
            if count < 0:
                self.number()  # the block's bytes, for those who pass it over
                count = -count
            self._items_left -= count
            if self._items_left < 0:
                raise SchemaError(f"{count} more items in a value of {len(self.data)} bytes")
            for _ in range(count):
                name = str(self._text("string", self.take(self.number()))) if kind.kind == "map" else ""
                pairs.append((name, self.read(kind.branches[0], depth)))
        return dict(pairs) if kind.kind == "map" else [item for _, item in pairs]

    def number(self) -> int:
        result = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                if result >= 1 << 64:
                    break
                return (result >> 1) ^ -(result & 1)
            shift += 7
        raise SchemaError("a number of more than 64 bits")

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise SchemaError(f"a length of {count}, where {len(self.data) - self.at} bytes are left")
        self.at += count
        return self.data[self.at - count : self.at]


def _chosen(choices: Any, number: int) -> Any:
    if not 0 <= number < len(choices):
        raise SchemaError(f"choice {number} of {len(choices)}")
    return choices[number]
