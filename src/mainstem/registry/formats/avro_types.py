"""Avro schemas as types: read from JSON by the rules of the Avro specification, 1.12.

A named type (record, enum, fixed) is one object wherever it is used, so recursive types are circles of objects.

Contract: ``read_types`` accepts what Avro's own Java library accepts with its default checks: names, unions and default
values are checked, unknown attributes are kept. Depth and number of types are bounded. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mainstem.json_depth import is_too_deep
from mainstem.registry.formats.schema_format import InvalidSchemaError, References

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DEPTH_MAX: Final = 100
_TYPES_MAX: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS: Final = {"int": 1 << 31, "long": 1 << 63}
_RECORDS: Final = ("record", "error")
_ORDERS: Final = ("ascending", "descending", "ignore")
_OF_TYPES: Final = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"}
)
"""Attributes of types. Where a type has no use for one of them, it is left out."""
_OF_ENUMS: Final = _OF_TYPES | {"default"}
_OF_FIELDS: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


class _Missing:
    """Marks a default that is not given; null is one."""


MISSING: Final = _Missing()


@dataclass(eq=False, slots=True)
class Primitive:
    """One of ``PRIMITIVES``."""

    kind: str
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Container:
    """An array or a map."""

    kind: str
    items: AvroType
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Union:
    """One of several types."""

    branches: list[AvroType]
    kind: str = "union"


@dataclass(eq=False, slots=True)
class RecordField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = MISSING
    doc: str | None = None
    order: str = _ORDERS[0]
    aliases: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Named:
    """A record, an error, an enum or a fixed. ``aliases`` are full names."""

    kind: str
    name: str
    namespace: str
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    fields: list[RecordField] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: str | None = None
    size: int = 0
    is_complete: bool = False
    """Whether all fields are read: a default of a record that is not would have no end."""

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


AvroType: TypeAlias = Primitive | Container | Union | Named


def read_types(text: str, references: References) -> tuple[AvroType, dict[str, Named]]:
    """The type of a schema's text, and the named types of its references. Raises InvalidSchemaError."""
    reader = _Reader()
    for name, of_reference in references.items():
        try:
            reader.read(_json(of_reference), "", 0)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"the reference {name!r}: {error}") from error
    referenced = dict(reader.named)
    return reader.read(_json(text), "", 0), referenced


def _json(text: str) -> Any:
    if is_too_deep(text):
        raise InvalidSchemaError("it is nested too deeply")
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidSchemaError(f"it is not JSON: {error}") from error


class _Reader:
    """Reads types in the order of their text: a name is known from its definition on."""

    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self._count = 0

    def read(self, document: Any, namespace: str, depth: int) -> AvroType:
        self._count += 1
        if depth > _DEPTH_MAX or self._count > _TYPES_MAX:
            raise InvalidSchemaError(f"it has more than {_DEPTH_MAX} levels or {_TYPES_MAX} types")
        if isinstance(document, str):
            return self._by_name(document, namespace)
        if isinstance(document, list):
            return self._union(document, namespace, depth)
        if not isinstance(document, dict) or "type" not in document:
            raise InvalidSchemaError(f"a type is missing: {_shown(document)}")
        kind = document["type"]
        if not isinstance(kind, str):
            return self.read(kind, namespace, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(kind, document, namespace, depth)
        if kind in ("array", "map"):
            content = "items" if kind == "array" else "values"
            if content not in document:
                raise InvalidSchemaError(f"a {kind} without {content}")
            return Container(kind, self.read(document[content], namespace, depth + 1), _extras(document))
        if kind in PRIMITIVES:
            return Primitive(kind, _extras(document))
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is None:
            raise InvalidSchemaError(f"the type {_shown(name)} is not defined")
        return found

    def _union(self, document: list[Any], namespace: str, depth: int) -> Union:
        branches = [self.read(each, namespace, depth + 1) for each in document]
        seen = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError("a union directly in a union")
            name = branch.full_name if isinstance(branch, Named) else branch.kind
            if name in seen:
                raise InvalidSchemaError(f"a union has {name} twice")
            seen.add(name)
        return Union(branches)

    def _defined(self, kind: str, document: dict[str, Any], enclosing: str, depth: int) -> Named:
        name, namespace = _names(document, enclosing)
        named = Named(
            kind,
            name,
            namespace,
            _text(document, "doc"),
            extras=_extras(document, _OF_ENUMS if kind == "enum" else _OF_TYPES),
        )
        named.aliases = [_full(alias, namespace) for alias in _texts(document, "aliases")]
        if named.full_name in self.named or (not namespace and name in PRIMITIVES):
            raise InvalidSchemaError(f"the type {named.full_name} is defined twice")
        self.named[named.full_name] = named
        if kind == "fixed":
            named.size = _size(document)
        elif kind == "enum":
            named.symbols, named.default = _symbols(document), _text(document, "default")
            if named.default is not None and named.default not in named.symbols:
                raise InvalidSchemaError(f"the default {_shown(named.default)} is not a symbol of {named.full_name}")
        else:
            self._read_fields(named, document, depth)
        return named

    def _read_fields(self, named: Named, document: dict[str, Any], depth: int) -> None:
        fields = document.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"the record {named.full_name} has no list of fields")
        names: set[str] = set()
        for each in fields:
            if not isinstance(each, dict) or "type" not in each:
                raise InvalidSchemaError(f"a field of {named.full_name} has no type: {_shown(each)}")
            name = _checked_name(each.get("name"), f"a field of {named.full_name}")
            if name in names:
                raise InvalidSchemaError(f"the record {named.full_name} has the field {name} twice")
            names.add(name)
            named.fields.append(self._field(named, name, each, depth))
        named.is_complete = True

    def _field(self, named: Named, name: str, document: dict[str, Any], depth: int) -> RecordField:
        order = document.get("order", _ORDERS[0])
        if order not in _ORDERS:
            raise InvalidSchemaError(f"invalid order {_shown(order)} of {named.full_name}.{name}")
        kind, default = self.read(document["type"], named.namespace, depth + 1), document.get("default", MISSING)
        if default is not MISSING and not _fits(kind, default):
            raise InvalidSchemaError(f"the default {_shown(default)} of {named.full_name}.{name} is not of its type")
        doc, aliases = _text(document, "doc"), _texts(document, "aliases")
        return RecordField(name, kind, default, doc, order, aliases, _extras(document, _OF_FIELDS))


def _names(document: dict[str, Any], enclosing: str) -> tuple[str, str]:
    """The name of a type and its namespace; a name with dots has its namespace in it."""
    name = document.get("name")
    if not isinstance(name, str):
        raise InvalidSchemaError(f"a {document['type']} has no name")
    before, _, last = name.rpartition(".")
    namespace = before or document.get("namespace", enclosing)
    if namespace is None:
        namespace = enclosing
    if not isinstance(namespace, str):
        raise InvalidSchemaError(f"invalid namespace {_shown(namespace)}")
    for part in namespace.split(".") if namespace else ():
        _checked_name(part, "a namespace")
    return _checked_name(last, f"a {document['type']}"), namespace


def _full(alias: str, namespace: str) -> str:
    return alias if "." in alias or not namespace else f"{namespace}.{alias}"


def _checked_name(name: Any, of_what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchemaError(f"invalid name {_shown(name)} of {of_what}: use letters, digits and '_'")
    return name


def _symbols(document: dict[str, Any]) -> list[str]:
    symbols = document.get("symbols")
    if not isinstance(symbols, list):
        raise InvalidSchemaError(f"the enum {_shown(document.get('name'))} has no list of symbols")
    names = [_checked_name(each, "a symbol") for each in symbols]
    if len(set(names)) != len(names):
        raise InvalidSchemaError(f"the enum {_shown(document.get('name'))} has a symbol twice")
    return names


def _size(document: dict[str, Any]) -> int:
    size = document.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise InvalidSchemaError(f"invalid size {_shown(size)} of the fixed {_shown(document.get('name'))}")
    return size


def _text(document: dict[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _texts(document: dict[str, Any], name: str) -> list[str]:
    values = document.get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise InvalidSchemaError(f"invalid {name} {_shown(values)}: a list of names")
    return values


def _extras(document: dict[str, Any], known: frozenset[str] = _OF_TYPES) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in known}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:100] + "…"


def _fits(kind: AvroType, value: Any) -> bool:
    """Whether a default is of a type; one of a union is of any of its branches."""
    unchecked: list[tuple[AvroType, Any]] = [(kind, value)]
    while unchecked:
        kind, value = unchecked.pop()
        if isinstance(kind, Union):
            if not any(_fits_one(branch, value) for branch in kind.branches):
                return False
        elif not _is_of_kind(kind, value):
            return False
        else:
            unchecked.extend(_parts(kind, value))
    return True


def _fits_one(kind: AvroType, value: Any) -> bool:
    return _is_of_kind(kind, value) and (isinstance(kind, Primitive) or _fits(kind, value))


def _is_of_kind(kind: AvroType, value: Any) -> bool:
    name = kind.kind
    if name in _INTEGERS:
        bound = _INTEGERS[name]
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if name in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, Named) and name in _RECORDS:
        return kind.is_complete and isinstance(value, dict)
    return isinstance(value, {"null": type(None), "boolean": bool, "array": list, "map": dict}.get(name, str))


def _parts(kind: AvroType, value: Any) -> Iterable[tuple[AvroType, Any]]:
    """The parts of a default of a container or a record, with the types that they must have."""
    if isinstance(kind, Container):
        return [(kind.items, each) for each in (value.values() if kind.kind == "map" else value)]
    if isinstance(kind, Named) and kind.kind in _RECORDS:
        return [
            (each.type, value.get(each.name, None if each.default is MISSING else each.default))
            for each in kind.fields
            if each.name in value or each.default is MISSING
        ]
    return ()
