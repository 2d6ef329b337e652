"""The tabs of a topic's page, and the dialogs that change topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mainstem.console.formats import milliseconds, retention
from mainstem.console.requests import ConsoleRequest, command_line
from mainstem.console.topic.partitions_tab import rows_of, summary_of
from mainstem.console.topic.schema_versions import differences, versions_of
from mainstem.model import TopicPartition
from tests.console.stage import Stage
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open


def see(page: Page, *texts: str) -> None:
    from playwright.sync_api import expect

    for each in texts:
        expect(page.get_by_text(each, exact=False).first).to_be_visible()


def choose(page: Page, action: str) -> None:
    """Choose an action of the menu."""
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_text(action, exact=True).click()


@pytest.mark.browser
def test_each_tab_has_an_address_and_the_keyboard_reaches_it(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    stage.log.group_admin.set_offsets("con-behind", {TopicPartition("con-flights", 0): 0})
    page = open_at("/console/topics/con-flights", 390)
    tab = page.get_by_role("link", name="Partitions", exact=True)
    tab.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/con-flights?tab=partitions")
    expect(page.get_by_role("link", name="Partitions", exact=True)).to_have_attribute("aria-current", "page")
    see(page, "times the average", " %")
    page.get_by_role("link", name="Consumers", exact=True).click()
    see(page, "con-count", "con-by-key")
    expect(page.get_by_role("link", name="con-behind")).to_have_attribute("href", "/console/groups/con-behind")
    page.get_by_role("link", name="Schema", exact=True).click()
    see(page, "STRING NOT NULL", "Version 1")
    page.get_by_role("link", name="Configs", exact=True).click()
    see(page, "7 days (604800000)")
    page.get_by_role("link", name="About", exact=True).click()
    see(page, "Committed end", str(stage.log.topics()["con-flights"].topic_id))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_a_topic_is_created_and_changed_by_dialogs(open_at: Open, stage: Stage) -> None:
    page = open_at("/console/topics", 390)
    page.get_by_role("button", name="New topic …").click()
    page.get_by_label("Name: letters").fill("con-flights")
    page.get_by_role("button", name="Create", exact=True).click()
    see(page, "already exists")
    page.get_by_label("Name: letters").fill("con-made")
    page.get_by_label("Partitions (empty").fill("2")
    page.get_by_label("Keep records for").click()
    page.get_by_role("option", name="30 days").click()
    page.get_by_text("Key index").click()
    page.get_by_role("button", name="Create", exact=True).click()
    page.wait_for_url("**/console/topics/con-made")
    made = stage.log.describe_topic("con-made")
    assert (made.info.partitions, made.set_configs) == (2, {"retention.ms", "mainstem.key.index"})

    choose(page, "Add partitions …")
    page.get_by_label("Partitions in all").fill("3")
    page.keyboard.press("Enter")
    see(page, "2 partitions now, 3 afterwards")
    page.get_by_role("button", name="Add partitions", exact=True).click()
    eventually(lambda: stage.log.topics()["con-made"].partitions == 3, "there is a new partition")

    page.goto(f"{stage.url}/console/topics/con-made?tab=configs")
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_text("Give it its default again: 7 days").click()
    page.get_by_role("button", name="Show what would change").click()
    see(page, "− retention.ms = 30 days (2592000000)", "+ retention.ms = 7 days (604800000)")
    assert "retention.ms" in stage.log.describe_topic("con-made").set_configs
    page.get_by_role("button", name="Save", exact=True).click()
    eventually(lambda: stage.log.describe_topic("con-made").set_configs == {"mainstem.key.index"}, "it is reset")


@pytest.mark.browser
def test_records_and_topics_are_deleted_after_their_name_is_typed(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    stage.log.create_topic("con-cut", partitions=1)
    stage.log.append_many("con-cut", list("abcde"))
    page = open_at("/console/topics/con-cut")
    choose(page, "Delete records …")
    page.get_by_label("Delete records", exact=True).click()
    page.get_by_role("option", name="before an offset").click()
    field = page.get_by_role("dialog").get_by_label("Offset", exact=True)
    field.fill("99")
    page.keyboard.press("Enter")
    see(page, "offset 99 is not in the log")
    field.fill("3")
    page.keyboard.press("Enter")
    see(page, "3 offsets would go, in 1 of 1 partitions")
    delete = page.get_by_role("button", name="Delete the records")
    expect(delete).to_be_disabled()
    page.get_by_label("Type con-cut to confirm").last.fill("con-cut")
    delete.click()
    eventually(lambda: str(stage.log.beginning("con-cut")) == "con-cut/0:3", "the records are gone")

    choose(page, "Delete the topic …")
    delete = page.get_by_role("button", name="Delete the topic", exact=True)
    page.get_by_label("Type con-cut to confirm").last.fill("con-cu")
    expect(delete).to_be_disabled()
    page.get_by_label("Type con-cut to confirm").last.fill("con-cut")
    delete.click()
    page.wait_for_url("**/console/topics")
    assert "con-cut" not in stage.log.topics()


def partition(number: int, size_bytes: int | None, **more: Any) -> dict[str, Any]:
    known = {"beginning": 0, "end": 10, "committed_end": 10, "offsets": 10, "newest_ms": None}
    return {"partition": number, "size_bytes": size_bytes, "leader": 1, "leader_epoch": 0, **known, **more}


def test_partitions_show_their_share() -> None:
    uneven = [partition(0, 300), partition(1, 100, committed_end=8)]
    assert [(row["share"], row["bar"]) for row in rows_of(uneven)] == [(75.0, 100), (25.0, 33)]
    assert summary_of(uneven, 2) == (
        "The largest holds 1.5 times the average. 2 offsets at the ends belong to open transactions."
    )
    unknown = [partition(0, None), partition(1, 7, error="it has no leader", offsets=None, end=None)]
    assert [row["share"] for row in rows_of(unknown)] == [100.0, 0.0]
    assert summary_of(unknown, 9).startswith("Partitions 0 to 1 of 9.")
    assert summary_of(unknown, 9).endswith("Not available: 1.")
    assert (rows_of([partition(0, 0)])[0]["share"], summary_of([], 0)) == (None, "")


def test_versions_of_a_schema_say_what_differs() -> None:
    def record(number: int, *columns: tuple[str, str], key: str = "id") -> dict[str, Any]:
        listed = [{"name": name, "type": kind, "nullable": name != "id"} for name, kind in columns]
        return {"timestamp_ms": number, "value": {"columns": listed, "key": [key], "version": number}}

    records = [
        record(1, ("id", "STRING"), ("n", "INT"), ("gone", "DATE")),
        {"timestamp_ms": 2, "value": {"columns": 7}},
        record(2, ("id", "STRING"), ("n", "BIGINT"), ("new", "DATE"), key="n"),
    ]
    new, old = versions_of(records)
    assert differences(old, new) == ["+ new DATE", "− gone DATE", "~ n: INT → BIGINT", "~ key: id → n"]
    assert differences(old, old) == ["the order of the columns"]
    assert versions_of([*records, {"timestamp_ms": 3, "value": None}]) == []


def test_times_are_read_and_shown_in_words() -> None:
    assert [milliseconds(words) for words in ("36 h", "10days", "1.5 min", "2 W")] == [
        129_600_000,
        864_000_000,
        90_000,
        1_209_600_000,
    ]
    assert [milliseconds(words) for words in ("", "h", "-1 h", "1 fortnight", "9" * 99 + " h", "1")] == [None] * 6
    kept = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
    assert retention(kept) == "7 days"
    assert retention(kept | {"retention.bytes": "1073741824"}) == "7 days, 1 GiB a partition"
    assert retention(kept | {"retention.ms": "-1"}) == "no limit"
    assert retention({"cleanup.policy": "compact"}) == "latest of each key"


def test_changes_have_commands() -> None:
    create = {"name": "a", "partitions": 2, "configs": {"retention.ms": "1"}}
    alter = {"set": {"x": "1"}, "reset": ["y"], "dry_run": True}
    cut = {"to": "a/0:1", "dry_run": "true"}
    asked = {
        "mainstem topics create a --partitions=2 --config=retention.ms=1": ("/topics", "POST", {}, create),
        "mainstem topics alter a --config=x=1 --reset=y --dry-run": ("/topics/a/configs", "PATCH", {}, alter),
        "mainstem topics alter a --partitions=3": ("/topics/a/partitions", "POST", {}, {"partitions": 3}),
        "mainstem topics delete-records a --to=a/0:1 --dry-run": ("/topics/a/records", "DELETE", cut, None),
        "mainstem topics delete a": ("/topics/a", "DELETE", {"confirm": "a"}, None),
        "mainstem topics consumers a": ("/topics/a/consumers", "GET", {}, None),
    }
    for command, (path, method, query, body) in asked.items():
        assert command_line(ConsoleRequest(path, query, method, body)) == command
    assert command_line(ConsoleRequest("/topics/a/records", {}, "POST", {"records": []})) is None
