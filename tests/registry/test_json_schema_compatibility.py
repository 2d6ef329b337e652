"""The rules by which JSON Schemas are compatible, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainstem.registry.formats.json_schema.json_schema_format import JsonSchemaFormat

STRING, INTEGER, NUMBER, NULL = ({"type": each} for each in ("string", "integer", "number", "null"))
CLOSED = {"additionalProperties": False}
D2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
D4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
FORMAT = JsonSchemaFormat()


def _kinds(reader: Any, writer: Any) -> list[str]:
    parsed = [FORMAT.parse(json.dumps(each), {}) for each in (reader, writer)]
    return [each.kind for each in FORMAT.incompatibilities(*parsed)]


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _array(**more: Any) -> dict[str, Any]:
    return {"type": "array", **more}


def _node(value: Any) -> dict[str, Any]:
    following = {"anyOf": [{"$ref": "#/definitions/node"}, NULL]}
    return {"definitions": {"node": _object({"v": value, "next": following})}, "$ref": "#/definitions/node"}


ONE_WAY: list[tuple[Any, Any, str]] = [
    # A wide reader, a narrow writer, and the kind when they change places; no kind when that is compatible as well.
    (True, False, "TYPE_CHANGED"),
    ({}, STRING, "TYPE_NARROWED"),
    (NUMBER, INTEGER, "TYPE_NARROWED"),
    ({"type": ["string", "null"]}, STRING, "TYPE_NARROWED"),
    (STRING, {**STRING, "maxLength": 5}, "MAX_LENGTH_ADDED"),
    ({**STRING, "maxLength": 6}, {**STRING, "maxLength": 5}, "MAX_LENGTH_DECREASED"),
    (STRING, {**STRING, "minLength": 5}, "MIN_LENGTH_ADDED"),
    ({**STRING, "minLength": 4}, {**STRING, "minLength": 5}, "MIN_LENGTH_INCREASED"),
    (STRING, {**STRING, "pattern": "^a"}, "PATTERN_ADDED"),
    (NUMBER, {**NUMBER, "maximum": 5}, "MAXIMUM_ADDED"),
    ({**NUMBER, "maximum": 5.5}, {**NUMBER, "maximum": 5}, "MAXIMUM_DECREASED"),
    (NUMBER, {**NUMBER, "minimum": 5}, "MINIMUM_ADDED"),
    ({**NUMBER, "minimum": 4}, {**NUMBER, "minimum": 5}, "MINIMUM_INCREASED"),
    ({**NUMBER, "maximum": 5}, {**NUMBER, "exclusiveMaximum": 5}, "EXCLUSIVE_MAXIMUM_DECREASED"),
    ({**NUMBER, "minimum": 5}, {**NUMBER, "exclusiveMinimum": 5}, "EXCLUSIVE_MINIMUM_INCREASED"),
    (NUMBER, {**D4, **NUMBER, "maximum": 5, "exclusiveMaximum": True}, "EXCLUSIVE_MAXIMUM_ADDED"),
    ({**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.5}, "MULTIPLE_OF_EXPANDED"),
    (NUMBER, {**NUMBER, "multipleOf": 2}, "MULTIPLE_OF_ADDED"),
    ({**NUMBER, "multipleOf": 0.5}, INTEGER, "TYPE_NARROWED"),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    (STRING, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": [1]}, {"const": 1.0}, ""),
    ({"maxLength": 2}, {"enum": ["a", "ab"]}, "ENUM_ARRAY_NARROWED"),
    (_array(), _array(maxItems=2), "MAX_ITEMS_ADDED"),
    (_array(minItems=1), _array(minItems=2), "MIN_ITEMS_INCREASED"),
    (_array(), _array(uniqueItems=True), "UNIQUE_ITEMS_ADDED"),
    (_array(items=NUMBER), _array(items=INTEGER), "TYPE_NARROWED"),
    (_array(), _array(items=INTEGER), "ADDITIONAL_ITEMS_NARROWED"),
    (_array(items=[NUMBER]), _array(items=[INTEGER]), "TYPE_NARROWED"),
    (_array(items=[NUMBER]), _array(items=[NUMBER], additionalItems=False), "ADDITIONAL_ITEMS_REMOVED"),
    (_array(items=[NUMBER]), _array(items=[NUMBER, STRING]), "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),
    (
        _array(items=[NUMBER, STRING], additionalItems=False),
        _array(items=[NUMBER], additionalItems=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        _array(items=[NULL], additionalItems=NUMBER),
        _array(items=[NULL, INTEGER], additionalItems=NUMBER),
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (_array(items=[NUMBER]), {**D2020, **_array(prefixItems=[NUMBER])}, ""),
    (_array(), _array(contains=NULL), "MIN_CONTAINS_ADDED"),
    ({**D2020, "contains": NULL}, {**D2020, "contains": NULL, "minContains": 2}, "MIN_CONTAINS_INCREASED"),
    ({**D2020, "contains": NULL}, {**D2020, "contains": NULL, "maxContains": 2}, "MAX_CONTAINS_ADDED"),
    (_object({"a": STRING}), _object({"a": STRING}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    (_object({}), _object({"a": STRING}), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (_object({"a": {}}), _object({}), ""),
    (_object({"a": STRING}, **CLOSED), _object({}, **CLOSED), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (_object({}, **CLOSED), _object({"a": False}, **CLOSED), ""),
    (_object({}), _object({}, **CLOSED), "ADDITIONAL_PROPERTIES_REMOVED"),
    (_object({}), _object({}, additionalProperties=STRING), "ADDITIONAL_PROPERTIES_NARROWED"),
    (_object({}, additionalProperties=NUMBER), _object({}, additionalProperties=INTEGER), "TYPE_NARROWED"),
    (
        _object({}, additionalProperties=NUMBER),
        _object({"a": INTEGER}, additionalProperties=NUMBER),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        _object({"a": STRING}, patternProperties={"^a": STRING}, **CLOSED),
        _object({}, patternProperties={"^a": STRING}, **CLOSED),
        "",
    ),
    (_object({}), _object({}, patternProperties={"^a": STRING}), "PATTERN_PROPERTY_NARROWED"),
    (_object({}), _object({}, propertyNames={"maxLength": 2}), "MAX_LENGTH_ADDED"),
    (_object({}), _object({}, minProperties=1), "MIN_PROPERTIES_ADDED"),
    (_object({}, maxProperties=2), _object({}, maxProperties=1), "MAX_PROPERTIES_DECREASED"),
    (_object({}), _object({}, dependencies={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED"),
    (_object({}, dependencies={"a": ["b"]}), _object({}, dependencies={"a": ["b", "c"]}), "DEPENDENCY_ARRAY_EXTENDED"),
    (_object({}), _object({}, dependencies={"a": {"maxProperties": 2}}), "DEPENDENCY_SCHEMA_ADDED"),
    ({"anyOf": [STRING, NULL]}, STRING, "TYPE_NARROWED"),
    ({"anyOf": [STRING, NULL]}, {"type": ["null", "string"]}, ""),
    ({"oneOf": [STRING, NULL, NUMBER]}, {"oneOf": [NULL, STRING]}, "SUM_TYPE_NARROWED"),
    ({"anyOf": [STRING, NUMBER]}, {"oneOf": [NUMBER, STRING]}, ""),
    ({"anyOf": [NUMBER, INTEGER]}, {"oneOf": [NUMBER, INTEGER]}, "COMBINED_TYPE_CHANGED"),
    ({"anyOf": [NUMBER, NULL]}, {"anyOf": [INTEGER, NULL]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ({"allOf": [{"maxLength": 5}]}, {"allOf": [{"maxLength": 5}, {"minLength": 1}]}, "PRODUCT_TYPE_EXTENDED"),
    ({"maxLength": 5}, {"allOf": [{"maxLength": 5}, STRING]}, "PRODUCT_TYPE_EXTENDED"),
    ({"not": INTEGER}, {"not": NUMBER}, "NOT_TYPE_EXTENDED"),
    ({"not": STRING}, NUMBER, "TYPE_NARROWED"),
    ({"if": STRING, "then": {"maxLength": 3}}, {"if": STRING, "then": {"maxLength": 2}}, "CONDITIONAL_SCHEMA_CHANGED"),
    (
        {**D2020, **_object({})},
        {**D2020, **_object({}), "unevaluatedProperties": False},
        "ADDITIONAL_PROPERTIES_REMOVED",
    ),
    (_node(NUMBER), _node(INTEGER), "TYPE_NARROWED"),
    ({**STRING, "format": "date"}, STRING, ""),
]


@pytest.mark.parametrize(("wide", "narrow", "kind"), ONE_WAY, ids=[f"{i}-{each[2]}" for i, each in enumerate(ONE_WAY)])
def test_a_wide_schema_reads_a_narrow_one(wide: Any, narrow: Any, kind: str) -> None:
    assert _kinds(wide, narrow) == []
    assert (kind in _kinds(narrow, wide)) if kind else _kinds(narrow, wide) == []


@pytest.mark.parametrize(
    ("reader", "writer", "kind"),
    [
        (STRING, INTEGER, "TYPE_CHANGED"),
        ({"enum": ["a"]}, {"enum": ["b"]}, "ENUM_ARRAY_CHANGED"),
        ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, "PATTERN_CHANGED"),
        ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 3}, "MULTIPLE_OF_CHANGED"),
        (
            _object({"a": STRING}, required=["a"]),
            _object({}),
            "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        ),
        (
            _object({"a": STRING}, required=["a"], **CLOSED),
            _object({}, **CLOSED),
            "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ),
        (
            _object({}, additionalProperties=INTEGER),
            _object({"a": STRING}, additionalProperties=INTEGER),
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        ),
        ({"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}}, {}, "OPTIONAL_PROPERTY_ADDED"),
    ],
)
def test_a_change_is_named(reader: Any, writer: Any, kind: str) -> None:
    assert any(found.startswith(kind) for found in _kinds(reader, writer))


def test_a_required_property_with_a_default_may_be_added() -> None:
    reader = _object({"a": {**STRING, "default": ""}}, required=["a"])
    assert _kinds(reader, _object({"a": STRING})) == []
    assert _kinds({**reader, **CLOSED}, _object({}, **CLOSED)) == []


def test_a_difference_says_where_it_is() -> None:
    reader, writer = (_object({"a": _array(items=each)}) for each in (INTEGER, NUMBER))
    found = FORMAT.incompatibilities(FORMAT.parse(json.dumps(reader), {}), FORMAT.parse(json.dumps(writer), {}))
    assert str(found[0]) == ("TYPE_NARROWED at /properties/a/items/type: data of type number is not valid any longer")


def test_one_of_needs_a_branch_for_each_former_one() -> None:
    assert _kinds({"oneOf": [NUMBER, STRING]}, {"oneOf": [INTEGER, {**INTEGER, "minimum": 3}]}) == []
    overlapping = {"oneOf": [NUMBER, {"type": ["string", "number"]}]}
    assert _kinds(overlapping, {"oneOf": [STRING, {**STRING, "maxLength": 1}]}) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]
    assert _kinds(overlapping, {"oneOf": [INTEGER, STRING]}) == []


def test_properties_in_several_parts_of_a_product_count_together() -> None:
    writer = {"allOf": [_object({"a": STRING}), _object({"b": NUMBER}, required=["a"])]}
    assert _kinds(_object({"a": STRING, "b": NUMBER}, required=["a"]), writer) == []


def test_references_are_followed_through_given_schemas() -> None:
    reader, writer = (
        FORMAT.parse('{"properties": {"a": {"$ref": "other"}}}', {"other": json.dumps(other)})
        for other in (INTEGER, NUMBER)
    )
    assert [each.kind for each in FORMAT.incompatibilities(reader, writer)] == ["TYPE_NARROWED"]
    assert FORMAT.incompatibilities(writer, reader) == []


def test_branches_are_matched_and_not_permuted() -> None:
    branches = [_object({"kind": {"const": i}, "v": NUMBER}, required=["kind"]) for i in range(40)]
    narrow = [_object({"kind": {"const": i}, "v": INTEGER}, required=["kind"]) for i in reversed(range(40))]
    assert _kinds({"oneOf": branches}, {"oneOf": narrow}) == []
    assert _kinds({"oneOf": narrow}, {"oneOf": branches}) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


@pytest.mark.timeout(60)
def test_choices_within_choices_end() -> None:
    def nested(leaf: Any) -> dict[str, Any]:
        definitions: dict[str, Any] = {"d0": leaf}
        for i in range(1, 30):
            refs = [_object({str(k): {"$ref": f"#/definitions/d{i - 1}"}, "n": {"const": k}}) for k in range(4)]
            definitions[f"d{i}"] = {"anyOf": refs}
        return {"definitions": definitions, "$ref": "#/definitions/d29"}

    assert _kinds(nested(NUMBER), nested(NUMBER)) == []
    assert _kinds(nested(INTEGER), nested(NUMBER)) != []


@pytest.mark.timeout(60)
def test_long_chains_of_references_take_no_stack() -> None:
    def chain(leaf: Any) -> dict[str, Any]:
        definitions = {f"d{i}": _object({"n": {"$ref": f"#/definitions/d{i + 1}"}}) for i in range(2000)}
        return {"definitions": {**definitions, "d2000": leaf}, "$ref": "#/definitions/d0"}

    assert _kinds(chain(NUMBER), chain(INTEGER)) == []
    assert _kinds(chain(INTEGER), chain(NUMBER)) == ["TYPE_NARROWED"]


def test_a_pattern_that_backtracks_is_matched_in_linear_time() -> None:
    reader = _object({}, patternProperties={"^(a+)+$": STRING})
    assert "TYPE_CHANGED" not in _kinds(reader, _object({"a" * 5000 + "!": NUMBER}))


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_long_choices_that_are_nearly_the_same_are_compared(keyword: str) -> None:
    """Each branch by each would be 360,000 pairs: the branches that both have cost none."""

    def choice(last: int) -> str:
        numbers = [*range(600), last]
        return json.dumps({keyword: [{"type": "object", "properties": {"k": {"const": each}}} for each in numbers]})

    same, other = FORMAT.parse(choice(600), {}), FORMAT.parse(choice(600), {})
    assert FORMAT.incompatibilities(same, other) == []
    kinds = {each.kind for each in FORMAT.incompatibilities(FORMAT.parse(choice(601), {}), same)}
    assert kinds
    assert "COMPARISON_TOO_COMPLEX" not in kinds
