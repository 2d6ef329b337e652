"""Avro schemas: which texts are schemas, and the texts that the registry keeps of them."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fastavro.schema import parse_schema, to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

from mainstem.registry.formats.avro.avro_format import AvroFormat, AvroSchema
from mainstem.registry.formats.avro.avro_reader import TYPES_MAX
from mainstem.registry.formats.schema_format import InvalidSchemaError
from tests.registry.avro_schemas import schemas


def parsed(schema: Any, *references: Any) -> AvroSchema:
    texts = {str(index): json.dumps(each) for index, each in enumerate(references)}
    return AvroFormat().parse(json.dumps(schema), texts)


def canonical(schema: Any, *references: Any) -> Any:
    return json.loads(parsed(schema, *references).canonical)


def record(name: str, *fields: Any, **attributes: Any) -> dict[str, Any]:
    """A record; a field is its type, or its attributes in a set of pairs with a type."""
    named = [
        {"name": f"f{index}", **(each if "order" in each else {"type": each})} for index, each in enumerate(fields)
    ]
    return {"type": "record", "name": name, **attributes, "fields": named}


def of_field(kind: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, **attributes}]}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "type" : "string" }', '"string"'),
        ('{"type":"int","logicalType":"date","name":"n","doc":"d"}', '{"type":"int","logicalType":"date"}'),
        ('{"items":{"type":"int"},"p":1,"type":"array"}', '{"type":"array","items":"int","p":1}'),
        ('{"values":["null","int"],"type":"map"}', '{"type":"map","values":["null","int"]}'),
        ("[]", "[]"),
        (
            '{"aliases":["F","o.G","n.H"],"p":1,"default":"B","symbols":["A","B"],"doc":"d","name":"n.E","type":"enum"}',
            '{"type":"enum","name":"E","namespace":"n","doc":"d","symbols":["A","B"],"default":"B","p":1,'
            '"aliases":["F","o.G","H"]}',
        ),
        ('{"size":3,"name":"F","type":"fixed","doc":""}', '{"type":"fixed","name":"F","doc":"","size":3}'),
        (
            '{"fields":[{"p":0,"aliases":["b"],"order":"IGNORE","default":1,"doc":"d","type":"int","name":"a"},'
            '{"name":"c","type":"int","order":"ascending"}],"name":"R","type":"error"}',
            '{"type":"error","name":"R","fields":[{"name":"a","type":"int","doc":"d","default":1,"order":"ignore",'
            '"aliases":["b"],"p":0},{"name":"c","type":"int"}]}',
        ),
    ],
)
def test_attributes_have_one_order(text: str, expected: str) -> None:
    assert AvroFormat().parse(text, {}).canonical == expected


def test_a_name_is_written_as_briefly_as_its_namespace_allows() -> None:
    inner = {"type": "record", "name": "n.In", "fields": [{"name": "x", "type": ["null", "n.Out", "In"]}]}
    text = record("Out", inner, {**ENUM, "namespace": "m"}, "m.E", {**FIXED, "namespace": ""}, "F", namespace="n")
    assert [field["type"] for field in canonical(text)["fields"]] == [
        {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["null", "Out", "In"]}]},
        {"type": "enum", "name": "E", "namespace": "m", "symbols": ["A", "B"]},
        "m.E",
        {"type": "fixed", "name": "F", "namespace": "", "size": 2},
        "F",
    ]


def test_a_name_that_is_also_a_kind_of_type_keeps_its_namespace() -> None:
    assert canonical(record("a.map", ["null", "map"]))["fields"][0]["type"] == ["null", "a.map"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("1.10", "1.1"),
        ("-0.0", "-0.0"),
        ("9999999.5", "9999999.5"),
        ("1e7", "1.0E7"),
        ("99999999.99", "9.999999999E7"),
        ("-0.00012", "-1.2E-4"),
        ("0.001", "0.001"),
        ("123456789012345678901", "123456789012345678901"),
        (r'"\u001f\u0007\n\"\\\u00e9\u007f\/"', '"\\u001F\\u0007\\n\\"\\\\é\x7f/"'),
    ],
)
def test_numbers_and_texts_are_spelled_as_java_spells_them(number: str, expected: str) -> None:
    assert AvroFormat().parse(f'{{"type":"int","p":{number}}}', {}).canonical == f'{{"type":"int","p":{expected}}}'


def test_comments_are_left_out() -> None:
    text = '/* "a" */ {"type": "int", // b\n "p": "/* c */ // d"}'
    assert AvroFormat().parse(text, {}).canonical == '{"type":"int","p":"/* c */ // d"}'


def test_a_definition_that_is_repeated_is_written_once() -> None:
    text = record("R", FIXED, {**FIXED, "doc": "again"})
    assert [field["type"] for field in canonical(text)["fields"]] == [FIXED, "F"]


def test_types_of_references_stay_names_and_are_resolved_on_demand() -> None:
    base, user = record("n.Base", ENUM), record("n.User", "Base", ["null", "n.E"])
    text = record("n.R", "User", "E", "n.Base")
    schema = parsed(text, base, user)
    assert [field["type"] for field in json.loads(schema.canonical)["fields"]] == ["User", "E", "Base"]
    assert json.loads(schema.resolved())["fields"][0]["type"]["fields"][0]["type"]["name"] == "Base"
    assert parsed(json.loads(schema.resolved())).canonical == schema.resolved()
    assert schema.serialized() == schema.canonical


def test_a_schema_may_repeat_a_referenced_type_and_may_be_its_name_alone() -> None:
    assert canonical(FIXED, FIXED) == "F"
    assert canonical("F", FIXED) == "F"
    assert canonical(record("R", FIXED), FIXED)["fields"][0]["type"] == "F"


def test_resolved_is_canonical_where_it_would_nest_too_deeply() -> None:
    chain = [record("R0"), *(record(f"R{index}", f"R{index - 1}") for index in range(1, 300))]
    schema = parsed("R299", *chain)
    assert schema.resolved() == schema.canonical == '"R299"'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (
            '{"type":"bytes","scale":2,"precision":4,"connect.name":"D","logicalType":"decimal","a":{"z":1,"b":2}}',
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":{"b":2,"z":1},"connect.name":"D"}',
        ),
        ('{"type":"int","logicalType":"unknown","a":1}', '{"type":"int","a":1,"logicalType":"unknown"}'),
        (
            '{"type":"error","name":"R","doc":"","aliases":["C","b.B","A"],"fields":[]}',
            '{"type":"record","name":"R","fields":[],"aliases":["A","C","b.B"]}',
        ),
    ],
)
def test_normalized_makes_one_text_of_those_that_mean_the_same(text: str, same: str) -> None:
    assert AvroFormat().parse(text, {}).normalized() == same
    assert AvroFormat().parse(same, {}).normalized() == same


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("double", 1, 1.0),
        (["float", "null"], 2, 2.0),
        ({"type": "array", "items": "double"}, [1, 2.5], [1.0, 2.5]),
        ({"type": "map", "values": "double"}, {"b": 1, "a": 2}, {"a": 2.0, "b": 1.0}),
        (of_field("double"), {"f": 1}, {"f": 1.0}),
        ("float", "1.5", 1.5),
    ],
)
def test_normalized_defaults_are_compared_by_value(kind: Any, one: Any, other: Any) -> None:
    outer = {"type": "record", "name": "Outer"}
    texts = [parsed({**outer, "fields": [{"name": "f", "type": kind, "default": each}]}) for each in (one, other)]
    assert texts[0].normalized() == texts[1].normalized()


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("float", "NaN"),
        ("long", (1 << 63) - 1),
        (["null", "int"], 1),
        (["int", "null"], None),
        (ENUM, "A"),
        (FIXED, "ab"),
        ("bytes", "ÿ"),
        (record("P", "int", {"type": "int", "order": "ignore", "default": 3}), {"f0": 1}),
        ({"type": "array", "items": "R"}, []),
        (["null", "R"], None),
    ],
)
def test_a_default_that_fits_is_kept(kind: Any, default: Any) -> None:
    assert canonical(of_field(kind, default=default))["fields"][0]["default"] == default


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "1"),
        ("int", 1.0),
        ("int", 1 << 31),
        ("long", 1 << 63),
        ("boolean", 0),
        ("double", True),
        ("double", "x"),
        ("double", "1_0"),
        ("string", None),
        (ENUM, 1),
        (["null", "int"], "x"),
        ([], None),
        ({"type": "array", "items": "int"}, [1, None]),
        ({"type": "map", "values": "int"}, []),
        (record("P", "int"), {}),
        (record("P", "int"), {"f0": "x"}),
        ("R", {}),
        (["null", "R"], {}),
    ],
)
def test_a_default_that_does_not_fit_is_refused(kind: Any, default: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="default"):
        parsed(of_field(kind, default=default))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("Unknown", "unknown type"),
        ({"type": "union"}, "unknown type"),
        (record("R", "S", {"type": "record", "name": "S", "fields": []}), "/fields/0/type: unknown type"),
        ({}, '"type" must be text'),
        ({"type": {"type": "int"}}, '"type" must be text'),
        (5, "not a type"),
        (record("1a"), "invalid name"),
        (record("é"), "invalid name"),
        (record("a..b"), "invalid name"),
        (record("R\n"), "invalid name"),
        (record("R", namespace="a-b"), "invalid name"),
        (record("R", aliases=["a-b"]), "invalid name"),
        (record("R", aliases="a"), '"aliases"'),
        (record("string"), "primitive"),
        ({"type": "record", "fields": []}, '"name"'),
        ({"type": "record", "name": "R"}, '"fields"'),
        ({"type": "record", "name": "R", "fields": [{"name": "f"}]}, '"type"'),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, '"name"'),
        (record("R", {"type": "int", "order": "up"}), "order"),
        ({**record("R"), "fields": [{"name": "a", "type": "int"}] * 2}, "two fields a"),
        ({**ENUM, "symbols": ["A", "A"]}, "twice"),
        ({**ENUM, "symbols": ["A-"]}, "invalid name"),
        ({**ENUM, "symbols": [1]}, "symbol"),
        ({**ENUM, "symbols": "A"}, '"symbols"'),
        ({**ENUM, "default": "C"}, "default"),
        ({**FIXED, "size": -1}, '"size"'),
        ({**FIXED, "size": True}, '"size"'),
        ({**FIXED, "size": 1 << 31}, '"size"'),
        ({"type": "array"}, '"items"'),
        ({"type": "map"}, '"values"'),
        (["int", ["null"]], "union"),
        (["int", {"type": "int", "logicalType": "date"}], "two branches"),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "two branches"),
        ([FIXED, "F"], "two branches"),
        (record("R", FIXED, {**FIXED, "size": 3}), "already defined"),
        (record("R", record("R")), "already defined"),
    ],
)
def test_what_is_not_a_schema_is_refused_with_one_line(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        parsed(schema)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "string",
        '"string" x',
        '{"type":"int"',
        '{"type":"int","p":NaN}',
        '{"type":"int","p":1e999}',
        "\ufeff1",
        "/*",
        r'{"type":"int","p":"\ud800"}',
        '{"type":"int","p":"\t"}',
        f'{{"type":"int","p":{"9" * 9999}}}',
    ],
)
def test_broken_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        AvroFormat().parse(text, {})


def test_an_error_in_a_reference_names_the_reference() -> None:
    with pytest.raises(InvalidSchemaError, match=r'reference "other": unknown type "X"'):
        AvroFormat().parse('"int"', {"other": '"X"'})


def arrays(count: int) -> str:
    return '{"type":"array","items":' * count + '"int"' + "}" * count


def records(count: int) -> str:
    opening = "".join(f'{{"type":"record","name":"R{i}","fields":[{{"name":"f","type":' for i in range(count))
    return opening + '"int"' + "}]}" * count


@pytest.mark.parametrize(
    "text",
    [
        arrays(120),
        arrays(100_000),
        records(120),
        "[" * 100_000,
        '{"a":' * 100_000,
        json.dumps(["int"] * (TYPES_MAX + 1)),
        json.dumps(record("R", *["int"] * TYPES_MAX)),
        '"' + "/*" * 50_000,
        "/*" * 50_000,
        '"\\' * 50_000,
    ],
)
def test_too_much_is_refused_and_not_a_crash(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        AvroFormat().parse(text, {})


def at_depth(frames: int, act: Callable[[], Any]) -> Any:
    return act() if not frames else at_depth(frames - 1, act)


@pytest.mark.parametrize("text", [arrays(99), records(99), f'{{"type":"int","p":{"[" * 390}{"]" * 390}}}'])
def test_what_is_accepted_is_written_on_a_deep_stack_too(text: str) -> None:
    depth = len(inspect.stack())

    def all_texts() -> tuple[str, ...]:
        schema = AvroFormat().parse(text, {})
        return schema.canonical, schema.normalized(), schema.resolved()

    assert len(set(at_depth(sys.getrecursionlimit() // 3 - depth, all_texts))) == 1


def test_a_default_that_fits_no_branch_is_found_at_once() -> None:
    kinds = ["null", *(f"R{index}" for index in range(8))]
    nodes = [{"type": "record", "name": f"R{i}", "fields": [{"name": "n", "type": ["null"]}]} for i in range(8)]
    nodes[0]["fields"] = [{"name": "n", "type": ["null", "R0", {"type": "map", "values": ["null", "R0"]}]}]
    value: Any = 1
    for _ in range(40):
        value = {"n": value}
    with pytest.raises(InvalidSchemaError, match="default"):
        parsed({"type": "record", "name": "Z", "fields": [{"name": "f", "type": kinds, "default": value}]}, nodes)


@given(schemas())
def test_the_canonical_text_is_its_own_and_means_the_same_to_fastavro(schema: Any) -> None:
    first = parsed(schema)
    again = AvroFormat().parse(first.canonical, {})
    assert again.canonical == first.canonical
    assert again.normalized() == first.normalized() == AvroFormat().parse(first.normalized(), {}).normalized()
    assert to_parsing_canonical_form(parse_schema(json.loads(first.canonical))) == to_parsing_canonical_form(
        parse_schema(schema)
    )


@given(schemas(), st.data())
def test_a_broken_schema_is_refused_and_never_a_crash(schema: Any, data: st.DataObject) -> None:
    text = json.dumps(schema)
    at = data.draw(st.integers(0, len(text)))
    broken = text[:at] + data.draw(st.sampled_from(["", "{", "[", '"', "null", "-1", ",", "a"])) + text[at + 1 :]
    try:
        accepted = AvroFormat().parse(broken, {}).canonical
    except InvalidSchemaError:
        return
    assert AvroFormat().parse(accepted, {}).canonical == accepted
