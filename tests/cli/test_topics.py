"""``mainstem topics``."""

from __future__ import annotations

import io

import pytest

from mainstem.client.log import Log
from mainstem.log.partition.config import CONFIGS
from mainstem.model import TopicPartition
from tests.cli.commands import Commands


def test_a_topic_is_created_described_listed_and_deleted(command: Commands) -> None:
    made = command.run("topics", "create", "t-life", "--partitions", "3", "--config", "retention.ms=1000", "--json")
    assert (made.code, made.json["partitions"]) == (0, 3)
    described = command.run("topics", "describe", "t-life", "--json").json
    assert described["configs"]["retention.ms"] == "1000"
    assert "t-life" in [row["topic"] for row in command.run("topics", "list", "--json").json["topics"]]
    assert command.run("topics", "delete", "t-life", "--yes", "--json").json == {"deleted": "t-life"}
    assert "t-life" not in command.run("topics", "list").out


def test_what_a_topic_holds_is_counted_in_offsets_which_markers_take_too(
    command: Commands, mainstem_log: Log, mainstem_topic: str
) -> None:
    with mainstem_log.transaction("t-offsets") as transaction:
        transaction.append(mainstem_topic, "one record")
    (row,) = [row for row in command.run("topics", "list", "--json").json["topics"] if row["topic"] == mainstem_topic]
    assert row == {"topic": mainstem_topic, "partitions": 1, "offsets": 2}
    described = command.run("topics", "describe", mainstem_topic, "--json").json
    assert (described["offsets"], described["end"]) == (2, f"{mainstem_topic}/0:2")
    assert "records" not in described


def test_the_systems_own_topics_are_listed_only_when_asked_for(command: Commands, mainstem_log: Log) -> None:
    mainstem_log.create_topic("__own", partitions=1, exist_ok=True)
    assert "__own" not in command.run("topics", "list").out
    assert "__own" in command.run("topics", "list", "--all").out


def test_a_topic_that_is_there_is_refused_in_one_line(command: Commands, mainstem_topic: str) -> None:
    done = command.run("topics", "create", mainstem_topic)
    said = f"topic '{mainstem_topic}' already exists; 'mainstem topics describe {mainstem_topic}' shows it"
    assert (done.code, done.error) == (1, said)


def test_an_unknown_topic_is_refused_in_one_line(command: Commands) -> None:
    for verb in (["describe", "nope"], ["delete", "nope", "--yes"]):
        done = command.run("topics", *verb)
        assert (done.code, "nope" in done.error) == (1, True)


def test_a_config_that_does_not_exist_is_refused_in_one_line(command: Commands) -> None:
    done = command.run("topics", "create", "t-config", "--config", "no.such.config=1")
    assert (done.code, "no.such.config" in done.error) == (1, True)


def test_a_name_that_cannot_be_is_refused_in_one_line(command: Commands) -> None:
    done = command.run("topics", "create", "no spaces")
    assert (done.code, done.out) == (1, "")
    assert done.error


def test_a_config_that_is_misspelt_names_the_one_that_is_meant(command: Commands) -> None:
    assert "did you mean 'retention.ms'?" in command.run("topics", "create", "t", "--config", "retention.m=1").error
    assert "must be a whole number" in command.run("topics", "create", "t", "--config", "retention.ms=long").error


def test_a_config_that_is_like_none_says_how_to_list_them(command: Commands, mainstem_topic: str) -> None:
    error = command.run("topics", "create", "t", "--config", "zzz=1").error
    assert "mainstem topics describe" in error
    listed = command.run("topics", "describe", mainstem_topic).out
    assert all(name in listed for name in CONFIGS)


def test_a_deletion_that_is_not_confirmed_changes_nothing_and_says_so(
    command: Commands, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    done = command.run("topics", "delete", mainstem_topic)
    assert (done.code, "not confirmed: nothing was changed" in done.err) == (1, True)
    assert command.run("topics", "describe", mainstem_topic).code == 0


def test_a_topic_is_altered_whole_or_not_at_all(command: Commands, mainstem_log: Log) -> None:
    mainstem_log.create_topic("alter-me", partitions=2, configs={"retention.ms": "60000"})
    change = ("topics", "alter", "alter-me", "--config", "retention.ms=1000", "--partitions", "3")
    planned = command.run(*change, "--dry-run")
    assert "60000" in planned.out
    assert "1000" in planned.out
    assert "partitions: 2 before, 3 after" in planned.out
    assert "nothing was changed" in planned.err
    assert mainstem_log.describe_topic("alter-me").configs["retention.ms"] == "60000"
    assert mainstem_log.topics()["alter-me"].partitions == 2

    refused = command.run(*change[:-1], "2")
    assert refused.code == 1
    assert mainstem_log.describe_topic("alter-me").configs["retention.ms"] == "60000", (
        "the partitions are refused first"
    )

    assert command.run(*change).code == 0
    assert mainstem_log.describe_topic("alter-me").configs["retention.ms"] == "1000"
    assert mainstem_log.topics()["alter-me"].partitions == 3
    assert command.run("topics", "alter", "alter-me", "--reset", "retention.ms").code == 0
    assert mainstem_log.describe_topic("alter-me").configs["retention.ms"] == "604800000"
    assert "say what to change" in command.run("topics", "alter", "alter-me").error
    assert "no-such" in command.run("topics", "alter", "no-such", "--partitions", "3").error


def test_the_oldest_records_are_deleted_after_a_yes(
    command: Commands, mainstem_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mainstem_log.append_many(mainstem_topic, ["a", "b", "c"])
    argv = ("topics", "delete-records", mainstem_topic, "--to", "2")
    planned = command.run(*argv, "--dry-run", "--json").json
    assert (planned["offsets"], planned["executed"]) == (2, False)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert command.run(*argv).code == 1
    assert str(mainstem_log.beginning(mainstem_topic)) == f"{mainstem_topic}/0:0"
    assert command.run(*argv, "--yes", "--json").json["executed"]
    assert str(mainstem_log.beginning(mainstem_topic)) == f"{mainstem_topic}/0:2"
    assert "99" in command.run("topics", "delete-records", mainstem_topic, "--to", "99", "--yes").error


def test_the_partitions_and_consumers_of_a_topic_are_shown(
    command: Commands, mainstem_log: Log, mainstem_topic: str
) -> None:
    mainstem_log.append(mainstem_topic, "a")
    [row] = command.run("topics", "partitions", mainstem_topic, "--json").json["partitions"]
    assert (row["partition"], row["end"]) == (0, 1)
    assert "newest (UTC)" in command.run("topics", "partitions", mainstem_topic).out
    assert "no group" in command.run("topics", "consumers", mainstem_topic).out
    mainstem_log.group_admin.set_offsets("t-consumer", {TopicPartition(mainstem_topic, 0): 0})
    [group] = command.run("topics", "consumers", mainstem_topic, "--json").json["groups"]
    assert (group["group"], group["lag"]) == ("t-consumer", 1)
    assert "t-consumer" in command.run("topics", "consumers", mainstem_topic).out
