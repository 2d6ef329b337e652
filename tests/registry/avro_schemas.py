"""Avro schemas, as Hypothesis draws them, and data of a type."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from mainstem.registry.formats.avro.avro_types import AvroNode

_PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
_DEFAULTS = {"null": None, "boolean": True, "int": 7, "long": 8, "float": 1.5, "double": 2, "bytes": "b", "string": "s"}
_DATA = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 1 << 40,
    "float": 1.5,
    "double": 0.1,
    "bytes": b"b",
    "string": "s",
}
_NAMES = {"record": "RST", "enum": "EF", "fixed": "XY"}
_DEPTH = 4


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """A schema of few names, so that two of them often have types in common. Every recursion can end."""
    return _type(draw, {}, 0, can_end=False)


def _type(draw: st.DrawFn, defined: dict[str, Any], depth: int, can_end: bool, union: bool = True) -> Any:
    """``defined``: full name → the type, or None while it is read. ``can_end``: a recursion may begin here."""
    compound = ["record", "record", "array", "map", "enum", "fixed", *(["union"] * 2 if union else [])]
    kind = draw(st.sampled_from(["", *compound] if depth < _DEPTH else [""]))
    if not kind:
        return draw(st.sampled_from([*_PRIMITIVES, {"type": "int", "logicalType": "date"}]))
    if kind == "array":
        return {"type": "array", "items": _type(draw, defined, depth + 1, True)}
    if kind == "map":
        return {"type": "map", "values": _type(draw, defined, depth + 1, True)}
    if kind == "union":
        return _union(draw, defined, depth)
    return _named(draw, kind, defined, depth, can_end)


def _union(draw: st.DrawFn, defined: dict[str, Any], depth: int) -> list[Any]:
    branches: dict[str, Any] = {"null": "null"} if draw(st.booleans()) else {}
    for _ in range(draw(st.integers(1, 3))):
        within = dict(defined)
        branch = _type(draw, within, depth + 1, "null" in branches, union=False)
        if branches.setdefault(_identity(branch), branch) is branch:
            defined.update(within)
    return list(branches.values())


def _identity(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return str(branch["namespace"] + "." + branch["name"] if "name" in branch else branch["type"])


def _named(draw: st.DrawFn, kind: str, defined: dict[str, Any], depth: int, can_end: bool) -> Any:
    name, namespace = draw(st.sampled_from(_NAMES[kind])), draw(st.sampled_from("nm"))
    full = f"{namespace}.{name}"
    if full in defined:
        return full if can_end or defined[full] is not None else "int"
    node: dict[str, Any] = {"type": kind, "name": name, "namespace": namespace}
    if draw(st.integers(0, 3)) == 0:
        node["aliases"] = [f"{draw(st.sampled_from('nm'))}.{draw(st.sampled_from(_NAMES[kind]))}"]
    defined[full] = None
    if kind == "fixed":
        node["size"] = draw(st.integers(1, 2))
    elif kind == "enum":
        node["symbols"] = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
        if draw(st.integers(0, 2)) == 0:
            node["default"] = node["symbols"][-1]
    else:
        names = draw(st.lists(st.sampled_from("abc"), unique=True))
        node["fields"] = [_field(draw, field, set("abcd") - set(names), defined, depth + 1) for field in names]
    defined[full] = node
    return node


def _field(draw: st.DrawFn, name: str, free: set[str], defined: dict[str, Any], depth: int) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _type(draw, defined, depth, False)}
    if draw(st.integers(0, 3)) == 0:
        field["aliases"] = [draw(st.sampled_from(sorted(free)))]
    if draw(st.booleans()):
        default = _default(field["type"])
        if default is not ...:
            field["default"] = default
    return field


def _default(node: Any) -> Any:
    """A default of a type, of a union's first branch; ``...`` where it would take a record."""
    if isinstance(node, str):
        return _DEFAULTS.get(node, ...)
    if isinstance(node, list):
        return _default(node[0])
    simple = {"array": [], "map": {}, "enum": node.get("symbols", [""])[0], "fixed": "x" * node.get("size", 0)}
    return _DEFAULTS.get(node["type"], simple.get(node["type"], ...))


def data_of(draw: st.DrawFn, node: AvroNode, depth: int = 0) -> Any:
    """A value as fastavro writes it; branches of unions are named, and recursions end."""
    if node.kind in _DATA:
        return _DATA[node.kind]
    if node.kind == "union":
        branch = draw(st.sampled_from(node.branches)) if depth < 2 * _DEPTH else node.branches[0]
        return branch.name or branch.kind, data_of(draw, branch, depth + 1)
    if node.items is not None:
        values = [data_of(draw, node.items, depth + 1)] if depth < 2 * _DEPTH and draw(st.booleans()) else []
        return values if node.kind == "array" else dict(zip("k", values, strict=False))
    if node.kind == "enum":
        return draw(st.sampled_from(node.symbols))
    if node.kind == "fixed":
        return b"x" * node.size
    return {each.name: data_of(draw, each.type, depth + 1) for each in node.fields or ()}


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Any, Any]:
    """A reader's schema and a writer's, of which one came from the other by a few changes, good and bad."""
    one = draw(schemas())
    other = json.loads(json.dumps(one))
    for _ in range(draw(st.integers(0, 4))):
        other = _changed(draw, other)
    return (other, one) if draw(st.integers(0, 3)) else (one, other)


def _changed(draw: st.DrawFn, node: Any) -> Any:
    """The type with one change in it or below it."""
    if isinstance(node, str):
        promoted = {"int": ["long", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"]}
        return draw(st.sampled_from([*promoted.get(node, [node, node, "string"]), node])) if node in _DATA else node
    if isinstance(node, list):
        at = draw(st.integers(0, len(node) - 1))
        if isinstance(node[at], str):
            return [*node, "boolean"] if "boolean" not in node else [each for each in node if each != "boolean"] or node
        return [_changed(draw, each) if index == at else each for index, each in enumerate(node)]
    for part in ("items", "values"):
        if part in node:
            return {**node, part: _changed(draw, node[part])}
    if "symbols" in node:
        symbols = draw(st.sampled_from([["C", "B", "A"], ["A", "B"], ["D"]]))
        return {**node, "symbols": symbols, **({"default": symbols[0]} if "default" in node else {})}
    return _changed_record(draw, node) if "fields" in node else node


def _changed_record(draw: st.DrawFn, node: dict[str, Any]) -> dict[str, Any]:
    fields = node["fields"]
    change = draw(st.sampled_from(["add", "add required", *(["within"] * 4 if fields else [])]))
    if change == "within":
        at = draw(st.integers(0, len(fields) - 1))
        new = {key: each for key, each in fields[at].items() if key != "default"}
        new["type"] = _changed(draw, new["type"])
        return {**node, "fields": [*fields[:at], new, *fields[at + 1 :]]}
    if any(each["name"] == "new" for each in fields):
        return {**node, "fields": [each for each in fields if each["name"] != "new"]}
    new = {"name": "new", "type": "int", **({"default": 0} if change == "add" else {})}
    return {**node, "fields": [new, *fields]}
