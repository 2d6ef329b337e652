"""Generated pairs of schemas: where they are compatible, data of the writer is valid for the reader's validator.

``MAINSTEM_SOUNDNESS`` is how many pairs there are (100).
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mainstem.registry.formats.json_schema.json_schema_format import JsonSchemaFormat
from mainstem.registry.formats.schema_format import InvalidSchemaError

FORMAT = JsonSchemaFormat()
PAIRS = int(os.environ.get("MAINSTEM_SOUNDNESS", "100"))
NAMES = ["a", "b", "ab"]
PATTERNS = ["^a", "b$", "^c"]
_DIALECTS = {
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
TYPES = ["null", "boolean", "string", "object", "array", "integer", "number"]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 1.0, 2, 3, 1.5, -1, 6, "", "a", "ab", "cab"),
    *([], [1], [1, 1], ["a", 1], [1, "a"], [None, 1, 2], {}, {"a": 1}, {"a": "a"}, {"b": 1}, {"a": 1, "b": "a"}),
    *({"ab": 1}, {"a": {"a": 1}}, {"c": 1}, {"c": "a", "a": 2}, {"d": 1.5}, {"a": None, "b": [1], "ab": 0}),
]
SMALL = st.integers(0, 3)


def _schemas(draft: int) -> st.SearchStrategy[Any]:
    types = st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)
    leaf = (
        st.just({"$ref": "#/definitions/n"})
        | st.booleans()
        | st.fixed_dictionaries(
            {},
            optional={
                "type": types,
                "enum": st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique_by=repr),
                "minimum": SMALL,
                "exclusiveMaximum": SMALL,
                "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
                "maxLength": SMALL,
            },
        )
    )
    return st.recursive(
        st.fixed_dictionaries({"type": types}) | leaf, lambda inner: _compound(inner, draft), max_leaves=6
    )


def _compound(inner: st.SearchStrategy[Any], draft: int) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(["object", "array"]),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        "additionalProperties": inner,
        "required": names,
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "propertyNames": inner,
        "contains": inner,
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "not": inner,
        "allOf": branches,
        "anyOf": branches,
        "if": inner,
        "then": inner,
        "else": inner,
        "items": inner if draft == 2020 else inner | branches,
    }
    if draft >= 2019:
        optional |= {"unevaluatedProperties": inner, "unevaluatedItems": inner, "minContains": SMALL}
        optional |= {
            "maxContains": SMALL,
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
        }
        optional |= {"dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)}
    else:
        optional["dependencies"] = st.dictionaries(st.sampled_from(NAMES), names | inner, max_size=2)
    optional["prefixItems" if draft == 2020 else "additionalItems"] = branches if draft == 2020 else inner
    subset = st.lists(st.sampled_from(sorted(optional)), min_size=1, max_size=4, unique=True)
    return subset.flatmap(lambda keys: st.fixed_dictionaries({key: optional[key] for key in keys}))


def _places(tree: Any) -> list[dict[str, Any]]:
    found, pending = [], [tree]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            found.append(each)
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)
    return found


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A reader and a writer: one of them is the other, with keywords taken away or put in anywhere."""
    draft = draw(st.sampled_from(sorted(_DIALECTS)))
    first = draw(_schemas(draft).filter(lambda schema: isinstance(schema, dict)))
    if draft < 2019 and "$ref" in first:  # where nothing stands beside $ref
        first = {"allOf": [first]}
    first["definitions"] = {"n": draw(_schemas(draft))}
    second = copy.deepcopy(first)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(_places(second)))
        if place and draw(st.booleans()):
            del place[draw(st.sampled_from(sorted(place)))]
        else:
            extra = draw(_schemas(draft))
            place.update(copy.deepcopy(extra) if isinstance(extra, dict) else {})
    pair = [{"$schema": _DIALECTS[draft], **each} for each in (first, second)]
    return (pair[0], pair[1]) if draw(st.booleans()) else (pair[1], pair[0])


def _is_valid_schema(schema: dict[str, Any]) -> bool:
    try:
        FORMAT.parse(json.dumps(schema), {})
    except InvalidSchemaError:
        return False
    return True


_INSTANCES = st.recursive(
    st.sampled_from(VALUES),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "c", "cb"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def check(reader: dict[str, Any], writer: dict[str, Any], instances: list[Any]) -> bool:
    """Whether the pair is compatible. Fails when it is, and an instance of the writer is invalid for the reader."""
    parsed = [FORMAT.parse(json.dumps(each), {}) for each in (reader, writer)]
    if FORMAT.incompatibilities(*parsed):
        return False
    valid = [jsonschema_rs.validator_for(each, offline=True) for each in (reader, writer)]
    for instance in [*VALUES, *instances]:
        assert not valid[1].is_valid(instance) or valid[0].is_valid(instance), (reader, writer, instance)
    return True


@settings(max_examples=PAIRS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(_pairs(), st.lists(_INSTANCES, min_size=10, max_size=25))
def test_data_of_a_compatible_writer_is_valid_under_the_reader(
    pair: tuple[dict[str, Any], dict[str, Any]], instances: list[Any]
) -> None:
    reader, writer = pair
    if _is_valid_schema(reader) and _is_valid_schema(writer):
        note(f"{reader} {writer}")
        check(reader, writer, instances)


@settings(
    max_examples=PAIRS * 2 // 5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(_pairs())
def test_every_schema_is_compatible_with_itself(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for each in pair:
        if _is_valid_schema(each):
            assert check(each, copy.deepcopy(each), [])
