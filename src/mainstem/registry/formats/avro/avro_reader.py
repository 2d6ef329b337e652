"""Reads the text of an Avro schema, and the texts that it refers to, into types.

It accepts what Avro's Java library accepts when it checks a new schema strictly: names of ASCII letters, digits and
underscores, defaults that fit their types, comments, and a second definition of a name that equals the first. One
thing differs: a name must be defined before it is used, as the specification says.

Contract: a reader serves one schema and one thread. Time is linear in the length of the texts. Any broken text raises
InvalidSchemaError, never another error.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from mainstem.json_depth import is_too_deep
from mainstem.registry.formats.avro.avro_types import ABSENT, KINDS, NAMED, PRIMITIVES, AvroNode, AvroNodeField
from mainstem.registry.formats.avro.avro_writer import DEPTH_MAX, avro_text
from mainstem.registry.formats.schema_format import InvalidSchemaError, References

TYPES_MAX: Final = 20_000
"""How many types a schema and its references may have, the uses of a name included."""
_DEFAULT_DEPTH_MAX: Final = 50
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TEXT_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|/\*.*?\*/|/\*.*|//[^\n]*', re.DOTALL)
_TYPE_ATTRIBUTES: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_FIELD_ATTRIBUTES: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_INTEGERS: Final = {"int": 1 << 31, "long": 1 << 63}
_SIZE_MAX: Final = (1 << 31) - 1
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})


def read_avro(text: str, references: References) -> tuple[AvroNode, frozenset[str]]:
    """The type that a text defines, and the full names that its references define. Raises InvalidSchemaError."""
    reader = _Reader()
    for name, referenced in references.items():
        try:
            reader.read(referenced)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"reference {_shown(name)}: {error}") from error
    known = frozenset(reader.names)
    return reader.read(text), known


class _Reader:
    def __init__(self) -> None:
        self.names: dict[str, AvroNode] = {}
        self._types = 0

    def read(self, text: str) -> AvroNode:
        return self._node(_json(text), "", "", 0)

    def _node(self, value: Any, namespace: str, path: str, depth: int) -> AvroNode:
        self._types += 1
        if self._types > TYPES_MAX:
            _refuse(path, f"more than {TYPES_MAX} types: split the schema")
        if depth > DEPTH_MAX:
            _refuse("", f"more than {DEPTH_MAX} types are nested in each other: give some of them names")
        if isinstance(value, str):
            return AvroNode(value) if value in PRIMITIVES else self._named(value, namespace, path)
        if isinstance(value, list):
            return self._union(value, namespace, path, depth)
        if not isinstance(value, dict):
            _refuse(path, f"{_shown(value)} is not a type: use a name, an object or an array")
        kind = value.get("type")
        if not isinstance(kind, str):
            _refuse(path, f'the attribute "type" must be text, not {_shown(kind)}')
        if kind in NAMED:
            return self._definition(kind, value, namespace, path, depth)
        node = AvroNode(kind, properties=_others(value, _TYPE_ATTRIBUTES))
        if kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            if part not in value:
                _refuse(path, f'type "{kind}" needs the attribute "{part}"')
            node.items = self._node(value[part], namespace, f"{path}/{part}", depth + 1)
        elif kind not in PRIMITIVES:
            return self._named(kind, namespace, path)
        return node

    def _named(self, name: str, namespace: str, path: str) -> AvroNode:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        node = self.names.get(full) or self.names.get(name)
        if node is None:
            _refuse(path, f"unknown type {_shown(name)}: define it before it is used, or add a reference to it")
        return node

    def _union(self, value: list[Any], namespace: str, path: str, depth: int) -> AvroNode:
        node = AvroNode("union")
        seen = set()
        for index, each in enumerate(value):
            branch = self._node(each, namespace, f"{path}/{index}", depth + 1)
            if branch.kind == "union":
                _refuse(f"{path}/{index}", "a union may not stand directly in a union: merge their branches")
            identity = branch.name or branch.kind
            if identity in seen:
                _refuse(f"{path}/{index}", f"the union has two branches of type {identity}: remove one")
            seen.add(identity)
            node.branches.append(branch)
        return node

    def _definition(self, kind: str, value: dict[str, Any], namespace: str, path: str, depth: int) -> AvroNode:
        name = value.get("name")
        if not isinstance(name, str):
            _refuse(path, f'type "{kind}" needs a "name", not {_shown(name)}')
        given = value.get("namespace")
        name = _full_name(name, given if isinstance(given, str) else namespace, path)
        if name in KINDS & PRIMITIVES:
            _refuse(path, f"a type may not have the name of a primitive type: {name}")
        attributes = _TYPE_ATTRIBUTES | {"default"} if kind == "enum" else _TYPE_ATTRIBUTES
        node = AvroNode(kind, name, _text(value.get("doc")), properties=_others(value, attributes))
        node.aliases = [_full_name(alias, node.namespace, path) for alias in _aliases(value, path)]
        earlier = self.names.get(name)
        self.names[name] = node
        if kind == "fixed":
            node.size = _size(value.get("size"), path)
        elif kind == "enum":
            node.symbols = _symbols(value.get("symbols"), path)
            node.default = _text(value.get("default"))
            if node.default is not None and node.default not in node.symbols:
                _refuse(path, f"the enum's default {_shown(node.default)} is not one of its symbols")
        else:
            node.fields = self._fields(value.get("fields"), node, path, depth)
        if earlier is None:
            return node
        is_open = earlier.fields is None and earlier.kind in {"record", "error"}
        if is_open or not self._is_same(earlier, node):
            _refuse(path, f"type {name} is already defined otherwise: rename one of the two")
        self.names[name] = earlier
        return earlier

    def _fields(self, value: Any, record: AvroNode, path: str, depth: int) -> list[AvroNodeField]:
        if not isinstance(value, list):
            _refuse(path, f'record {record.name} needs an array "fields"')
        fields: dict[str, AvroNodeField] = {}
        for index, each in enumerate(value):
            field = self._field(each, record.namespace, f"{path}/fields/{index}", depth)
            if field.name in fields:
                _refuse(f"{path}/fields/{index}", f"record {record.name} has two fields {field.name}: rename one")
            fields[field.name] = field
        return list(fields.values())

    def _field(self, value: Any, namespace: str, path: str, depth: int) -> AvroNodeField:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            _refuse(path, f'a field must be an object with a "name", not {_shown(value)}')
        if "type" not in value:
            _refuse(path, f'field {_shown(value["name"])} needs the attribute "type"')
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            _refuse(path, f"unknown order {_shown(order)}: use ascending, descending or ignore")
        kind = self._node(value["type"], namespace, f"{path}/type", depth + 1)
        return AvroNodeField(
            name=_checked_name(value["name"], path),
            type=kind,
            doc=_text(value.get("doc")),
            default=_default(kind, value.get("default", ABSENT), path),
            order=order.lower(),
            aliases=_aliases(value, path),
            properties=_others(value, _FIELD_ATTRIBUTES),
        )

    def _is_same(self, one: AvroNode, other: AvroNode) -> bool:
        """Whether two definitions of a name mean the same; documentation and aliases may differ."""

        def meaning(node: AvroNode) -> tuple[Any, ...]:
            fields = [
                (
                    each.name,
                    avro_text(each.type, self.names),
                    each.has_default and each.default,
                    each.order,
                    each.properties,
                )
                for each in node.fields or ()
            ]
            return node.kind, node.symbols, node.default, node.size, node.properties, fields

        return meaning(one) == meaning(other)


def _json(text: str) -> Any:
    if is_too_deep(text):
        raise InvalidSchemaError("the schema's JSON is nested too deeply")
    if "/*" in text or "//" in text:
        text = _TEXT_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise InvalidSchemaError(f"the schema is not valid JSON: {error}") from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is out of the range of numbers")
    return value


def _refuse(path: str, problem: str) -> NoReturn:
    raise InvalidSchemaError(f"{path}: {problem}" if path else problem)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _others(value: dict[str, Any], attributes: frozenset[str]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in attributes}


def _checked_name(name: str, path: str) -> str:
    if not _NAME.fullmatch(name):
        _refuse(path, f"invalid name {_shown(name)}: use letters, digits and _, not starting with a digit")
    return name


def _full_name(name: str, namespace: str, path: str) -> str:
    """A name with its namespace, which the name itself may have; every part is checked."""
    own, dot, simple = name.rpartition(".")
    namespace = own if dot else namespace
    for part in namespace.split(".") if namespace else ():
        _checked_name(part, path)
    _checked_name(simple, path)
    return f"{namespace}.{simple}" if namespace else simple


def _aliases(value: dict[str, Any], path: str) -> list[str]:
    aliases = value.get("aliases")
    if aliases is None:
        return []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        _refuse(path, f'"aliases" must be an array of names, not {_shown(aliases)}')
    return list(dict.fromkeys(aliases))


def _size(value: Any, path: str) -> int:
    if type(value) is not int or not 0 <= value <= _SIZE_MAX:
        _refuse(path, f'a fixed type needs a "size" from 0 to {_SIZE_MAX}, not {_shown(value)}')
    return value


def _symbols(value: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        _refuse(path, f'an enum needs an array "symbols", not {_shown(value)}')
    seen = set()
    for each in value:
        if not isinstance(each, str):
            _refuse(path, f"a symbol of an enum must be text, not {_shown(each)}")
        if each in seen:
            _refuse(path, f"the enum has the symbol {_shown(each)} twice: remove one")
        seen.add(_checked_name(each, path))
    return value


def _default(node: AvroNode, value: Any, path: str) -> Any:
    """A field's default, checked. A float or double may have its default as text; it becomes a number."""
    if value is ABSENT:
        return ABSENT
    if node.kind in {"float", "double"} and isinstance(value, str):
        if value.lstrip("+-") in {"NaN", "Infinity"} and len(value) <= 9:
            return value
        if _NUMBER.fullmatch(value) and math.isfinite(float(value)):
            return float(value)
    if not _Fit().fits(node, value, 0):
        _refuse(path, f"the default {_shown(value)} does not fit the field's type {node.name or node.kind}")
    return value


class _Fit:
    """Whether a JSON value fits a type. It keeps what it has found, so that unions do not multiply its work."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], bool] = {}

    def fits(self, node: AvroNode, value: Any, depth: int) -> bool:
        if node.kind == "union":
            return any(self.fits(branch, value, depth) for branch in node.branches)
        if not isinstance(value, list | dict):
            return _fits_scalar(node, value)
        if depth > _DEFAULT_DEPTH_MAX:
            raise InvalidSchemaError(f"a default nests more than {_DEFAULT_DEPTH_MAX} values: make it flatter")
        key = id(node), id(value)
        if key not in self._found:
            self._found[key] = self._fits_container(node, value, depth + 1)
        return self._found[key]

    def _fits_container(self, node: AvroNode, value: list[Any] | dict[str, Any], depth: int) -> bool:
        if isinstance(value, list):
            return node.kind == "array" and all(self.fits(node.items, each, depth) for each in value if node.items)
        if node.kind == "map" and node.items is not None:
            return all(self.fits(node.items, each, depth) for each in value.values())
        if node.fields is None:  # another type, or the record that is just being read
            return False
        return all(
            self.fits(field.type, value[field.name], depth) if field.name in value else field.has_default
            for field in node.fields
        )


def _fits_scalar(node: AvroNode, value: Any) -> bool:
    if isinstance(value, str):
        return node.kind in {"string", "bytes", "enum", "fixed"}
    if isinstance(value, bool) or value is None:
        return node.kind == ("null" if value is None else "boolean")
    if isinstance(value, int) and node.kind in _INTEGERS:
        return -_INTEGERS[node.kind] <= value < _INTEGERS[node.kind]
    return node.kind in {"float", "double"}
