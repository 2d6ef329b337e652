"""Avro schemas: the text that is stored, references, and what is refused in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainstem.registry.formats.avro import FORMAT
from mainstem.registry.formats.schema_format import InvalidSchemaError

ADDRESS = '{"type":"record","name":"Address","namespace":"a","fields":[{"name":"city","type":"string"}]}'
PERSON = '{"type":"record","name":"Person","namespace":"a","fields":[{"name":"home","type":"Address"}]}'


def record(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields), **more})


def canonical(text: str) -> str:
    return FORMAT.parse(text, {}).canonical


def test_layout_and_spelling_mean_nothing() -> None:
    assert canonical(' { "type" : "string" } ') == '"string"'
    assert canonical('{"fields": [], "name": "n.R", "type": "record"}') == (
        '{"type":"record","name":"R","namespace":"n","fields":[]}'
    )
    assert canonical('{"type":"bytes","logicalType":"decimal","scale":2,"precision":4}') == (
        '{"type":"bytes","logicalType":"decimal","scale":2,"precision":4}'
    )


def test_normalized_schemas_have_their_own_attributes_in_order() -> None:
    texts = (record(b=1, a=2, aliases=["Z", "Y"]), record(a=2, b=1, aliases=["Y", "Z"]))
    assert len({FORMAT.parse(text, {}).canonical for text in texts}) == 2
    assert len({FORMAT.parse(text, {}).normalized() for text in texts}) == 1


def test_a_reference_stays_a_name_and_is_resolved_on_request() -> None:
    person = FORMAT.parse(PERSON, {"a.Address": ADDRESS})
    assert person.canonical == PERSON == person.serialized()
    inlined = json.loads(person.resolved())["fields"][0]["type"]
    assert inlined == {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    with pytest.raises(InvalidSchemaError, match='the type "Address" is not defined'):
        FORMAT.parse(PERSON, {})
    with pytest.raises(InvalidSchemaError, match="the reference 'x': it is not JSON"):
        FORMAT.parse(PERSON, {"x": "{"})


def test_a_recursive_type_is_compared_with_its_older_self() -> None:
    node = {"name": "next", "type": ["null", "R"], "default": None}
    old, new = FORMAT.parse(record(node), {}), FORMAT.parse(record(node, {"name": "n", "type": "int"}), {})
    assert FORMAT.incompatibilities(old, new) == []
    (found,) = FORMAT.incompatibilities(new, old)
    assert (found.kind, found.path) == ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")


@pytest.mark.parametrize(
    ("reader", "writer", "kind"),
    [
        ('"int"', '"long"', "TYPE_MISMATCH"),
        ('["int","string"]', '"double"', "MISSING_UNION_BRANCH"),
        ('["int","string"]', '["string","bytes","null"]', "MISSING_UNION_BRANCH"),
        ('{"type":"fixed","name":"F","size":1}', '{"type":"fixed","name":"F","size":2}', "FIXED_SIZE_MISMATCH"),
        ('{"type":"fixed","name":"F","size":1}', '{"type":"fixed","name":"G","size":1}', "NAME_MISMATCH"),
        (
            '{"type":"enum","name":"E","symbols":["A"]}',
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            "MISSING_ENUM_SYMBOLS",
        ),
    ],
)
def test_each_difference_has_its_kind(reader: str, writer: str, kind: str) -> None:
    found = FORMAT.incompatibilities(FORMAT.parse(reader, {}), FORMAT.parse(writer, {}))
    assert [each.kind for each in found] == [kind]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is not JSON"),
        ("long", "it is not JSON"),
        ("[" * 5_000, "nested too deeply"),
        ('{"type":"array","items":' * 150 + '"int"' + "}" * 150, "more than 100 levels"),
        ("5", "a type is missing: 5"),
        ('"nothing"', 'the type "nothing" is not defined'),
        (record({"name": "a"}), "a field of R has no type"),
        (record({"name": "a-b", "type": "int"}), 'invalid name "a-b" of a field of R'),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "has the field a twice"),
        (record({"name": "a", "type": "int", "default": "x"}), 'the default "x" of R.a is not of its type'),
        (record({"name": "a", "type": "int", "order": "up"}), 'invalid order "up"'),
        (record({"name": "a", "type": json.loads(record())}), "the type R is defined twice"),
        ('["int",["null"]]', "a union directly in a union"),
        ('["int","int"]', "a union has int twice"),
        ('{"type":"fixed","name":"F","size":-1}', "invalid size -1"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "has a symbol twice"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', 'the default "B" is not a symbol of E'),
        ('{"type":"record","fields":[]}', "a record has no name"),
        ('{"type":"map"}', "a map without values"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words) as refused:
        FORMAT.parse(text, {})
    assert "\n" not in str(refused.value)


def test_many_types_are_compared_in_bounded_time() -> None:
    """Each record refers to all others: pairs are looked at once, so there is an end."""
    names = [f"R{number}" for number in range(60)]
    types: list[Any] = []
    for number, name in enumerate(names):
        fields = [{"name": f"f{other}", "type": ["null", names[other]]} for other in range(number)]
        types.append({"type": "record", "name": name, "fields": fields})
    text = json.dumps(types)
    schema = FORMAT.parse(text, {})
    assert FORMAT.incompatibilities(schema, FORMAT.parse(text, {})) == []
