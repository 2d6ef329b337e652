"""JSON Schemas are read, refused and written."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from mainstem.registry.formats.json_schema import json_schema_nodes
from mainstem.registry.formats.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat
from mainstem.registry.formats.schema_format import InvalidSchemaError

DIALECTS = [*json_schema_nodes.DRAFTS, "http://json-schema.org/draft-07/schema#"]


def _parse(schema: Any, **references: Any) -> JsonSchema:
    texts = {name.replace("_", "."): json.dumps(each) for name, each in references.items()}
    return JsonSchemaFormat().parse(schema if isinstance(schema, str) else json.dumps(schema), texts)


@pytest.mark.parametrize("text", ["true", "false", "{}", '{"type":"string"}'])
def test_the_smallest_schemas_are_accepted(text: str) -> None:
    assert _parse(text).canonical == text


def test_the_canonical_text_keeps_order_and_numbers_and_drops_white_space() -> None:
    text = '{ "title" : "a  b",\n "maximum": 1.50e3, "$comment":"\\u00e9\\/\\n" , "enum":[1.0, 1] }'
    assert _parse(text).canonical == '{"title":"a  b","maximum":1.50e3,"$comment":"é/\\n","enum":[1.0,1]}'
    assert _parse(text).serialized() == _parse(text).canonical


def test_the_last_of_repeated_keys_counts() -> None:
    assert _parse('{"title": "a", "type": "null", "title": "b"}').canonical == '{"title":"b","type":"null"}'


def test_the_normalized_text_sorts_keys() -> None:
    assert _parse({"type": "object", "properties": {"b": {}, "a": {}}}).normalized() == (
        '{"properties":{"a":{},"b":{}},"type":"object"}'
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_draft_has_its_meta_schema(dialect: str) -> None:
    assert _parse({"$schema": dialect, "type": "string"})
    with pytest.raises(InvalidSchemaError, match=r"strin.*type"):
        _parse({"$schema": dialect, "properties": {"a": {"type": "strin"}}})
    with pytest.raises(InvalidSchemaError, match="regex"):
        _parse({"$schema": dialect, "pattern": "("})


def test_a_draft_says_what_a_keyword_means() -> None:
    assert _parse({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 1, "exclusiveMaximum": True})
    with pytest.raises(InvalidSchemaError):
        _parse({"maximum": 1, "exclusiveMaximum": True})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('"string"', "must be a JSON object"),
        ('{"maximum": NaN}', "NaN"),
        ('{"maximum": 1e999}', "too large"),
        ('{"title": "\\ud800"}', "surrogate"),
        ('{"$ref": "#/definitions/nothing"}', "names a place"),
        ('{"$ref": "#nothing"}', "names a place"),
        ('{"$ref": "other.json"}', "neither in the schema nor among its references"),
        ('{"$ref": "http://["}', "uri-reference"),
        ('{"$ref": "#"}', "refers to itself"),
        ('{"allOf": [{"anyOf": [{"$ref": "#"}]}]}', "refers to itself"),
        ('{"$ref": "#/x", "x": {"type": 1}}', "type"),
        ('{"$ref": "http://json-schema.org/draft-07/schema#/definitions/nothing"}', "neither"),
        ("[" * 100_000, "too deeply"),
        ('{"not":' * 100_000, "too deeply"),
        ('{"not":' * 390 + "true" + "}" * 390, "too deeply"),
        ('{"maximum": ' + "9" * 10_000 + "}", "not JSON"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message) as raised:
        _parse(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_deep_schemas_within_the_bound_are_read_written_and_compared() -> None:
    text = '{"not":' * 240 + "true" + "}" * 240
    schema = _parse(text)
    assert schema.normalized() == schema.canonical == text
    assert JsonSchemaFormat().incompatibilities(schema, _parse(text)) == []


def test_the_number_of_subschemas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema_nodes, "NODES_MAX", 10)
    with pytest.raises(InvalidSchemaError, match="more than 10 subschemas"):
        _parse({"properties": {str(i): {} for i in range(20)}})


@pytest.mark.parametrize(
    "ref", ["other.json", "./other.json", "other.json#", "other.json#/definitions/n", "other.json#n"]
)
def test_a_reference_is_found_by_its_name(ref: str) -> None:
    other = {"definitions": {"n": {"$id": "#n", "type": "string"}}}
    assert _parse({"properties": {"a": {"$ref": ref}}}, other_json=other)


def test_a_reference_is_found_relative_to_the_id() -> None:
    name = "http://acme.example/schemas/other.json"
    schema = {"$id": "http://acme.example/schemas/one.json", "properties": {"a": {"$ref": "other.json"}}}
    assert JsonSchemaFormat().parse(json.dumps(schema), {name: '{"type": "string"}'})


def test_references_refer_to_each_other() -> None:
    middle = {"$id": "http://acme.example/middle", "properties": {"a": {"$ref": "last.json"}}}
    assert _parse({"properties": {"a": {"$ref": "middle.json"}}}, last_json={"type": "null"}, middle_json=middle)


def test_an_invalid_reference_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidSchemaError, match=r"other\.json"):
        _parse({"properties": {"a": {"$ref": "other.json"}}}, other_json={"type": "strin"})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_meta_schema_can_be_referred_to(dialect: str) -> None:
    assert _parse({"$schema": dialect, "properties": {"a": {"$ref": dialect}}})


def test_names_that_look_like_keywords_are_names() -> None:
    assert _parse({"properties": {"$ref": {"type": "string"}, "$id": {}, "enum": {}}, "default": {"$ref": "#/nothing"}})


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    uri = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
    with server:
        for schema in ({"$ref": uri}, {"$ref": "file:///etc/hostname"}, {"properties": {"a": {"$ref": f"{uri}#/b"}}}):
            with pytest.raises(InvalidSchemaError):
                _parse(schema)
        _parse({"$schema": uri, "properties": {"a": {"$schema": uri, "$id": uri}}})
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_resolved_schema_needs_no_references(dialect: str) -> None:
    schema = _parse({"$schema": dialect, "properties": {"a": {"$ref": "other.json"}}}, other_json={"type": "string"})
    resolved = _parse(schema.resolved())
    assert '"other.json":{' in schema.resolved()
    assert JsonSchemaFormat().incompatibilities(resolved, schema) == []
    assert JsonSchemaFormat().incompatibilities(schema, resolved) == []


def test_a_root_reference_is_resolved() -> None:
    assert '"allOf":[{"$ref":"other.json"}]' in _parse({"$ref": "other.json"}, other_json={"type": "string"}).resolved()


def test_a_reference_that_cannot_be_bundled_leaves_the_canonical_text() -> None:
    schema = _parse({"properties": {"a": {"$ref": "other.json"}}}, other_json=True)
    assert schema.resolved() == schema.canonical
