"""``mainstem groups``, on groups of real consumers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mainstem.client.log import Log
from tests.cli.commands import Commands

TIMEOUT_S = 100


@contextmanager
def consuming(log: Log, group: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    client = Consumer({"bootstrap.servers": log.bootstrap, "group.id": group, "auto.offset.reset": "earliest"} | more)
    client.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while not client.assignment():
        assert time.monotonic() < deadline
        client.poll(0.05)
    yield client
    client.close()


def committed(log: Log, topic: str, **offsets: int) -> str:
    """A group that has committed these offsets: ``p0=3``."""
    group = uuid.uuid4().hex
    client = Consumer({"bootstrap.servers": log.bootstrap, "group.id": group})
    client.commit(
        offsets=[TopicPartition(topic, int(name[1:]), offset) for name, offset in offsets.items()], asynchronous=False
    )
    client.close()
    return group


@pytest.fixture
def topic(mainstem_log: Log) -> str:
    """A topic of one partition with five records."""
    name = f"groups-{uuid.uuid4().hex[:8]}"
    mainstem_log.create_topic(name, partitions=1)
    mainstem_log.append_many(name, [("k", str(number)) for number in range(5)])
    return name


def test_a_load_has_no_lag_whatever_is_appended_after_it(
    command: Commands, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"n": 1}\n{"n": 2}\n')
    assert command.run("load", str(source), "--topic", topic, "--json").code == 0
    mainstem_log.append(topic, "appended later")
    groups = command.run("groups", "list", "--json").json["groups"]
    of_loads = [row for row in groups if row["group"].startswith("mainstem-load-")]
    described = [command.run("groups", "describe", row["group"], "--json").json for row in of_loads]
    (mine,) = [each for each in described if each["partitions"][0]["topic"] == topic]
    assert {row["lag"] for row in of_loads} == {0}
    assert (mine["lag"], mine["partitions"][0]["lag"], mine["partitions"][0]["end"]) == (0, None, 9)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_members_and_lag(
    command: Commands, mainstem_log: Log, topic: str, protocol: str
) -> None:
    group = uuid.uuid4().hex
    with consuming(mainstem_log, group, topic, **{"group.protocol": protocol, "enable.auto.commit": False}) as client:
        client.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        shown = command.run("groups", "describe", group, "--json").json
        assert (shown["type"], shown["state"], shown["lag"]) == (protocol, "Stable", 3)
        (member,) = shown["members"]
        assert member["partitions"] == [f"{topic}/0"]
        (partition,) = shown["partitions"]
        assert (partition["committed"], partition["end"], partition["lag"]) == (2, 5, 3)
        assert partition["member"] == member["member"]
        assert group in command.run("groups", "list").out
        for verb in (["delete", group, "--yes"], ["reset", group, "--to", "earliest", "--execute"]):
            done = command.run("groups", *verb)
            assert (done.code, "members" in done.error) == (1, True)


@pytest.mark.parametrize(
    ("to", "after"),
    [("earliest", 0), ("latest", 5), ("3", 3), ("{topic}/0:4", 4), ("2000-01-01T00:00:00", 0), ("2100-01-01", 5)],
)
def test_a_reset_shows_what_it_would_do_and_does_it_when_told(
    command: Commands, mainstem_log: Log, topic: str, to: str, after: int
) -> None:
    group = committed(mainstem_log, topic, p0=2)
    arguments = ("groups", "reset", group, "--to", to.format(topic=topic), "--json")
    plan = command.run(*arguments).json
    assert (plan["executed"], plan["partitions"]) == (
        False,
        [{"topic": topic, "partition": 0, "before": 2, "after": after}],
    )
    assert mainstem_log.groups()[group].lag == 3
    assert command.run(*arguments, "--execute").json["executed"] is True
    assert mainstem_log.groups()[group].lag == 5 - after


def test_a_group_that_is_not_there_yet_can_be_given_offsets(command: Commands, mainstem_log: Log, topic: str) -> None:
    group = uuid.uuid4().hex
    assert command.run("groups", "reset", group, "--to", "earliest").code == 1
    assert command.run("groups", "reset", group, "--to", "4", "--topic", topic, "--execute").code == 0
    assert mainstem_log.groups()[group].lag == 1


def test_a_group_is_deleted(command: Commands, mainstem_log: Log, topic: str) -> None:
    group = committed(mainstem_log, topic, p0=1)
    assert command.run("groups", "delete", group, "--yes", "--json").json == {"deleted": group}
    assert group not in mainstem_log.groups()
    for verb in (["delete", group, "--yes"], ["describe", group]):
        done = command.run("groups", *verb)
        assert (done.code, group in done.error) == (1, True)


def test_what_is_committed_in_a_topic_that_is_gone_has_no_lag(command: Commands, mainstem_log: Log, topic: str) -> None:
    group = committed(mainstem_log, topic, p0=1)
    assert command.run("groups", "describe", group, "--json").json["lag"] == 4
    mainstem_log.delete_topic(topic)
    # As in Kafka the group stays listed, empty, until expired offsets are looked for the next time.
    described = command.run("groups", "describe", group, "--json").json
    assert (described["lag"], described["partitions"]) == (0, [])
