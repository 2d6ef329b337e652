"""The writer's side of a comparison of JSON Schemas: all that is known of the data.

A ``Writer`` is a conjunction of nodes: data is valid under each. It answers what holds for the data: which types it
has, between which bounds it lies, which schemas a property or an item of it is valid under. An answer may say less than
the schemas do and never more, so what follows from it is true of all data.

Contract: immutable and cheap to make; two writers of the same nodes are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import re2

from mainstem.registry.formats.json_schema.json_schema_nodes import Subschema

ATOMS: Final = frozenset({"null", "boolean", "string", "object", "array", "integer", "fraction"})
"""The types of values, apart from each other: ``number`` is integers and fractions."""


def atoms_of(types: str | list[str]) -> frozenset[str]:
    """The atoms of a ``type`` keyword."""
    names = frozenset([types] if isinstance(types, str) else types)
    return (names - {"number"}) | {"integer", "fraction"} if "number" in names else names


def atom_of(value: Any) -> str:
    """The atom of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "integer" if value == int(value) else "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def node_types(node: Subschema) -> frozenset[str]:
    """The atoms that the node's own keywords leave."""
    types = atoms_of(node.asserts["type"]) if "type" in node.asserts else ATOMS
    if "enum" in node.asserts:
        types &= {atom_of(value) for value in node.asserts["enum"]}
    return frozenset() if node.is_false else types


@cache
def type_node(atom: str) -> Subschema:
    """A schema of one atom."""
    return Subschema(asserts={"type": "number" if atom == "fraction" else atom})


def name_matches(pattern: str, name: str) -> bool | None:
    """Whether a pattern finds itself in a name, in linear time; None when RE2 may read them in another way."""
    compiled = _compiled(pattern)
    return bool(compiled.search(name)) if compiled is not None and name.isascii() else None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def fraction(number: float) -> Fraction:
    """The number exactly as it is written in decimals."""
    return Fraction(str(number))


class Writer:
    """A conjunction of nodes; references and ``allOf`` are followed."""

    __slots__ = ("__dict__", "nodes")

    def __init__(self, nodes: Iterable[Subschema]) -> None:
        found: set[Subschema] = set()
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node not in found and not node.is_true:
                found.add(node)
                pending += node.many.get("allOf", ())
                pending += [node.one["ref"]] if "ref" in node.one else []
        self.nodes: Final = frozenset(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Writer) and self.nodes == other.nodes

    def __hash__(self) -> int:
        return hash(self.nodes)

    def joined(self, *nodes: Subschema) -> Writer:
        """This writer, with data that is also valid under ``nodes``."""
        return Writer((*self.nodes, *nodes))

    @cached_property
    def types(self) -> frozenset[str]:
        """The atoms that data can have; empty when there can be no data."""
        types = ATOMS
        for node in self.nodes:
            types &= node_types(node)
        return types

    @cached_property
    def values(self) -> list[Any] | None:
        """The only values that data can have, where an ``enum`` says so."""
        enums = [node.asserts["enum"] for node in self.nodes if "enum" in node.asserts]
        if not enums:
            return None
        values: list[Any] = min(enums, key=len)
        return [value for value in values if atom_of(value) in self.types]

    def all(self, keyword: str) -> list[Any]:
        """All that the nodes assert under a keyword."""
        return [node.asserts[keyword] for node in self.nodes if keyword in node.asserts]

    def below(self, keyword: str) -> list[Subschema]:
        """The schemas that the nodes have under a keyword."""
        return [node.one[keyword] for node in self.nodes if keyword in node.one]

    def names(self, keyword: str) -> set[str]:
        """The names that the nodes have under a keyword, such as ``properties``."""
        return {name for node in self.nodes for name in node.named.get(keyword, ())}

    def declares(self, name: str) -> bool:
        """Whether a node has a schema for the property."""
        return any(name in node.named.get("properties", ()) for node in self.nodes)

    @cached_property
    def required(self) -> frozenset[str]:
        """The properties that all objects have."""
        return frozenset(name for names in self.all("required") for name in names)

    def property(self, name: str) -> Writer:
        """The schemas that hold for a property."""
        return Writer(schema for node in self.nodes for schema in _property(node, name))

    def item(self, index: int) -> Writer:
        """The schemas that hold for an item at an index."""
        return Writer(schema for node in self.nodes for schema in _item(node, index))

    @cached_property
    def prefix_length(self) -> int:
        """The index from which on all items are valid under the same schemas."""
        return max((len(node.many.get("prefixItems", ())) for node in self.nodes), default=0)

    @cached_property
    def max_items(self) -> float:
        """The length that no array is over."""
        closed = [
            len(node.many.get("prefixItems", ()))
            for node in self.nodes
            if "items" in node.one and node.one["items"].is_false
        ]
        return min([*self.all("maxItems"), *closed], default=float("inf"))

    def choices(self) -> list[tuple[str, tuple[Subschema, ...]]]:
        """The keyword and the branches of each choice: data is valid under one branch of each, or under more."""
        return [
            (keyword, node.many[keyword])
            for node in self.nodes
            for keyword in ("anyOf", "oneOf")
            if keyword in node.many
        ]

    @cached_property
    def without_choices(self) -> frozenset[Subschema]:
        """The nodes, each without its choices, and without the ways to those of others.

        So a writer has fewer choices after one is made, and a proof by cases never rests on itself.
        """
        return frozenset(node.own or node for node in self.nodes)


def _property(node: Subschema, name: str) -> list[Subschema]:
    found = [node.named["properties"][name]] if name in node.named.get("properties", ()) else []
    matches = {pattern: name_matches(pattern, name) for pattern in node.named.get("patternProperties", ())}
    is_additional = not found and not any(does is not False for does in matches.values())
    found += [node.named["patternProperties"][pattern] for pattern, does in matches.items() if does]
    return [node.one["additionalProperties"]] if is_additional and "additionalProperties" in node.one else found


def _item(node: Subschema, index: int) -> list[Subschema]:
    prefix = node.many.get("prefixItems", ())
    if index < len(prefix):
        return [prefix[index]]
    return [node.one["items"]] if "items" in node.one else []


@dataclass(frozen=True, slots=True)
class Obligation:
    """A pair that must hold for the one that gave it to hold; ``place`` is where the reader's node is in its parent."""

    place: str
    reader: Subschema
    writer: Writer
