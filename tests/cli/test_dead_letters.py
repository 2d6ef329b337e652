"""``mainstem dead-letters``: the dead letters of a view are listed, shown and marked."""

from __future__ import annotations

import uuid

from mainstem.client.dead_letter_headers import dead_letter_of, view_topic
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.model import TopicPartition
from tests.cli.commands import Commands


def test_letters_are_listed_shown_and_marked(command: Commands, mainstem_log: Log) -> None:
    view = f"v{uuid.uuid4().hex[:8]}"
    topic = view_topic("cli", view)
    mainstem_log.create_topic(topic, partitions=1)
    source = TopicPartition("orders", 1)
    letters = [NewRecord("{}", "k", dead_letter_of("the field 'id' is missing", source, n, view=view)) for n in (3, 4)]
    mainstem_log.append_many(topic, letters)

    [group] = [each for each in command.run("dead-letters", "list", "--json").json["groups"] if each["name"] == view]
    assert (group["unhandled"], group["sources"]) == (2, ["orders"])
    assert view in command.run("dead-letters", "list").out
    shown = command.run("dead-letters", "show", view).out
    assert "0:1" in shown
    assert "orders/1:4" in shown
    assert "the field 'id' is missing" in shown

    assert "1 dead letter marked" in command.run("dead-letters", "handled", view, "0:1").out
    left = command.run("dead-letters", "show", topic, "--json").json["letters"]
    assert [each["place"] for each in left] == ["0:0"]
    assert command.run("dead-letters", "handled", view, "--group", group["id"], "--json").json["changed"] == 1
    assert "no new dead letters" in command.run("dead-letters", "show", view).out
    assert command.run("dead-letters", "handled", view, "--all", "--undo", "--json").json["changed"] == 2
    assert "one way" in command.run("dead-letters", "handled", view).error
    assert "no-such" in command.run("dead-letters", "show", "no-such").error
    assert "0:9" in command.run("dead-letters", "handled", view, "0:9").error
