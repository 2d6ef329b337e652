"""Topics and groups are made, changed and deleted over HTTP, and nothing is deleted without its name said twice."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import TopicPartition
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


def test_partitions_are_shown_one_by_one(api: httpx.Client, log: Log) -> None:
    log.create_topic("shown", partitions=3)
    log.append("shown", "x" * 1_000, partition=1, timestamp_ms=1_700_000_000_000)
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": "shown"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("shown", "not committed yet", partition=2)
    producer.flush(30)
    found = api.get("/topics/shown/partitions").json()
    producer.abort_transaction(30)
    assert (found["count"], found["next"]) == (3, None)
    assert [(each["end"], each["committed_end"]) for each in found["partitions"]] == [(0, 0), (1, 1), (1, 0)]
    first, second, _ = found["partitions"]
    assert (first["offsets"], first["newest_ms"], first["leader_epoch"]) == (0, None, 0)
    assert second["newest_ms"] == 1_700_000_000_000
    assert second["size_bytes"] > 1_000 > first["size_bytes"]
    page = api.get("/topics/shown/partitions", params={"after": 0, "limit": 1}).json()
    assert ([each["partition"] for each in page["partitions"]], page["next"]) == ([1], 1)
    assert api.get("/topics/shown/partitions", params={"after": 1}).json()["next"] is None
    assert api.get("/topics/shown").json()["size_bytes"] >= sum(each["size_bytes"] for each in found["partitions"])
    is_problem(api.get("/topics/nope/partitions"), 404, "nope")
    is_problem(api.get("/topics/shown/partitions", params={"limit": 0}), 400, "limit")


def test_consumers_are_shown_with_their_lag_in_the_topic(api: httpx.Client, log: Log) -> None:
    log.create_topic("consumed", partitions=2)
    log.create_topic("another", partitions=1)
    log.append_many("consumed", [NewRecord(str(n), partition=n % 2) for n in range(10)])
    log.group_admin.set_offsets("behind", {TopicPartition("consumed", 0): 2, TopicPartition("another", 0): 0})
    log.group_admin.set_offsets("mainstem-load-1", {TopicPartition("consumed", 1): 1})
    log.group_admin.set_offsets("elsewhere", {TopicPartition("another", 0): 0})
    found = api.get("/topics/consumed/consumers").json()
    assert [(each["group"], each["lag"]) for each in found["groups"]] == [("behind", 3), ("mainstem-load-1", None)]
    assert found["groups"][0]["partitions"] == [{"partition": 0, "committed": 2, "end": 5, "lag": 3}]
    assert (found["complete"], found["pipelines"], found["views"]) == (True, [], [])
    is_problem(api.get("/topics/nope/consumers"), 404, "nope")


def test_configs_say_where_their_values_come_from(api: httpx.Client, log: Log) -> None:
    log.create_topic("set", partitions=1, configs={"retention.ms": "60000"})
    found = {each["name"]: each for each in api.get("/topics/set/configs").json()["configs"]}
    retention, policy = found["retention.ms"], found["cleanup.policy"]
    assert (retention["value"], retention["default"], retention["set"]) == ("60000", "604800000", True)
    assert (policy["value"], policy["default"], policy["set"]) == ("delete", "delete", False)
    assert "age" in retention["documentation"]
    assert api.get("/topics/set").json()["set_configs"] == ["retention.ms"]
    is_problem(api.get("/topics/nope/configs"), 404, "nope")


def test_the_oldest_records_are_deleted(api: httpx.Client, log: Log) -> None:
    log.create_topic("cut", partitions=2)
    log.append_many("cut", [NewRecord(str(n), partition=n % 2) for n in range(10)])
    planned = api.delete("/topics/cut/records", params={"to": "3", "dry_run": "true"}).json()
    assert (planned["offsets"], planned["executed"]) == (6, False)
    assert planned["partitions"][0] == {"partition": 0, "before": 0, "after": 3, "offsets": 3}
    assert str(log.beginning("cut")) == "cut/0:0,cut/1:0"
    is_problem(api.delete("/topics/cut/records", params={"to": "3"}), 400, "confirm=cut")
    is_problem(api.delete("/topics/cut/records"), 400, "to")

    done = api.delete("/topics/cut/records", params={"to": "cut/1:4", "confirm": "cut"}).json()
    assert done["partitions"] == [{"partition": 1, "before": 0, "after": 4, "offsets": 4}]
    assert str(log.beginning("cut")) == "cut/0:0,cut/1:4"
    assert [(record.partition, record.offset) for record in log.read("cut", limit=99)][-1] == (1, 4)
    again = {"to": "2", "confirm": "cut"}
    assert api.delete("/topics/cut/records", params=again).json()["offsets"] == 2
    assert str(log.beginning("cut")) == "cut/0:2,cut/1:4"
    assert api.delete("/topics/cut/records", params={"to": "latest", "confirm": "cut"}).json()["offsets"] == 4
    is_problem(api.delete("/topics/cut/records", params={"to": "99", "confirm": "cut"}), 416, "99")
    is_problem(api.delete("/topics/cut/records", params={"to": "cut/7:1", "confirm": "cut"}), 404, "cut/7")
    is_problem(api.delete("/topics/cut/records", params={"to": "other/0:1", "confirm": "cut"}), 400, "other")
    is_problem(api.delete("/topics/nope/records", params={"to": "0", "confirm": "nope"}), 404, "nope")
    own = "__consumer_offsets"
    is_problem(api.delete(f"/topics/{own}/records", params={"to": "latest", "confirm": own}), 400, "internal")
