"""The page of one group: its members and lag, its reset after a dry run, its deletion, and what it belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mainstem.console.groups.group_owner import owner_of, written_topics
from mainstem.console.requests import ConsoleRequest, command_line
from tests.console.stage import Stage
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open

GROUP = "con/team one"
ADDRESS = "/console/groups/con%2Fteam%20one"


def reading(stage: Stage) -> Consumer:
    """A member of the group that has committed one record of partition 0."""
    options = {"bootstrap.servers": stage.log.bootstrap, "group.id": GROUP, "client.id": "con-reader-7"}
    member = Consumer(options | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe(["con-flights"])
    message = member.poll(30)
    assert message is not None
    member.commit(offsets=[TopicPartition("con-flights", 0, 1)], asynchronous=False)
    return member


def see(page: Page, text: str) -> None:
    from playwright.sync_api import expect

    expect(page.get_by_text(text, exact=False).filter(visible=True).first).to_be_visible()


def committed(stage: Stage) -> dict[int, int | None]:
    found = stage.log.group_admin.describe(GROUP).progress
    return {each.topic_partition.partition: each.committed for each in found}


@pytest.mark.browser
def test_a_group_is_looked_at_reset_and_deleted(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    member = reading(stage)
    try:
        page = open_at("/console/groups")
        page.get_by_role("link", name=GROUP).click()
        see(page, "con-reader-7")
        see(page, "con-flights/0")
        page.get_by_role("button", name="Reset …").click()
        see(page, "Stop them first")
        page.get_by_role("button", name="Latest").click()
        page.get_by_role("button", name="Show what would change").click()
        page.get_by_role("button", name="Move 2 of 2 partitions").click()
        see(page, "Nothing was moved. Stop the group's members")
        assert committed(stage)[0] == 1
    finally:
        member.close()

    page.get_by_role("button", name="Leave it").click()
    see(page, "No members")
    page.get_by_role("button", name="Reset …").click()
    page.get_by_role("button", name="Position").click()
    page.get_by_label("Position").fill("con-flights/0:17")
    page.keyboard.press("Enter")
    see(page, "skips 16")
    page.get_by_role("button", name="Move 1 of 1 partitions").click()
    see(page, "The group goes on from there")
    eventually(lambda: committed(stage)[0] == 17, "the reset is in the log", within_s=10)
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Delete …").click()
    button = page.get_by_role("button", name="Delete the group")
    expect(button).to_be_disabled()
    page.get_by_label(f"Type {GROUP}").fill(GROUP)
    expect(button).to_be_enabled()
    page.get_by_label(f"Type {GROUP}").press("Enter")
    page.wait_for_url("**/console/groups")
    assert GROUP not in stage.log.groups()


@pytest.mark.browser
def test_a_groups_page_fits_a_phone(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    reader = Consumer({"bootstrap.servers": stage.log.bootstrap, "group.id": "mainstem-load-of-con"})
    reader.commit(offsets=[TopicPartition("con-flights", 0, 1)], asynchronous=False)
    reader.close()
    page = open_at("/console/groups/mainstem-load-of-con", 390, color_scheme="dark")
    see(page, "mainstem load")
    expect(page.get_by_role("button", name="Reset …")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def sink(*parts: str) -> dict[str, Any]:
    """A group that keeps a decision in so many parts."""
    rows = [{"topic": "__mainstem_sinks", "partition": n, "metadata": part} for n, part in enumerate(parts)]
    return {"group": "mainstem-sink-1", "partitions": rows}


def test_the_group_of_a_pipelines_output_names_the_pipeline() -> None:
    document = json.dumps({"v": 1, "topics": ["out"], "at": []})
    group = sink("0/2:" + document[:10], "1/2:" + document[10:], "2/9:an older one")
    assert written_topics(group["partitions"]) == ["out"]
    pipelines = [{"name": "count", "outputs": ["out"]}, {"name": "other", "outputs": ["else"]}]
    owner = owner_of(group, pipelines)
    assert owner is not None
    assert (owner.links, owner.is_reader) == ((("count", "/console/pipelines/count"),), False)
    unknown = owner_of(group, [])
    assert unknown is not None
    assert unknown.links == (("out", "/console/topics/out"),)


@pytest.mark.parametrize("metadata", ["", "0/1:{", "0/x:{}", "0/1:{}", "0/1:[1]", "0/2:{}"])
def test_a_decision_that_cannot_be_read_names_nothing(metadata: str) -> None:
    owner = owner_of(sink(metadata), [{"name": "count", "outputs": ["out"]}])
    assert owner is not None
    assert owner.links == ()


def test_the_groups_of_others_belong_to_nothing_that_mainstem_knows() -> None:
    assert owner_of({"group": "team", "partitions": []}, []) is None
    worker = owner_of({"group": "mainstem-worker-quotes", "partitions": []}, [])
    assert worker is not None
    assert (worker.links, worker.is_reader) == ((("quotes", "/console/topics/quotes"),), True)


def test_a_reset_is_shown_as_its_command() -> None:
    body = {"to": "earliest", "topics": ["a b"]}
    planned = ConsoleRequest("/groups/team/reset", {}, "POST", body | {"dry_run": True})
    assert command_line(planned) == "mainstem groups reset team --to=earliest '--topic=a b'"
    assert command_line(ConsoleRequest("/groups/team/reset", {}, "POST", {"to": "latest"})) == (
        "mainstem groups reset team --to=latest --execute"
    )
