"""The journey of a record over HTTP, and by the command: with a view that has applied it, and one that is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import set_topic_configs
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import MIRROR_OF
from mainstem.pipelines.journey.sentences import journey_lines
from mainstem.pipelines.kinds import KeyValue
from mainstem.pipelines.state import Status
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.cli.commands import Commands
from tests.gateway.served import listening_on, served
from tests.pipelines.journey.told import ToldLog
from tests.views.hosting import DDL, Setting


@dataclass(frozen=True)
class Scene:
    """A topic with a view of it, a pipeline that has read its first record, and the gateway."""

    told: ToldLog
    setting: Setting
    host: ViewHost
    api: httpx.Client
    tokens: dict[str, str]

    def journey(self, offset: int, **asked: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[asked.get('token', 'all')]}"}
        return self.api.get(f"/topics/{self.setting.topic}/records/0/{offset}/journey", headers=headers)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        setting = Setting(log, tmp_path)
        told = ToldLog(log, "derived")
        after = setting.append("a")
        log.append("derived", {"n": 1}, key="a")
        told.progress(told.batch("derive", 0, ("", str(after)), ("", "derived/0:1")))
        told.state("derive", Status.WAITING, 4_000_000_000_000)
        tokens = {
            "all": new_token("all", Grants(read=("*",))),
            "one": new_token("one", Grants(read=(f"topic:{setting.topic}",))),
            "none": new_token("none", Grants(read=("topic:else",))),
        }
        write_tokens(tmp_path / "tokens", [token for token, _ in tokens.values()])
        app = create_app(
            log, ForwardingBackend([tmp_path / "s"]), GatewayLimits(), tokens=TokenFile(tmp_path / "tokens")
        )
        with (
            setting.host() as host,
            listening_on(create_host_app(host), listen_unix(tmp_path / "s")),
            served(app) as api,
        ):
            host.wait("kv", lambda status: status.position.covers(after))
            yield Scene(told, setting, host, api, {name: text for name, (_, text) in tokens.items()})


def test_a_record_leads_to_what_came_of_it_and_to_the_view_that_has_it(scene: Scene) -> None:
    found = scene.journey(0).json()
    assert (found["state"], found["record"]["key"]) == ("readable", "a")
    [step] = found["pipelines"]
    assert (step["pipeline"], step["micro_batch"]["batch_id"], step["waits_for"]) == ("derive", 0, None)
    assert [record["key"] for record in step["outputs"][0]["records"]] == ["a"]
    [view] = found["views"]
    assert (view["view"], view["state"], view["before"]) == ("kv", "applied", False)
    assert view["applied_ms"] > 0


def test_the_reads_that_waited_for_a_record_are_counted(scene: Scene) -> None:
    topic = scene.setting.topic
    with WireClient(scene.told.log.bootstrap) as client:  # the copy of another log, which may have more
        set_topic_configs(client, topic, {MIRROR_OF: f"{'A' * 22}/{'B' * 21}A"})
    asked = f"/views/kv/keys/b?at_least={topic}/0:2&timeout=0"
    headers = {"Authorization": f"Bearer {scene.tokens['all']}"}
    assert [scene.api.get(asked, headers=headers).status_code for _ in range(2)] == [504, 504]
    found = scene.journey(1).json()
    [view] = found["views"]
    assert view["waited"] == {**view["waited"], "view": "kv", "reads": 2, "waiting": 0, "readers": ["all"]}
    assert any(line.text.startswith("2 reads waited for it (all), ") for line in journey_lines(found))
    assert scene.journey(0).json()["views"][0]["waited"] is None


def test_a_stopped_view_is_named(scene: Scene) -> None:
    log, topic = scene.told.log, scene.setting.topic
    log.delete_topic(topic)
    log.create_topic(topic, partitions=1)
    log.append_many(topic, [("a", {}), ("b", {})])
    stopped = scene.host.wait("kv", lambda status: status.state == "stopped")
    [view] = scene.journey(1).json()["views"]
    assert (view["state"], view["waits_for"]) == ("waiting", f"view kv is stopped: {stopped.detail}")


def test_a_deleted_view_is_named(scene: Scene) -> None:
    scene.host.delete("kv")
    [view] = scene.journey(0).json()["views"]
    assert view["state"] == "waiting"
    assert view["waits_for"].startswith("view kv is deleted: rebuild it")


def test_a_record_that_the_view_set_aside_is_named(scene: Scene) -> None:
    after = scene.told.log.append(scene.setting.topic, "not JSON", key="b")
    scene.host.wait("kv", lambda status: status.position.covers(after))
    [view] = scene.journey(1).json()["views"]
    assert view["state"] == "applied"
    assert view["note"].startswith(
        f"it could not use {scene.setting.topic}/0:1 and set it aside as dead letter __mains"
    )
    assert scene.journey(0).json()["views"][0]["note"] is None


def test_a_token_sees_the_journey_as_far_as_it_may_read(scene: Scene) -> None:
    assert scene.journey(0, token="none").status_code == 403
    found = scene.journey(0, token="one").json()
    assert (found["views"], found["hidden"], found["pipelines"][0]["outputs"]) == ([], 1, [])


def test_a_views_row_leads_back_to_its_newest_record(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_URL", str(scene.api.base_url))
    monkeypatch.setenv("MAINSTEM_TOKEN", scene.tokens["all"])
    command, topic = Commands(capsys), scene.setting.topic
    done = command.run("why", "a", "--view", "kv")
    assert (done.code, f"view kv is at {topic}/0:1" in done.out, f"{topic}/0:0 with key 'a'" in done.out) == (
        0,
        True,
        True,
    )
    done = command.run("why", "nothing", "--view", "kv", "--json")
    assert (done.code, done.json["journey"]) == (5, None)
    answer = scene.api.get("/views/kv/journey?key=a", headers={"Authorization": f"Bearer {scene.tokens['one']}"})
    assert answer.status_code == 403


def test_a_row_of_a_view_that_is_not_open_has_no_answer_yet(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that starts has no position yet, and answers as its other routes do."""
    monkeypatch.setenv("MAINSTEM_URL", str(scene.api.base_url))
    monkeypatch.setenv("MAINSTEM_TOKEN", scene.tokens["all"])
    log, socket = scene.told.log, tmp_path / "late.socket"
    setting = Setting(log, tmp_path / "late", ())
    setting.app.topic(f"{setting.topic}-late", DDL)
    setting.app.view("late", f"{setting.topic}-late", KeyValue())
    with setting.host() as host, listening_on(create_host_app(host), listen_unix(socket)):
        host.wait("late", lambda status: status.state == "waiting")
        with served(create_app(log, ForwardingBackend([socket]), GatewayLimits())) as api:
            answers = [api.get(f"/views/late/{what}") for what in ("journey?key=a", "keys/a")]
            done = Commands(capsys).run("why", "a", "--view", "late", "--url", str(api.base_url))
    assert [(each.status_code, each.json()["type"]) for each in answers] == [(503, "/problems/unavailable")] * 2
    assert answers[0].json()["detail"] == answers[1].json()["detail"]
    assert (done.code, "view late is not ready yet" in done.error) == (3, True)
    scene.host.delete("kv")
    headers = {"Authorization": f"Bearer {scene.tokens['all']}"}
    deleted = scene.api.get("/views/kv/journey?key=a", headers=headers)
    assert (deleted.status_code, deleted.json()["type"]) == (503, "/problems/view-stopped")


def test_wrong_places_are_problems(scene: Scene) -> None:
    headers = {"Authorization": f"Bearer {scene.tokens['all']}"}
    for path, status in (
        (f"/topics/{scene.setting.topic}/records/9/0/journey", 404),
        ("/topics/nowhere/records/0/0/journey", 404),
        (f"/topics/{scene.setting.topic}/records/0/-1/journey", 400),
        (f"/topics/{scene.setting.topic}/records/x/0/journey", 400),
        ("/views/kv/applied?position=derived/0:1", 400),
        ("/views/kv/applied", 400),
        ("/views/else/applied?position=a/0:1", 404),
    ):
        assert scene.api.get(path, headers=headers).status_code == status, path


def test_the_command_says_what_a_record_waits_for(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_URL", str(scene.api.base_url))
    monkeypatch.setenv("MAINSTEM_TOKEN", scene.tokens["all"])
    command, topic = Commands(capsys), scene.setting.topic
    done = command.run("why", f"{topic}/0:0")
    assert done.code == 0, done.out
    assert "pipeline derive read it" in done.out
    assert "view kv has applied" in done.out
    scene.told.state("derive", Status.STOPPED, 4_000_000_000_000)
    scene.setting.append("b")
    done = command.run("why", f"{topic}/0:1")
    assert done.code == 5
    assert "waits: pipeline derive is stopped" in done.out
    assert command.run("why", f"{topic}/0:9", "--json").json["state"] == "not written"
    assert "give TOPIC/PARTITION:OFFSET" in command.run("why", "flights").error
