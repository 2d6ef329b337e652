"""The gateway in front of Apache Kafka itself: all of it works, but for log features, which are refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.views.host.host import ViewHost
from tests.gateway.answering import working
from tests.gateway.served import listening_on, served
from tests.gateway.test_bad_input import is_problem
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually

pytestmark = pytest.mark.maven
TOPIC = "people"


def declared() -> ms.App:
    app = ms.App("on-apache-kafka")
    people = app.topic(TOPIC, schema="id STRING NOT NULL, name STRING", key="id", partitions=2)
    app.view("by-id", people, ms.KeyValue())
    app.view("table", people, ms.SQL())
    return app


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with ApacheKafka() as kafka, Log(kafka.bootstrap, timeout_s=30) as log:
        deploy(declared(), log)
        yield log


@pytest.fixture(scope="module")
def api(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("on-kafka")
    with ViewHost(tuple(declared().views.values()), log.bootstrap, directory) as host:
        for view in declared().views:
            host.wait(view, lambda status: status.state != "starting", 120)
        with listening_on(create_host_app(host), listen_unix(directory / "s")):
            with served(create_app(log, ForwardingBackend([directory / "s"]), GatewayLimits())) as client:
                client.timeout = httpx.Timeout(120)
                yield client


def append(api: httpx.Client, key: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"records": [{"key": key, "value": {"id": key, "name": key.upper()}}]}
    return api.post(f"/topics/{TOPIC}/records", json=body, headers=named)


def test_what_is_appended_is_read_and_seen_by_views(api: httpx.Client) -> None:
    position = append(api, "ada").json()["position"]
    fresh = {"at_least": position, "timeout": 100}
    assert [row["name"] for row in api.get("/views/by-id/keys/ada", params=fresh).json()["rows"]] == ["ADA"]
    answer = api.post("/views/table/sql", params=fresh, json={"query": "SELECT name FROM \"table\" WHERE id = 'ada'"})
    assert answer.json()["rows"] == [{"name": "ADA"}], answer.text
    values = [record["value"]["id"] for record in api.get(f"/topics/{TOPIC}/records").json()["records"]]
    assert "ada" in values


def test_a_key_is_read_by_a_scan_that_says_so(api: httpx.Client) -> None:
    append(api, "bob")
    answer = api.get(f"/topics/{TOPIC}/keys/bob")
    assert [record["value"]["name"] for record in answer.json()["records"]] == ["BOB"]
    assert answer.json()["scanned"] == "this log knows no key index"
    assert "ETag" not in answer.headers


@pytest.mark.parametrize(
    "headers", [{"If_Match": '"0"'}, {"If_None_Match": "*"}, {"Mainstem_Expect_End": "0"}, {"Idempotency_Key": "x"}]
)
def test_what_apache_kafka_cannot_promise_is_refused_before_it_is_sent(
    api: httpx.Client, log: Log, headers: dict[str, str]
) -> None:
    before = log.end(TOPIC)
    is_problem(append(api, "eve", **headers), 409, "Apache Kafka cannot do this")
    assert log.end(TOPIC) == before


def test_a_topic_is_streamed(api: httpx.Client) -> None:
    append(api, "carol")
    query = {"from": "earliest", "key": "carol"}
    with api.stream("GET", f"/topics/{TOPIC}/stream", params=query) as events:
        data = next(line for line in events.iter_lines() if line.startswith("data:"))
    assert json.loads(data.removeprefix("data:"))["value"]["name"] == "CAROL"


def test_a_request_is_answered_at_once_and_later(api: httpx.Client, log: Log) -> None:
    log.create_topic("questions", partitions=2)
    asked = api.post("/topics/questions/requests", json={"value": 20}, headers={"Prefer": "respond-async"})
    assert asked.status_code == 202, asked.text
    with working(log, "questions", lambda request: int(request.value or b"0") + 1):
        answer = api.post("/topics/questions/requests", json={"value": 41, "timeout_s": 100})
        later = api.get(asked.headers["Location"], params={"timeout": 100})
    assert (answer.json()["reply"]["value"], later.json()["reply"]["value"]) == ("42", "21")


def test_it_tells_topics_groups_and_settings(api: httpx.Client, log: Log) -> None:
    assert TOPIC in [topic["name"] for topic in api.get("/topics").json()["topics"]]
    assert api.get("/groups").status_code == api.get("/pipelines").status_code == 200
    eventually(lambda: api.get("/healthz").is_success, "the log answers")
    [broker] = api.get("/config").json()["brokers"]
    assert "log.retention.hours" in [config["name"] for config in broker["configs"]]


def test_a_topic_is_looked_into(api: httpx.Client, log: Log) -> None:
    log.create_topic("looked", partitions=2, configs={"retention.ms": "60000"})
    log.append_many("looked", [NewRecord(str(n), partition=1, timestamp_ms=1_000 + n) for n in range(5)])
    first, second = api.get("/topics/looked/partitions").json()["partitions"]
    assert (first["end"], second["end"], second["committed_end"], second["newest_ms"]) == (0, 5, 5, 1_004)
    assert second["size_bytes"] > 0
    assert api.get("/topics/looked").json()["set_configs"] == ["retention.ms"]
    configs = {each["name"]: each for each in api.get("/topics/looked/configs").json()["configs"]}
    assert (configs["retention.ms"]["default"], configs["retention.ms"]["set"]) == ("604800000", True)
    by_id = api.get(f"/topics/{TOPIC}/consumers").json()
    assert [view["name"] for view in by_id["views"]] == ["by-id", "table"]
    cut = {"to": "looked/1:3", "confirm": "looked"}
    planned = api.delete("/topics/looked/records", params=cut | {"dry_run": "true"}).json()
    assert (planned["offsets"], str(log.beginning("looked"))) == (3, "looked/0:0,looked/1:0")
    assert api.delete("/topics/looked/records", params=cut).json()["partitions"][0]["after"] == 3
    assert str(log.beginning("looked")) == "looked/0:0,looked/1:3"
    log.create_topic("kept", partitions=1, configs={"cleanup.policy": "compact"})
    log.append("kept", "a", key="a")
    is_problem(api.delete("/topics/kept/records", params={"to": "1", "confirm": "kept"}), 400, "only compacted")


def test_topics_and_groups_are_administered(api: httpx.Client, log: Log) -> None:
    assert api.post("/topics", json={"name": "made", "partitions": 1}).status_code == 201
    change = {"set": {"retention.ms": "60000"}, "dry_run": True}
    assert api.patch("/topics/made/configs", json=change).json()["changes"][0]["after"] == "60000"
    assert api.patch("/topics/made/configs", json=change | {"dry_run": False}).status_code == 200
    eventually(lambda: log.describe_topic("made").configs["retention.ms"] == "60000", "the config is set")
    is_problem(api.patch("/topics/made/configs", json={"set": {"retention.mss": "1"}}), 400, "retention.mss")
    assert api.post("/topics/made/partitions", json={"partitions": 2, "dry_run": True}).json()["before"] == 1
    assert api.post("/topics/made/partitions", json={"partitions": 2}).json()["executed"]
    eventually(lambda: log.topics()["made"].partitions == 2, "there is a new partition")
    is_problem(api.post("/topics/made/partitions", json={"partitions": 1}), 400)

    log.append("made", "a", partition=0)
    reset = {"to": "latest", "topics": ["made"]}
    assert api.post("/groups/moved/reset", json=reset).json()["executed"]
    committed = {each["partition"]: each["committed"] for each in api.get("/groups/moved").json()["partitions"]}
    assert committed == {0: 1, 1: 0}
    [group] = api.get("/topics/made/consumers").json()["groups"]
    assert (group["group"], group["lag"], len(group["partitions"])) == ("moved", 0, 2)
    assert api.delete("/groups/moved", params={"confirm": "moved"}).status_code == 200
    is_problem(api.get("/groups/moved"), 404, "moved")
    assert api.delete("/topics/made", params={"confirm": "made"}).status_code == 200
    eventually(lambda: "made" not in log.topics(), "the topic is gone")


def test_users_are_administered_and_acls_need_an_authorizer(api: httpx.Client, log: Log) -> None:
    assert api.post("/users", json={"user": "alice", "password": "secret"}).status_code == 201
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    eventually(lambda: log.access_admin.users().get("alice") == both, "the user is there with both mechanisms")
    assert api.delete("/users/alice", params={"confirm": "alice"}).status_code == 200
    eventually(lambda: "alice" not in log.access_admin.users(), "the user is gone")
    is_problem(api.get("/acls"), 409, "uthorizer")
