"""Associations: which subject a topic's values belong to, as serializers ask for it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.registry.test_subjects import USER, USER_2, refusal, register

PLACE = {"resourceName": "orders", "resourceNamespace": "lkc-1", "resourceId": "orders-id"}


def request(subject: str = "shared", **more: Any) -> dict[str, Any]:
    return {**PLACE, "associations": [{"subject": subject, "associationType": "value", **more}]}


def subjects(registry: httpx.Client, path: str, **query: str) -> list[str]:
    return [each["subject"] for each in registry.get(f"/associations/{path}", params=query).json()]


def test_confluent_s_serializer_goes_by_the_association_of_its_topic(registry: httpx.Client) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    wanted = AssociationCreateOrUpdateRequest(
        "orders", "lkc-1", "orders-id", "topic", [AssociationCreateOrUpdateInfo("shared", "value", "STRONG")]
    )
    with SchemaRegistryClient({"url": str(registry.base_url)}) as client:
        made = client.create_association(wanted)
        assert made.associations is not None
        assert (made.associations[0].subject, made.associations[0].lifecycle) == ("shared", "STRONG")
        data = AvroSerializer(client, USER)({"id": 1}, context)
        assert AvroDeserializer(client)(data, context) == {"id": 1}
        assert client.get_subjects() == ["shared"]
        with pytest.raises(SchemaRegistryError) as refused:
            client.delete_associations("none")
        assert refused.value.http_status_code == 404
        client.delete_associations("orders-id", cascade_lifecycle=True)
        assert client.get_associations_by_resource_name("orders", "-") == []
        assert client.get_subjects() == []
        AvroSerializer(client, USER)({"id": 1}, context)
        assert client.get_subjects() == ["orders-value"]
    assert Schema(USER, "AVRO")


def test_associations_are_found_by_resource_name_and_subject(registry: httpx.Client) -> None:
    registry.post("/associations", json=request(lifecycle="STRONG"))
    registry.post(
        "/associations", json={**request("keys"), "associations": [{"subject": "k", "associationType": "key"}]}
    )
    assert subjects(registry, "resources/orders-id") == ["k", "shared"]
    assert subjects(registry, "resources/orders-id", associationType="value") == ["shared"]
    assert subjects(registry, "resources/orders-id", lifecycle="WEAK") == ["k"]
    assert subjects(registry, "resources/orders-id", limit="1", offset="1") == ["shared"]
    assert subjects(registry, "resources/orders-id", resourceType="table") == []
    for namespace, found in (("-", 2), ("lkc-1", 2), ("lkc-2", 0)):
        assert len(registry.get(f"/associations/resources/{namespace}/orders").json()) == found
    assert registry.get("/associations/subjects/shared").json()[0] == {
        "guid": registry.get("/associations/subjects/shared").json()[0]["guid"],
        **PLACE,
        "resourceType": "topic",
        "subject": "shared",
        "associationType": "value",
        "lifecycle": "STRONG",
        "frozen": False,
    }


def test_a_schema_that_comes_with_an_association_is_registered(registry: httpx.Client) -> None:
    made = registry.post("/associations", json=request(schema={"schema": USER})).json()
    assert made["associations"][0]["schema"]["schema"] == registry.get("/schemas/ids/1").json()["schema"]
    assert registry.get("/subjects/shared/versions").json() == [1]
    register(registry, "shared", USER_2)
    broken = request(schema={"schema": '"long"'})
    assert refusal(registry.post("/associations", json=broken)) == (409, 40901)


def test_a_change_needs_put_and_a_frozen_association_stays(registry: httpx.Client) -> None:
    for _ in range(2):
        assert registry.post("/associations", json=request()).status_code == 200
    assert refusal(registry.post("/associations", json=request("other"))) == (409, 40911)
    path = "/associations/resources/orders-id"
    assert registry.put(f"{path}?dryRun=true", json=request("other")).json()["associations"][0]["subject"] == "other"
    assert subjects(registry, "resources/orders-id") == ["shared"]
    assert registry.put(path, json=request("other", frozen=True)).status_code == 200
    assert refusal(registry.put(path, json=request("third"))) == (409, 409)
    assert refusal(registry.delete(path)) == (409, 409)
    assert registry.delete(f"{path}?cascadeLifecycle=true&dryRun=true").status_code == 204
    assert subjects(registry, "resources/orders-id") == ["other"]
    assert registry.delete(f"{path}?cascadeLifecycle=true").status_code == 204
    assert subjects(registry, "resources/orders-id") == []


@pytest.mark.parametrize(
    "change",
    [
        {"associations": []},
        {"associations": [{}]},
        {"associations": [5]},
        {"associations": [{"subject": "a"}, {"subject": "b"}]},
        {"associations": [{"subject": "a", "associationType": "header"}]},
        {"associations": [{"subject": "a", "lifecycle": "SOME"}]},
        {"associations": [{"subject": "a", "frozen": "yes"}]},
        {"associations": [{"subject": "a", "schema": "long"}]},
        {"resourceName": ""},
        {"resourceId": 7},
        {"resourceNamespace": "x" * 2000},
    ],
)
def test_a_wrong_association_is_refused(registry: httpx.Client, change: dict[str, Any]) -> None:
    assert refusal(registry.post("/associations", json={**request(), **change})) == (422, 42212)
