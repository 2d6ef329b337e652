"""Reads and streams over HTTP, and the command ``read``, at records that are in the log and cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import TopicPartition
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands
from tests.gateway.served import served
from tests.gateway.sse import reading
from tests.support.damage import DAMAGES, plant
from tests.support.ports import free_port

PATH = "/topics/flights/records"
GOOD = [0, 1, 4, 5, 8, 9, 12, 13]
SKIPPED = ["flights/0:2-3", "flights/0:6-7", "flights/0:10-11"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A log with a topic of seven batches of two records: the second, fourth and sixth are damaged, each otherwise."""
    with EmbeddedBroker(tmp_path_factory.mktemp("damaged")) as broker:
        with Log(broker.bootstrap, timeout_s=10) as log:
            log.create_topic("flights", partitions=1)
            for first in range(0, 14, 2):
                log.append_many("flights", [("k", {"n": n}) for n in (first, first + 1)])
        broker._stop_broker()
        for offset, how in zip((2, 6, 10), DAMAGES, strict=True):
            plant(broker.directory, TopicPartition("flights", 0), offset, how)
        broker.start()
        yield broker


@pytest.fixture(scope="module")
def http(broker: EmbeddedBroker) -> Iterator[httpx.Client]:
    with (
        Log(broker.bootstrap, timeout_s=10) as log,
        served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client,
    ):
        yield client


@pytest.mark.parametrize("path", [PATH, "/topics/flights/keys/k"])
def test_a_read_is_an_error_that_names_the_damaged_offsets(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 502
    problem = answer.json()
    assert problem["type"] == "/problems/damaged-records"
    assert problem["detail"].startswith("flights/0:2-3 cannot be read")
    assert "on_damaged=skip" in problem["detail"]
    assert [problem[name] for name in ("topic", "partition", "first_offset", "last_offset")] == ["flights", 0, 2, 3]


@pytest.mark.parametrize("path", [PATH, "/topics/flights/keys/k"])
def test_a_read_that_may_skip_damage_names_what_it_skipped(http: httpx.Client, path: str) -> None:
    answer = http.get(path, params={"on_damaged": "skip"}).json()
    assert [record["offset"] for record in answer["records"]] == GOOD
    assert answer["damaged"] == SKIPPED
    assert answer["position"] == "flights/0:14"
    whole = http.get(path, params={"from": 12}).json()
    assert "damaged" not in whole


@pytest.mark.parametrize("key", [{}, {"key": "k"}])
def test_a_stream_ends_at_damage_or_goes_on_behind_it(
    http: httpx.Client, broker: EmbeddedBroker, key: dict[str, str]
) -> None:
    with reading(http, "/topics/flights/stream", from_="earliest", **key) as reader:
        assert [event.data["offset"] for event in reader.take(2)] == [0, 1]
        [error] = list(reader)
        assert (error.name, error.data["type"]) == ("problem", "/problems/damaged-records")
    with reading(http, "/topics/flights/stream", from_="earliest", on_damaged="skip", **key) as reader:
        assert [event.data["offset"] for event in reader.take(len(GOOD))] == GOOD


@pytest.mark.parametrize("key", [{}, {"key": "k"}])
def test_a_live_stream_ends_at_damage_or_goes_on_behind_it(tmp_path: Path, key: dict[str, str]) -> None:
    """Records that come to a stream live, and are damaged before it has them: the log is stopped in between."""
    with EmbeddedBroker(tmp_path, port=free_port()) as broker, Log(broker.bootstrap, timeout_s=10) as log:
        log.create_topic("flights", partitions=1)
        log.append("flights", {"n": 0}, key="k")
        app = create_app(log, ForwardingBackend([]), GatewayLimits())
        with (
            served(app) as client,
            reading(client, "/topics/flights/stream", from_="earliest", **key) as stopping,
            reading(client, "/topics/flights/stream", from_="earliest", on_damaged="skip", **key) as skipping,
        ):
            assert [event.data["offset"] for event in (*stopping.take(1), *skipping.take(1))] == [0, 0]
            log.append("flights", {"n": 1}, key="k")  # both follow the tail
            assert [event.data["offset"] for event in (*stopping.take(1), *skipping.take(1))] == [1, 1]
            broker._stop_broker()
            with EmbeddedBroker(tmp_path) as elsewhere, Log(elsewhere.bootstrap, timeout_s=10) as other:
                for number in range(2, 6):
                    other.append("flights", {"n": number}, key="k")
            plant(tmp_path, TopicPartition("flights", 0), 3, "checksum")
            broker.start()
            assert [event.data["offset"] for event in skipping.take(3)] == [2, 4, 5]
            log.append("flights", {"n": 6}, key="k")
            assert [event.data["offset"] for event in skipping.take(1)] == [6]
            last, error = list(stopping)
            assert (last.data["offset"], error.name, error.data["type"]) == (2, "problem", "/problems/damaged-records")


def test_the_command_read_stops_at_damage_or_notes_what_it_skips(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
    command = Commands(capsys)
    stopped = command.run("read", "flights")
    assert (stopped.code != 0, len(stopped.out.splitlines())) == (True, 2)
    assert stopped.error.startswith("flights/0:2-3 cannot be read")
    for more in ((), ("--follow", "--limit", "8"), ("--key", "k")):
        skipped = command.run("read", "flights", "--from", "earliest", "--on-damaged", "skip", *more)
        assert skipped.code == 0
        assert [int(line.split("\t")[0].partition(":")[2]) for line in skipped.out.splitlines()] == GOOD
        assert [line.split()[2].rstrip(":") for line in skipped.err.splitlines() if "skipped" in line] == SKIPPED
