"""A subject's config adds metadata and rules to its schemas."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mainstem.registry.data_contracts import with_contract
from mainstem.schemas_topic.records import sorted_json
from tests.registry.test_subjects import USER, USER_2, refusal, register


def rule(name: str, expr: str = "true") -> dict[str, Any]:
    return {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expr}


CONTRACT = {
    "defaultMetadata": {"properties": {"owner": "nobody", "tier": "bronze"}, "tags": {"User.id": ["ID"]}},
    "overrideMetadata": {"properties": {"tier": "gold"}, "sensitive": ["owner"]},
    "defaultRuleSet": {"domainRules": [rule("first"), rule("checked", "default")]},
    "overrideRuleSet": {"domainRules": [rule("last")]},
}


def properties(registry: httpx.Client, version: int | str = "latest") -> dict[str, str]:
    found: dict[str, str] = registry.get(f"/subjects/users/versions/{version}").json()["metadata"]["properties"]
    return found


def test_defaults_lie_below_the_request_and_overrides_above(registry: httpx.Client) -> None:
    registry.put("/config/users", json=CONTRACT)
    given = {"properties": {"owner": "data", "tier": "silver"}, "sensitive": ["tier"]}
    register(registry, "users", USER, metadata=given, ruleSet={"domainRules": [rule("checked", "given")]})
    found = registry.get("/subjects/users/versions/1").json()
    assert found["metadata"] == {
        "properties": {"owner": "data", "tier": "gold"},
        "tags": {"User.id": ["ID"]},
        "sensitive": ["owner", "tier"],
    }
    rules = [(each["name"], each["expr"]) for each in found["ruleSet"]["domainRules"]]
    assert rules == [("first", "true"), ("checked", "given"), ("last", "true")]
    assert registry.get("/schemas/ids/1").json()["metadata"] == found["metadata"]


def test_the_config_of_the_registry_holds_for_its_subjects(registry: httpx.Client) -> None:
    registry.put("/config", json={"overrideMetadata": {"properties": {"tier": "gold"}}})
    register(registry, "users", USER)
    assert properties(registry) == {"tier": "gold"}


def test_a_producer_that_registers_again_gets_the_version_that_it_has(registry: httpx.Client) -> None:
    registry.put("/config/users", json=CONTRACT)
    given = {"properties": {"owner": "data"}}
    for _ in range(2):
        assert register(registry, "users", USER, metadata=given).json() == {"id": 1}
        assert register(registry, "users", USER).json() == {"id": 1}
        assert registry.post("/subjects/users", json={"schema": USER, "metadata": given}).json()["version"] == 1
    register(registry, "users", USER_2, metadata={"properties": {"owner": "others"}})
    assert register(registry, "users", USER).json() == {"id": 1}
    assert registry.get("/subjects/users/versions").json() == [1, 2]
    assert refusal(registry.post("/subjects/users", json={"schema": USER, "metadata": {}})) == (404, 40403)


def test_what_a_request_lacks_comes_from_the_latest_version(registry: httpx.Client) -> None:
    registry.put("/config/users", json={"defaultMetadata": {"properties": {"owner": "nobody"}}})
    register(registry, "users", USER, metadata={"properties": {"owner": "data"}})
    register(registry, "users", USER_2)
    assert properties(registry, 2) == {"owner": "data"}


def test_a_new_override_comes_into_the_next_registration(registry: httpx.Client) -> None:
    register(registry, "users", USER, metadata={"properties": {"owner": "data"}})
    registry.put("/config/users", json={"overrideMetadata": {"properties": {"tier": "gold"}}})
    register(registry, "users", USER)
    assert [properties(registry, number) for number in (1, 2)] == [
        {"owner": "data"},
        {"owner": "data", "tier": "gold"},
    ]
    found = registry.post("/subjects/users", json={"schema": USER}).json()
    assert found["version"] == 2


def test_what_is_imported_stays_as_it_was(registry: httpx.Client) -> None:
    registry.put("/config/users", json=CONTRACT)
    registry.put("/mode/users", json={"mode": "IMPORT"})
    register(registry, "users", USER, id=7, version=1, metadata={"properties": {"owner": "data"}})
    register(registry, "users", USER_2, id=8, version=2)
    assert properties(registry, 1) == {"owner": "data"}
    assert "metadata" not in registry.get("/subjects/users/versions/2").json()


def test_what_comes_out_too_large_is_refused(registry: httpx.Client) -> None:
    registry.put("/config/users", json={"overrideMetadata": {"properties": {"a": "x" * 60_000}}})
    answer = register(registry, "users", USER, metadata={"properties": {"b": "y" * 60_000}})
    assert refusal(answer) == (422, 42201)


@pytest.mark.parametrize("field", ["schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"])
def test_changes_of_tags_are_refused_and_not_passed_over(registry: httpx.Client, field: str) -> None:
    assert refusal(register(registry, "users", USER, **{field: [{"tags": ["PII"]}]})) == (422, 42201)
    assert register(registry, "users", USER, **{field: None}).json() == {"id": 1}


@pytest.mark.parametrize("strange", [{"properties": 5}, {"tags": []}, {"domainRules": {"a": 1}, "sensitive": "all"}])
def test_values_of_another_shape_are_replaced_as_a_whole(strange: dict[str, Any]) -> None:
    usual = {"properties": {"a": "b"}, "tags": {"x": ["Y"]}, "sensitive": ["a"], "domainRules": [rule("r"), 5]}
    above = with_contract({"overrideMetadata": strange, "overrideRuleSet": strange}, sorted_json(usual), None)
    assert above == (sorted_json({**usual, **strange}), sorted_json(strange))
    below = with_contract({"defaultMetadata": strange, "defaultRuleSet": strange}, sorted_json(usual), None)
    assert below == (sorted_json({**strange, **usual}), sorted_json(strange))
