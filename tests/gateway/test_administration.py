"""Topics and groups are made, changed and deleted over HTTP, and nothing is deleted without its name said twice."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing import EmbeddedBroker
from tests.gateway.served import served
from tests.gateway.test_bad_input import is_problem


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=30) as log:
        yield log


@pytest.fixture(scope="module")
def api(log: Log) -> Iterator[httpx.Client]:
    with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as api:
        yield api


def consumer(log: Log, group: str, topic: str) -> Consumer:
    options = {"bootstrap.servers": log.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    made = Consumer({**options, "enable.auto.commit": False})
    made.subscribe([topic])
    message = made.poll(30)
    assert message is not None
    assert message.error() is None
    made.commit(message, asynchronous=False)
    return made


def test_a_topic_is_made_changed_and_deleted(api: httpx.Client, log: Log) -> None:
    made = api.post("/topics", json={"name": "made", "partitions": 2, "configs": {"retention.ms": "60000"}})
    assert (made.status_code, made.json()["partitions"]) == (201, 2)
    is_problem(api.post("/topics", json={"name": "made"}), 409, "made")
    is_problem(api.post("/topics", json={"name": "no/name"}), 400, "no/name")
    is_problem(api.post("/topics", json={"name": "x", "configs": {"retention.mss": "1"}}), 400, "retention.mss")

    change = {"set": {"retention.ms": "1000"}, "reset": ["cleanup.policy"], "dry_run": True}
    planned = api.patch("/topics/made/configs", json=change).json()
    assert planned["changes"][0] == {"name": "retention.ms", "before": "60000", "after": "1000"}
    assert not planned["executed"]
    assert log.describe_topic("made").configs["retention.ms"] == "60000"
    assert api.patch("/topics/made/configs", json=change | {"dry_run": False}).json()["executed"]
    assert log.describe_topic("made").configs["retention.ms"] == "1000"
    reset = api.patch("/topics/made/configs", json={"reset": ["retention.ms"]}).json()
    assert reset["changes"] == [{"name": "retention.ms", "before": "1000", "after": "604800000"}]
    is_problem(api.patch("/topics/made/configs", json={"set": {"segment.ms": "x"}}), 400, "segment.ms")
    both = {"set": {"segment.ms": "1"}, "reset": ["segment.ms"]}
    is_problem(api.patch("/topics/made/configs", json=both), 400, "segment.ms")
    is_problem(api.patch("/topics/nope/configs", json={"set": {"segment.ms": "1000000"}}), 404, "nope")

    is_problem(api.patch("/topics/made/configs", json={}), 400, "nothing to change")

    planned = api.post("/topics/made/partitions", json={"partitions": 3, "dry_run": True}).json()
    assert (planned["before"], planned["executed"], log.topics()["made"].partitions) == (2, False, 2)
    assert api.post("/topics/made/partitions", json={"partitions": 3}).json()["before"] == 2
    assert log.topics()["made"].partitions == 3
    is_problem(api.post("/topics/made/partitions", json={"partitions": 3}), 400, "3")
    is_problem(api.post("/topics/made/partitions", json={"partitions": 0}), 400, "partitions")

    is_problem(api.delete("/topics/made"), 400, "confirm=made")
    is_problem(api.delete("/topics/made", params={"confirm": "mad"}), 400, "confirm=made")
    assert "made" in log.topics()
    assert api.delete("/topics/made", params={"confirm": "made"}).json() == {"deleted": "made"}
    assert "made" not in log.topics()
    is_problem(api.delete("/topics/made", params={"confirm": "made"}), 404, "made")


def test_a_group_is_described_reset_and_deleted(api: httpx.Client, log: Log) -> None:
    log.create_topic("read", partitions=1)
    log.append_many("read", [f"value {n}" for n in range(5)])
    reader = consumer(log, "readers", "read")
    found = api.get("/groups/readers").json()
    assert [member["partitions"] for member in found["members"]] == [["read/0"]]
    [progress] = found["partitions"]
    assert (progress["committed"], progress["lag"]) == (1, progress["end"] - 1)
    is_problem(api.post("/groups/readers/reset", json={"to": "latest"}), 409, "members")
    is_problem(api.delete("/groups/readers", params={"confirm": "readers"}), 409, "members")
    reader.close()

    planned = api.post("/groups/readers/reset", json={"to": "read/0:3", "dry_run": True}).json()
    assert planned["partitions"] == [{"topic": "read", "partition": 0, "before": 1, "after": 3}]
    assert api.get("/groups/readers").json()["partitions"][0]["committed"] == 1
    assert api.post("/groups/readers/reset", json={"to": "read/0:3"}).json()["executed"]
    assert api.get("/groups/readers").json()["partitions"][0]["committed"] == 3
    is_problem(api.post("/groups/readers/reset", json={"to": "soon"}), 400, "soon")
    is_problem(api.post("/groups/readers/reset", json={"to": "earliest", "topics": ["nope"]}), 404, "nope")

    is_problem(api.delete("/groups/readers"), 400, "confirm=readers")
    assert api.delete("/groups/readers", params={"confirm": "readers"}).json() == {"deleted": "readers"}
    is_problem(api.get("/groups/readers"), 404, "readers")
    is_problem(api.delete("/groups/readers", params={"confirm": "readers"}), 404, "readers")
