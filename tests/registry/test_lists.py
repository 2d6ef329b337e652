"""Lists of schemas are bounded by their texts, too."""

from __future__ import annotations

from mainstem.gateway.registry.registry_json import LIST_CHARACTERS_MAX, of_bounded_length
from mainstem.schemas_topic.records import Content, StoredSchema


def stored(number: int, characters: int) -> StoredSchema:
    return StoredSchema(f"s{number}", 1, number, Content("AVRO", "x" * characters))


def test_a_list_ends_behind_the_last_schema_that_has_room() -> None:
    schemas = [stored(number, LIST_CHARACTERS_MAX // 4) for number in range(1, 10)]
    assert [each.id for each in of_bounded_length(schemas)] == [1, 2, 3, 4]
    assert [each.id for each in of_bounded_length(schemas[4:])] == [5, 6, 7, 8]


def test_a_list_has_at_least_one_schema() -> None:
    assert len(list(of_bounded_length([stored(1, LIST_CHARACTERS_MAX + 1), stored(2, 1)]))) == 1
