"""Problems are sent to a webhook when they begin and when they end, whatever the receiver does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.errors import ConfigError
from mainstem.gateway.monitoring.alert_webhook import AlertWebhook
from mainstem.gateway.monitoring.monitor import Monitor
from mainstem.gateway.monitoring.problem_rules import Symptom
from mainstem.gateway.monitoring.problem_watch import PROBLEMS_MAX, CurrentProblem
from mainstem.gateway.server.process import main
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.node.roles import HttpAccess, gateway_role
from mainstem.testing.clock import ManualClock

NOW_MS = 1_800_000_000_000
DOWN = CurrentProblem(Symptom("view-stopped", "view v", "View v is down.", "Rebuild it.", "/console/views/v"), NOW_MS)
FULL = CurrentProblem(Symptom("disk-full", "log", "The disk is full.", "Free space.", "/console/topics"), NOW_MS)


class Receiver(HTTPServer):
    """Keeps what it gets, and answers ``status``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=secret"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append({"path": self.path, **json.loads(body)})
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_problem_is_sent_when_it_begins_and_when_it_ends(receiver: Receiver) -> None:
    clock = ManualClock(NOW_MS)
    webhook = AlertWebhook(receiver.url, "http://127.0.0.1:8080", clock)
    for current in ((), (DOWN,), (DOWN,), (DOWN, FULL), (FULL,), ()):
        webhook.tell(current)
        clock.advance(5.0)
    assert [
        (each["status"], [(alert["status"], alert["labels"]["alertname"]) for alert in each["alerts"]])
        for each in receiver.received
    ] == [
        ("firing", [("firing", "view-stopped")]),
        ("firing", [("firing", "disk-full")]),
        ("resolved", [("resolved", "view-stopped")]),
        ("resolved", [("resolved", "disk-full")]),
    ]
    first, third = receiver.received[0], receiver.received[2]
    assert (first["path"], first["version"]) == ("/hook?key=secret", "4")
    assert first["text"] == "View v is down. Rebuild it."
    assert first["alerts"][0] == {
        "status": "firing",
        "labels": {"alertname": "view-stopped", "subject": "view v", "job": "mainstem"},
        "annotations": {"summary": "View v is down.", "description": "Rebuild it."},
        "startsAt": "2027-01-15T08:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://127.0.0.1:8080/console/views/v",
        "fingerprint": third["alerts"][0]["fingerprint"],
    }
    assert (third["text"], third["alerts"][0]["endsAt"]) == ("Over: View v is down.", "2027-01-15T08:00:20Z")


@pytest.mark.parametrize("status", [500, 302, 404])
def test_a_receiver_that_refuses_gets_the_state_of_the_moment_later(
    receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(NOW_MS)
    webhook = AlertWebhook(receiver.url, "http://127.0.0.1:8080", clock)
    receiver.status = status
    for current in ((DOWN,), (DOWN,), (DOWN, FULL), (FULL,)):
        webhook.tell(current)
        clock.advance(5.0)
    receiver.status = 204
    clock.advance(300.0)
    webhook.tell((FULL,))
    webhook.tell((FULL,))
    assert len(receiver.received) == 3  # at 0 s, after ten seconds, and when it answers again
    assert [alert["labels"]["alertname"] for alert in receiver.received[-1]["alerts"]] == ["disk-full"]
    (line,) = (record.getMessage() for record in caplog.records)
    assert "127.0.0.1 cannot be reached" in line
    assert "secret" not in line


def test_a_receiver_that_is_away_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    webhook = AlertWebhook("http://127.0.0.1:1/hook", "http://127.0.0.1:8080", ManualClock(NOW_MS))
    webhook.tell((DOWN,))
    webhook.tell((DOWN,))
    assert len(caplog.records) == 1


def test_a_request_is_bounded(receiver: Receiver) -> None:
    webhook = AlertWebhook(receiver.url, "http://127.0.0.1:8080", ManualClock(NOW_MS))
    many = [CurrentProblem(Symptom("lag-rising", f"group {n}", "a", "b", "/"), NOW_MS) for n in range(PROBLEMS_MAX + 7)]
    webhook.tell(many)
    (sent,) = receiver.received
    assert (len(sent["alerts"]), sent["truncatedAlerts"]) == (PROBLEMS_MAX, 7)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/x",
        "ftp://example.org",
        "http://",
        "http://a b",
        "http://x:99999",
        "http://a..b",
        f"http://{'a' * 64}.org",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="give it as https://HOST/PATH"):
        AlertWebhook(url, "http://127.0.0.1:8080", ManualClock(NOW_MS))


def test_a_gateway_sends_what_its_monitor_finds(receiver: Receiver) -> None:
    clock = ManualClock(NOW_MS)
    with Log("127.0.0.1:1", timeout_s=0.2) as log:
        webhook = AlertWebhook(receiver.url, "http://127.0.0.1:8080", clock)
        monitor = Monitor(log, None, ForwardingBackend([]), clock=clock, webhook=webhook)
        for _ in range(3):
            asyncio.run(monitor.sample())
            asyncio.run(monitor.tell())
            clock.advance(5.0)
    assert [each["text"].partition(".")[0] for each in receiver.received] == ["The log does not answer"]


def test_the_gateways_process_gets_the_url_where_others_do_not_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    access = HttpAccess(alert_webhook="no URL with secret")
    role = gateway_role("127.0.0.1:1", "127.0.0.1:0", access=access)
    assert not [word for word in role.argv if "secret" in word]
    for name, value in role.environment.items():
        monkeypatch.setenv(name, value)
    assert main(["--bootstrap", "127.0.0.1:1", "--http", "127.0.0.1:0"]) != 0
    printed = capsys.readouterr()
    assert "invalid address of the alert webhook" in printed.out + printed.err
    assert "secret" not in printed.out + printed.err
