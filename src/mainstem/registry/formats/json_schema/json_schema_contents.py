"""The rules of JSON Schema for what is in objects and arrays: properties, items, and the rest of both.

A content model is open when it says nothing of properties that it does not name, closed when it forbids them, and
partially open when a schema holds for them. The same goes for items beyond those that have schemas of their own.

Contract: pure functions; they yield differences, and obligations: pairs that must hold as well. ``holds`` says at once
whether a pair holds, where a rule depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstem.registry.formats.json_schema.json_schema_nodes import TRUE, Subschema
from mainstem.registry.formats.json_schema.json_schema_writer import Obligation, Writer, name_matches, type_node
from mainstem.registry.formats.schema_format import Incompatibility

Holds = Callable[[Subschema, Writer], bool]
Steps = Iterator[Incompatibility | Obligation]


def object_steps(reader: Subschema, writer: Writer, holds: Holds) -> Steps:
    """The conditions on the objects among the data."""
    declared = reader.named.get("properties", {})
    for name in sorted(declared.keys() | writer.names("properties")):
        yield from _property_steps(reader, name, writer, holds)
    for pattern, node in reader.named.get("patternProperties", {}).items():
        if not any(_covers_pattern(pattern, node, each, holds) for each in writer.nodes or [TRUE]):
            what = f"properties that match {pattern} need not have been valid under their schema"
            yield Incompatibility("PATTERN_PROPERTY_NARROWED", f"patternProperties/{pattern}", what)
    if "additionalProperties" in reader.one:
        yield from _additional_steps(reader, writer, holds)
    if "propertyNames" in reader.one:
        names = Writer([*writer.below("propertyNames"), type_node("string")])
        yield Obligation("propertyNames", reader.one["propertyNames"], names)
    for name, node in reader.named.get("dependentSchemas", {}).items():
        former = [each.named["dependentSchemas"][name] for each in writer.nodes if _depends(each, name)]
        present = Subschema(asserts={"required": [name]})
        place = f"dependentSchemas/{name}"
        if former:
            yield Obligation(place, node, writer.joined(*former, type_node("object")))
        elif not holds(node, writer.joined(type_node("object"), present)):
            yield Incompatibility("DEPENDENCY_SCHEMA_ADDED", place, f"objects with {name} must meet another schema")


def _depends(node: Subschema, name: str) -> bool:
    return name in node.named.get("dependentSchemas", ())


def _readers_of(reader: Subschema, name: str) -> list[tuple[str, Subschema]]:
    """The schemas that the reader has for a property, or may have where a pattern cannot be decided."""
    declared = reader.named.get("properties", {})
    found = [(f"properties/{name}", declared[name])] if name in declared else []
    is_additional = not found
    for pattern, node in reader.named.get("patternProperties", {}).items():
        matches = name_matches(pattern, name)
        if matches is not False:
            found.append((f"patternProperties/{pattern}", node))
        is_additional = is_additional and matches is not True
    if is_additional and "additionalProperties" in reader.one:
        found.append(("additionalProperties", reader.one["additionalProperties"]))
    return found


def _property_steps(reader: Subschema, name: str, writer: Writer, holds: Holds) -> Steps:
    data = writer.property(name)
    is_declared = name in reader.named.get("properties", ())
    was_declared = writer.declares(name)
    for place, node in _readers_of(reader, name):
        if is_declared and was_declared:
            yield Obligation(place, node, data)
        elif not holds(node, data):
            yield Incompatibility(*_property_kind(reader, node, name, data, is_declared=is_declared))


def _property_kind(
    reader: Subschema, node: Subschema, name: str, data: Writer, *, is_declared: bool
) -> tuple[str, str, str]:
    place = f"properties/{name}"
    if not is_declared:
        if node.is_false:
            what = f"property {name} was removed, and other properties are forbidden"
            return "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, what
        what = f"property {name} was removed, and the schema of other properties does not admit all that it was"
        return "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, what
    if data.nodes:
        what = f"property {name} was added, and the former schema of other properties admits more"
        return "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place, what
    what = f"property {name} was added, and data may have had any value there"
    is_required = name in reader.asserts.get("required", ())
    state = "OPTIONAL" if not is_required else "REQUIRED"
    default = "_WITH_DEFAULT" if is_required and node.has_default else ""
    return f"{state}_PROPERTY{default}_ADDED_TO_OPEN_CONTENT_MODEL", place, what


def _covers_pattern(pattern: str, node: Subschema, writer: Subschema, holds: Holds) -> bool:
    """Whether properties that match, and that no schema declares, meet ``node`` by what one writer's node says."""
    patterns = writer.named.get("patternProperties", {})
    if pattern in patterns:
        return holds(node, Writer([patterns[pattern]]))
    rest = writer.one.get("additionalProperties", TRUE)
    return all(holds(node, Writer([each])) for each in (*patterns.values(), rest))


def _additional_steps(reader: Subschema, writer: Writer, holds: Holds) -> Steps:
    node, own = reader.one["additionalProperties"], reader.named.get("patternProperties", ())
    closest: list[Subschema] | None = None
    for each in writer.nodes:
        others = [schema for p, schema in each.named.get("patternProperties", {}).items() if p not in own]
        sources = [*others, each.one.get("additionalProperties", TRUE)]
        if all(holds(node, Writer([source])) for source in sources):
            return
        if "additionalProperties" in each.one and not others:
            closest = sources
    if node.is_false:
        what = "properties that have no schema are forbidden now"
        yield Incompatibility("ADDITIONAL_PROPERTIES_REMOVED", "additionalProperties", what)
    elif closest:
        yield Obligation("additionalProperties", node, Writer(closest))
    else:
        what = "properties that have no schema of their own must now meet one"
        yield Incompatibility("ADDITIONAL_PROPERTIES_NARROWED", "additionalProperties", what)


def array_steps(reader: Subschema, writer: Writer, holds: Holds) -> Steps:
    """The conditions on the arrays among the data."""
    own = reader.many.get("prefixItems", ())
    for index, node in enumerate(own):
        if index < writer.max_items:
            yield from _item_steps(node, index, writer, holds)
    rest = reader.one.get("items")
    if rest is not None:
        for index in range(len(own), writer.prefix_length):
            if index < writer.max_items and not holds(rest, writer.item(index)):
                model = "CLOSED" if rest.is_false else "PARTIALLY_OPEN"
                cover = "FROM" if rest.is_false else "NOT_COVERED_BY"
                what = f"item {index} was removed, and the schema of other items does not admit all that it was"
                yield Incompatibility(f"ITEM_REMOVED_{cover}_{model}_CONTENT_MODEL", f"items/{index}", what)
        yield from _rest_steps(rest, max(len(own), writer.prefix_length), writer)
    if "contains" in reader.one:
        yield from _contains_steps(reader, writer, holds)


def _item_steps(node: Subschema, index: int, writer: Writer, holds: Holds) -> Steps:
    data = writer.item(index)
    if index < writer.prefix_length:
        yield Obligation(f"prefixItems/{index}", node, data)
    elif not holds(node, data):
        model = "NOT_COVERED_BY_PARTIALLY_OPEN" if data.nodes else "TO_OPEN"
        what = f"item {index} was added, and data may have had other values there"
        yield Incompatibility(f"ITEM_ADDED_{model}_CONTENT_MODEL", f"prefixItems/{index}", what)


def _rest_steps(rest: Subschema, start: int, writer: Writer) -> Steps:
    data = writer.item(start)
    if start >= writer.max_items:
        return
    if data.nodes and not rest.is_false:
        yield Obligation("items", rest, data)
    elif data.types and not rest.is_true:
        kind = "REMOVED" if rest.is_false else "NARROWED"
        yield Incompatibility(
            f"ADDITIONAL_ITEMS_{kind}", "items", "items that could be anything must now meet a schema"
        )


def _contains_steps(reader: Subschema, writer: Writer, holds: Holds) -> Steps:
    node = reader.one["contains"]
    least, most = reader.asserts.get("minContains", 1), reader.asserts.get("maxContains")
    is_enough, is_bounded = least == 0, most is None or most >= writer.max_items
    for each in writer.nodes:
        former = each.one.get("contains")
        if former is None:
            continue
        if each.asserts.get("minContains", 1) >= least:
            is_enough = is_enough or holds(node, Writer([former]))
        if most is not None and each.asserts.get("maxContains", most + 1) <= most:
            is_bounded = is_bounded or holds(former, Writer([node]))
    if not is_enough:
        kind = "MIN_CONTAINS_INCREASED" if writer.below("contains") else "MIN_CONTAINS_ADDED"
        yield Incompatibility(kind, "contains", "arrays must now contain more items of a schema")
    if not is_bounded:
        kind = "MAX_CONTAINS_DECREASED" if writer.all("maxContains") else "MAX_CONTAINS_ADDED"
        yield Incompatibility(kind, "contains", "arrays must now contain fewer items of a schema")
