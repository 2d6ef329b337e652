"""The rules of JSON Schema's assertions without subschemas: whether all data of a writer meets one of a reader's.

Each rule yields the differences that make the data of the writer invalid. A keyword counts only for data of its type.

Contract: pure functions; where a rule yields nothing, the assertion holds for all data of the writer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from mainstem.registry.formats.json_schema.json_schema_nodes import Subschema
from mainstem.registry.formats.json_schema.json_schema_writer import Writer, atom_of, atoms_of, fraction

Found = tuple[str, str, str]
"""Kind, keyword and description of a difference."""

_UPPER: Final = {"maxLength": "string", "maxItems": "array", "maxProperties": "object"}
_LOWER: Final = {"minLength": "string", "minItems": "array", "minProperties": "object"}
_NAMES: Final = {
    "maxLength": "MAX_LENGTH",
    "maxItems": "MAX_ITEMS",
    "maxProperties": "MAX_PROPERTIES",
    "minLength": "MIN_LENGTH",
    "minItems": "MIN_ITEMS",
    "minProperties": "MIN_PROPERTIES",
}
_NUMBERS: Final = frozenset({"integer", "fraction"})
_EXACT: Final[Mapping[str, Callable[[Fraction, Fraction], bool]]] = {
    "minimum": Fraction.__ge__,
    "exclusiveMinimum": Fraction.__gt__,
    "maximum": Fraction.__le__,
    "exclusiveMaximum": Fraction.__lt__,
}
_BOUND_KINDS: Final = {
    "minimum": ("MINIMUM", "INCREASED"),
    "exclusiveMinimum": ("EXCLUSIVE_MINIMUM", "INCREASED"),
    "maximum": ("MAXIMUM", "DECREASED"),
    "exclusiveMaximum": ("EXCLUSIVE_MAXIMUM", "DECREASED"),
}


def assertion_differences(reader: Subschema, writer: Writer) -> Iterator[Found]:
    """The assertions of ``reader`` that data of ``writer`` may miss."""
    yield from _types(reader, writer)
    yield from _enum(reader, writer)
    yield from _sizes(reader, writer)
    if writer.types & _NUMBERS:
        yield from _bounds(reader, writer)
        yield from _multiple(reader, writer)
    if "string" in writer.types:
        yield from _pattern(reader, writer)
    is_unique = writer.max_items <= 1 or any(writer.all("uniqueItems"))
    if "array" in writer.types and reader.asserts.get("uniqueItems") and not is_unique:
        yield "UNIQUE_ITEMS_ADDED", "uniqueItems", "items must now be unique"
    if "object" in writer.types:
        yield from _required(reader, writer)
        yield from _dependent_required(reader, writer)
    meta = reader.asserts.get("meta-schema")
    if meta and meta not in writer.all("meta-schema"):
        yield "TYPE_CHANGED", "$ref", f"data must now be valid under the meta-schema {meta}"


def _types(reader: Subschema, writer: Writer) -> Iterator[Found]:
    if reader.is_false:
        yield "TYPE_CHANGED", "", "no data is valid any longer"
    elif "type" in reader.asserts:
        lost = writer.types - atoms_of(reader.asserts["type"])
        if lost:
            kind = "TYPE_NARROWED" if lost < writer.types else "TYPE_CHANGED"
            names = ", ".join(sorted("number" if each == "fraction" else each for each in lost))
            yield kind, "type", f"data of type {names} is not valid any longer"


def _enum(reader: Subschema, writer: Writer) -> Iterator[Found]:
    if "enum" not in reader.asserts:
        return
    allowed = {_key(value) for value in reader.asserts["enum"]}
    if writer.values is None:
        if writer.types and not writer.types <= _covered_atoms(reader.asserts["enum"]):
            yield "ENUM_ARRAY_NARROWED", "enum", "only listed values are valid now"
        return
    former = {_key(value) for value in writer.values}
    if former - allowed:
        kind = "ENUM_ARRAY_NARROWED" if allowed < former else "ENUM_ARRAY_CHANGED"
        yield kind, "enum", "a value that was listed is not listed any longer"


def _covered_atoms(values: list[Any]) -> set[str]:
    """The atoms of which every value is listed."""
    covered = {"null"} if None in values else set()
    return covered | ({"boolean"} if any(v is True for v in values) and any(v is False for v in values) else set())


def _key(value: Any) -> str:
    """Equal for values that JSON Schema takes as equal: 1 is 1.0, and is not true."""
    return json.dumps(json.loads(json.dumps(value), parse_float=_whole_if_possible), sort_keys=True)


def _whole_if_possible(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _sizes(reader: Subschema, writer: Writer) -> Iterator[Found]:
    for keyword, atom in (_UPPER | _LOWER).items():
        if keyword not in reader.asserts or atom not in writer.types:
            continue
        limit, is_upper = reader.asserts[keyword], keyword in _UPPER
        if writer.values is not None:
            sizes = [len(value) for value in writer.values if atom_of(value) == atom]
            former = [max(sizes) if is_upper else min(sizes)] if sizes else [limit]
        else:
            former = _known_sizes(writer, keyword)
        best = min(former, default=None) if is_upper else max(former, default=0)
        if best is None or (best > limit if is_upper else best < limit):
            change = ("DECREASED" if is_upper else "INCREASED") if former else "ADDED"
            yield f"{_NAMES[keyword]}_{change}", keyword, f"{keyword} is now {limit}"


def _known_sizes(writer: Writer, keyword: str) -> list[float]:
    known: list[float] = writer.all(keyword)
    if keyword == "maxItems" and writer.max_items != float("inf"):
        return [writer.max_items]
    if keyword == "minProperties" and writer.required:
        return [*known, len(writer.required)]
    return known


def _numbers(writer: Writer) -> list[Fraction] | None:
    if writer.values is None:
        return None
    return [fraction(value) for value in writer.values if atom_of(value) in _NUMBERS]


def _bounds(reader: Subschema, writer: Writer) -> Iterator[Found]:
    values = _numbers(writer)
    for keyword, meets in _EXACT.items():
        if keyword not in reader.asserts:
            continue
        limit = fraction(reader.asserts[keyword])
        side = ("minimum", "exclusiveMinimum") if "inimum" in keyword else ("maximum", "exclusiveMaximum")
        inclusive, exclusive = ([fraction(each) for each in writer.all(name)] for name in side)
        within = _EXACT[side[0]]
        if values is not None:
            holds = all(meets(value, limit) for value in values)
        else:  # an exclusive bound of the writer may touch that of the reader
            holds = any(meets(each, limit) for each in inclusive) or any(within(each, limit) for each in exclusive)
        if not holds:
            name, change = _BOUND_KINDS[keyword]
            known = inclusive or exclusive or values
            yield f"{name}_{change if known else 'ADDED'}", keyword, f"{keyword} is now {reader.asserts[keyword]}"


def _multiple(reader: Subschema, writer: Writer) -> Iterator[Found]:
    if "multipleOf" not in reader.asserts:
        return
    factor = fraction(reader.asserts["multipleOf"])
    former = [fraction(each) for each in writer.all("multipleOf")]
    known = [*former, *([Fraction(1)] if "fraction" not in writer.types else [])]
    values = _numbers(writer)
    if values is not None:
        holds = all((value / factor).denominator == 1 for value in values)
    else:
        holds = any((each / factor).denominator == 1 for each in known)
    if not holds:
        kind = "ADDED"
        if former:
            kind = "EXPANDED" if any((factor / each).denominator == 1 for each in former) else "CHANGED"
        yield f"MULTIPLE_OF_{kind}", "multipleOf", f"numbers must now be multiples of {reader.asserts['multipleOf']}"


def _pattern(reader: Subschema, writer: Writer) -> Iterator[Found]:
    if "pattern" in reader.asserts and reader.asserts["pattern"] not in writer.all("pattern"):
        kind = "PATTERN_CHANGED" if writer.all("pattern") else "PATTERN_ADDED"
        yield kind, "pattern", "strings must now match another pattern"


def _required(reader: Subschema, writer: Writer) -> Iterator[Found]:
    declared = reader.named.get("properties", {})
    for name in reader.asserts.get("required", ()):
        if name in writer.required or (name in declared and declared[name].has_default):
            continue  # Confluent's rule: a reader fills in the default
        kind = "REQUIRED_ATTRIBUTE_ADDED"
        if name in declared and name not in writer.names("properties"):
            model = "UNOPEN" if writer.property(name).nodes else "OPEN"
            kind = f"REQUIRED_PROPERTY_ADDED_TO_{model}_CONTENT_MODEL"
        yield kind, f"required/{name}", f"property {name} is required now and has no default"


def _dependent_required(reader: Subschema, writer: Writer) -> Iterator[Found]:
    for name, wanted in reader.asserts.get("dependentRequired", {}).items():
        former = [lists[name] for lists in writer.all("dependentRequired") if name in lists]
        known = {name, *writer.required, *(each for names in former for each in names)}
        if not known.issuperset(wanted):
            kind = "ADDED" if not former else "EXTENDED" if set(wanted).issuperset(*former) else "CHANGED"
            yield f"DEPENDENCY_ARRAY_{kind}", f"dependentRequired/{name}", f"property {name} requires more properties"
