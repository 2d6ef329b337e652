"""A schema registry: asked once for each id, and what it says when it does not help."""

from __future__ import annotations

import pytest

from mainstem.errors import LogUnavailableError, SchemaError
from mainstem.schema.avro_registry import AvroRegistry
from tests.support.avro_values import registry
from tests.support.ports import free_port

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def test_a_schema_is_asked_for_once_with_the_user_that_was_given() -> None:
    asked: list[str] = []
    with registry({7: SCHEMA}, asked) as url:
        found = AvroRegistry(url, "me:secret")
        assert [found.schema(7), found.schema(7)] == [
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}'
        ] * 2
        assert (found.schema(8), found.schema(8)) == (None, None)
        assert found.latest("a/b-value") == found.schema(7)
    assert asked == [
        "/schemas/ids/7|Basic bWU6c2VjcmV0",
        "/schemas/ids/8|Basic bWU6c2VjcmV0",
        "/subjects/a%2Fb-value/versions/latest|Basic bWU6c2VjcmV0",
    ]
    assert "secret" not in repr(found)


def test_a_subject_without_a_schema_is_named() -> None:
    with registry({7: {}}) as url, pytest.raises(SchemaError, match="no Avro schema for t-value; give avroSchema"):
        AvroRegistry(url).latest("t-value")


def test_a_registry_that_is_not_there_may_be_later() -> None:
    with pytest.raises(LogUnavailableError, match="cannot be reached"):
        AvroRegistry(f"http://127.0.0.1:{free_port()}").schema(1)
