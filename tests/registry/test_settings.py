"""Configs, modes and contexts over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.registry.test_subjects import BROKEN_USER, USER, USER_2, refusal, register


def test_a_config_is_set_as_one_word_and_read_as_another(registry: httpx.Client) -> None:
    assert registry.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert registry.put("/config", json={"compatibility": "full"}).json() == {"compatibility": "FULL"}
    assert registry.get("/config").json() == {"compatibilityLevel": "FULL"}
    assert registry.put("/config/users", json={"compatibility": "NONE"}).json() == {"compatibility": "NONE"}
    assert registry.get("/config/users").json() == {"compatibilityLevel": "NONE"}
    assert registry.get("/config/others?defaultToGlobal=true").json() == {"compatibilityLevel": "FULL"}
    assert registry.delete("/config/users").json() == {"compatibilityLevel": "NONE"}
    assert refusal(registry.get("/config/users")) == (404, 40408)
    registry.delete("/config")
    assert registry.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_a_wrong_config_or_mode_is_refused(registry: httpx.Client) -> None:
    assert refusal(registry.put("/config", json={"compatibility": "SOME"})) == (422, 42203)
    assert refusal(registry.put("/config", json={"compatibility": 5})) == (422, 42203)
    assert refusal(registry.put("/config", json={"normalize": "yes"})) == (422, 42203)
    assert refusal(registry.put("/mode", json={"mode": "WRITE"})) == (422, 42204)
    assert refusal(registry.put("/mode", json={})) == (422, 42204)


def test_what_a_config_has_beside_its_level_is_kept(registry: httpx.Client) -> None:
    given = {"compatibilityGroup": "v", "normalize": True, "defaultMetadata": {"properties": {"a": "b"}}}
    assert registry.put("/config/users", json=given).json() == given
    assert registry.get("/config/users").json() == given
    assert registry.put("/config/users", json={"normalize": None}).json().keys() == {
        "compatibilityGroup",
        "defaultMetadata",
    }


@pytest.mark.parametrize(
    ("level", "accepts_less", "accepts_more"),
    [
        ("NONE", True, True),
        ("BACKWARD", True, False),
        ("BACKWARD_TRANSITIVE", True, False),
        ("FORWARD", False, True),
        ("FORWARD_TRANSITIVE", False, True),
        ("FULL", False, False),
        ("FULL_TRANSITIVE", False, False),
    ],
)
def test_each_level_lets_in_what_it_promises(
    registry: httpx.Client, level: str, accepts_less: bool, accepts_more: bool
) -> None:
    """A field without a default: to take it away is backward compatible, to add it forward compatible."""
    registry.put("/config", json={"compatibility": level})
    both = USER_2.replace(', "default": ""', "")
    register(registry, "less", both)
    register(registry, "more", USER)
    assert (register(registry, "less", USER).status_code == 200) is accepts_less
    assert (register(registry, "more", both).status_code == 200) is accepts_more


def test_a_transitive_level_looks_at_every_version(registry: httpx.Client) -> None:
    registry.put("/config/users", json={"compatibility": "NONE"})
    for schema in (USER, BROKEN_USER):
        register(registry, "users", schema)
    changed = BROKEN_USER.replace('"nr", "type": "string"', '"nr", "type": ["string", "null"]')
    registry.put("/config/users", json={"compatibility": "BACKWARD_TRANSITIVE"})
    assert refusal(register(registry, "users", changed)) == (409, 40901)
    registry.put("/config/users", json={"compatibility": "BACKWARD"})
    assert register(registry, "users", changed).status_code == 200


def test_a_compatibility_group_compares_within_itself(registry: httpx.Client) -> None:
    registry.put("/config/users", json={"compatibilityGroup": "major"})
    register(registry, "users", USER, metadata={"properties": {"major": "1"}})
    second = register(registry, "users", BROKEN_USER, metadata={"properties": {"major": "2"}})
    assert second.json() == {"id": 2}
    assert refusal(register(registry, "users", BROKEN_USER, metadata={"properties": {"major": "1"}})) == (409, 40901)


def test_modes_close_and_open_subjects(registry: httpx.Client) -> None:
    assert registry.get("/mode").json() == {"mode": "READWRITE"}
    assert registry.put("/mode/users", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert refusal(register(registry, "users", USER)) == (422, 42205)
    assert register(registry, "others", USER).status_code == 200
    assert registry.delete("/mode/users").json() == {"mode": "READONLY"}
    assert register(registry, "users", USER).status_code == 200
    registry.put("/mode", json={"mode": "READONLY"})
    assert refusal(register(registry, "users", USER_2)) == (422, 42205)
    assert refusal(registry.delete("/subjects/users")) == (422, 42205)
    assert registry.get("/mode/users?defaultToGlobal=true").json() == {"mode": "READONLY"}


def test_ids_are_imported_and_go_on_after_the_greatest(registry: httpx.Client) -> None:
    register(registry, "before", USER)
    assert refusal(registry.put("/mode", json={"mode": "IMPORT"})) == (422, 42205)
    assert registry.put("/mode?force=true", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    assert register(registry, "users", USER_2, id=70, version=5).json() == {"id": 70}
    assert register(registry, "users", USER_2, id=70, version=5).json() == {"id": 70}
    assert refusal(register(registry, "users", USER)) == (422, 42205)
    assert refusal(register(registry, "users", BROKEN_USER, id=70)) == (422, 42205)
    assert refusal(register(registry, "users", BROKEN_USER, id=71, version=5)) == (422, 42205)
    assert refusal(register(registry, "users", USER_2, id=71, version=5)) == (422, 42207)
    assert register(registry, "users", USER_2, id=70, version=5).json() == {"id": 70}
    registry.put("/mode", json={"mode": "READWRITE"})
    assert registry.get("/subjects/users/versions").json() == [5]
    assert register(registry, "more", BROKEN_USER).json() == {"id": 71}


def test_contexts_have_subjects_and_ids_of_their_own(registry: httpx.Client) -> None:
    register(registry, "users", USER)
    register(registry, "users", USER_2)
    assert register(registry, ":.lab:users", USER_2).json() == {"id": 1}
    assert registry.get("/contexts").json() == [".", ".lab"]
    assert registry.get("/subjects").json() == [":.lab:users", "users"]
    assert registry.get("/subjects?subjectPrefix=:.lab:").json() == [":.lab:users"]
    assert registry.get("/subjects?subjectPrefix=").json() == ["users"]
    assert registry.get("/contexts/.lab/subjects").json() == [":.lab:users"]
    assert registry.get("/contexts/.lab/subjects/users/versions/1").json()["subject"] == ":.lab:users"
    assert "name" in registry.get("/contexts/.lab/schemas/ids/1").json()["schema"]
    assert "string" in registry.get("/schemas/ids/1?subject=:.lab:").json()["schema"]
    assert "string" not in registry.get("/schemas/ids/1").json()["schema"]
    registry.put("/config/:.lab:", json={"compatibility": "NONE"})
    assert registry.get("/contexts/.lab/config").json() == {"compatibilityLevel": "NONE"}
    assert registry.get("/config/:.lab:users?defaultToGlobal=true").json() == {"compatibilityLevel": "NONE"}
    assert registry.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert refusal(registry.delete("/contexts/.lab")) == (422, 42211)
    assert refusal(register(registry, ":.l b:users", USER)) == (422, 42208)


def test_an_alias_stands_for_another_subject(registry: httpx.Client) -> None:
    register(registry, "users", USER)
    registry.put("/config/people", json={"alias": "users"})
    assert registry.get("/subjects/people/versions/1").json()["subject"] == "users"
    assert registry.post("/subjects/people", json={"schema": USER}).json()["id"] == 1
