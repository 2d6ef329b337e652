"""Writes an Avro type as the text that Avro's Java library writes.

Clients compare schemas by text, and most of them get their texts from that library. So the order of attributes, the
spelling of numbers and the places where a namespace is left out follow it exactly.

Contract: pure functions; the text is compact JSON on one line. The reader bounds the depth of what it writes, except
where types of references are written in full: ``TooDeepError`` then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from mainstem.registry.formats.avro.avro_types import KINDS, NAMED, AvroNode, AvroNodeField

DEPTH_MAX: Final = 100
"""How many types may be nested in each other in one text."""
_ESCAPE: Final = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_LOGICAL_KINDS: Final = {
    "date": {"int"},
    "time-millis": {"int"},
    "uuid": {"string", "fixed"},
    "duration": {"fixed"},
    "decimal": {"bytes", "fixed"},
    "big-decimal": {"bytes"},
    "time-micros": {"long"},
} | {f"{zone}timestamp-{unit}": {"long"} for zone in ("", "local-") for unit in ("millis", "micros", "nanos")}
_LOGICAL_SIZES: Final = {"uuid": 16, "duration": 12}


class TooDeepError(Exception):
    """The text would nest more than ``DEPTH_MAX`` types."""


def avro_text(node: AvroNode, known: Iterable[str] = (), *, normalized: bool = False) -> str:
    """The text of a type. Types with the full names ``known`` are written as names. Raises TooDeepError."""
    writer = _Writer(set(known), normalized)
    writer.node(node, "", 0)
    return "".join(writer.parts)


class _Writer:
    def __init__(self, known: set[str], normalized: bool) -> None:
        self.parts: list[str] = []
        self._known = known
        self._normalized = normalized

    def node(self, node: AvroNode, namespace: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise TooDeepError
        if node.kind in NAMED:
            self._named(node, namespace, depth)
        elif node.kind == "union":
            for index, branch in enumerate(node.branches):
                self.parts.append("," if index else "[")
                self.node(branch, namespace, depth + 1)
            self.parts.append("]" if node.branches else "[]")
        elif node.items is None and not node.properties:
            self.parts.append(f'"{node.kind}"')
        else:
            self.parts.append(f'{{"type":"{node.kind}"')
            if node.items is not None:
                self.parts.append(',"items":' if node.kind == "array" else ',"values":')
                self.node(node.items, namespace, depth + 1)
            self._properties(node)
            self.parts.append("}")

    def _named(self, node: AvroNode, namespace: str, depth: int) -> None:
        if node.name in self._known:
            self.parts.append(f'"{_qualified(node.name, namespace)}"')
            return
        self._known.add(node.name)
        kind = "record" if self._normalized and node.kind == "error" else node.kind
        self.parts.append(f'{{"type":"{kind}","name":"{node.simple_name}"')
        if node.namespace != namespace:
            self.parts.append(f',"namespace":"{node.namespace}"')
        if node.doc is not None and not (self._normalized and not node.doc):
            self.parts.append(f',"doc":{json_text(node.doc)}')
        if node.kind == "fixed":
            self.parts.append(f',"size":{node.size}')
        elif node.kind == "enum":
            self.parts.append(f',"symbols":{json_text(node.symbols)}')
            if node.default is not None:
                self.parts.append(f',"default":"{node.default}"')
        else:
            self.parts.append(',"fields":[')
            for index, each in enumerate(node.fields or ()):
                self._field(each, node.namespace, depth + 1, comma=index > 0)
            self.parts.append("]")
        self._properties(node)
        self._aliases([_qualified(alias, node.namespace) for alias in self._ordered(node.aliases)])
        self.parts.append("}")

    def _field(self, field: AvroNodeField, namespace: str, depth: int, *, comma: bool) -> None:
        self.parts.append(f'{"," if comma else ""}{{"name":"{field.name}","type":')
        self.node(field.type, namespace, depth)
        if field.doc is not None:
            self.parts.append(f',"doc":{json_text(field.doc)}')
        if field.has_default:
            default = _normalized_default(field.type, field.default) if self._normalized else field.default
            self.parts.append(f',"default":{json_text(default, self._normalized)}')
        if field.order != "ascending":
            self.parts.append(f',"order":"{field.order}"')
        self._aliases(self._ordered(field.aliases))
        self._write(field.properties, sorted(field.properties) if self._normalized else field.properties)
        self.parts.append("}")

    def _ordered(self, aliases: list[str]) -> list[str]:
        return sorted(aliases) if self._normalized else aliases

    def _aliases(self, aliases: list[str]) -> None:
        if aliases:
            self.parts.append(f',"aliases":{json_text(aliases)}')

    def _properties(self, node: AvroNode) -> None:
        keys: Iterable[str] = node.properties
        if self._normalized:
            first = _logical_keys(node)
            keys = [*first, *sorted(node.properties.keys() - set(first))]
        self._write(node.properties, keys)

    def _write(self, properties: dict[str, Any], keys: Iterable[str]) -> None:
        for key in keys:
            self.parts.append(f",{json_text(key)}:{json_text(properties[key], self._normalized)}")


def _qualified(name: str, namespace: str) -> str:
    """A name as it is written within a namespace. A simple name that is also a kind of type would be ambiguous."""
    own, _, simple = name.rpartition(".")
    return simple if own == namespace and simple not in KINDS else name


def _logical_keys(node: AvroNode) -> list[str]:
    """The properties of a valid logical type: the normalized text has them first."""
    name = node.properties.get("logicalType")
    if not isinstance(name, str) or node.kind not in _LOGICAL_KINDS.get(name, ()):
        return []
    if name != "decimal":
        is_valid = node.kind != "fixed" or node.size == _LOGICAL_SIZES[name]
        return ["logicalType"] if is_valid else []
    precision, scale = node.properties.get("precision"), node.properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision == 0:
        return []
    if node.kind == "fixed" and 10**precision > 2 ** max(8 * node.size - 1, 0):
        return []
    return ["logicalType", "precision", "scale"] if scale else ["logicalType", "precision"]


def _normalized_default(node: AvroNode, value: Any) -> Any:
    """The default with every integer of a float or double written as one: 1 and 1.0 mean the same there."""
    if node.kind == "union":
        return _normalized_default(node.branches[0], value)
    if node.kind in {"float", "double"} and type(value) is int:
        return float(value)
    if isinstance(value, list) and node.kind == "array" and node.items is not None:
        return [_normalized_default(node.items, each) for each in value]
    if isinstance(value, dict) and node.kind == "map" and node.items is not None:
        return {key: _normalized_default(node.items, each) for key, each in value.items()}
    if isinstance(value, dict) and node.fields is not None:
        types = {each.name: each.type for each in node.fields}
        return {key: _normalized_default(types[key], each) if key in types else each for key, each in value.items()}
    return value


def json_text(value: Any, sort_keys: bool = False) -> str:
    """A JSON value as Java's Jackson writes it; Python's own writer spells numbers and control characters otherwise."""
    parts: list[str] = []
    _write_json(value, sort_keys, parts)
    return "".join(parts)


def _write_json(value: Any, sort_keys: bool, parts: list[str]) -> None:
    """One frame of the stack for each level: the reader lets properties nest deeply."""
    if isinstance(value, str):
        parts.append(f'"{_ESCAPE.sub(_escaped, value)}"')
    elif isinstance(value, float):
        parts.append(_double_text(value))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            parts.append("," if index else "[")
            _write_json(each, sort_keys, parts)
        parts.append("]" if value else "[]")
    elif isinstance(value, dict):
        for index, key in enumerate(sorted(value) if sort_keys else value):
            parts.append(f"{',' if index else '{'}{json_text(key)}:")
            _write_json(value[key], sort_keys, parts)
        parts.append("}" if value else "{}")
    else:
        parts.append(json.dumps(value))


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _double_text(value: float) -> str:
    """As Java's ``Double.toString``: with an exponent below 0.001 and from ten million on."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value))
    digits = "".join(str(digit) for digit in exact.as_tuple().digits).rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exact.adjusted()}"
