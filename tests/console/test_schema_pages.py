"""The pages of the schema registry: its subjects, one of them, and what differs between versions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from mainstem.console.schemas.registry_requests import subject_address, subjects_of, topic_of
from mainstem.console.schemas.schema_texts import differing_lines, lines_of
from mainstem.gateway.access.tokens import grants_of, new_token, write_tokens
from tests.console.stage import Stage, gateway

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open
    from tests.support.browser import NewPage


def see(page: Page, *texts: str) -> None:
    from playwright.sync_api import expect

    for each in texts:
        expect(page.get_by_text(each, exact=False).first).to_be_visible()


@pytest.mark.browser
def test_subjects_lead_to_a_version_its_references_and_what_changed(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/schemas")
    see(page, "Compatibility level of the registry: BACKWARD", "PROTOBUF")
    page.get_by_label("Find a subject").fill("orders-value")
    expect(page.get_by_role("link", name="con-item")).to_have_count(0)
    page.get_by_role("link", name="con-orders-value").click()
    see(page, "From version 1 to 2", "AVRO", "BACKWARD")
    changes = page.get_by_label("Lines that differ")
    expect(changes.locator(".added", has_text='"name": "note"')).to_be_visible()
    expect(changes.locator(".near", has_text='"name": "item"')).to_be_visible()
    expect(page.get_by_label("Schema text")).to_contain_text('"default": ""')
    expect(page.get_by_role("link", name="con-orders", exact=True)).to_have_attribute("href", re.compile("."))

    page.get_by_label("Version", exact=True).click()
    page.get_by_role("option", name="Version 1").click()
    expect(page.get_by_role("option")).to_have_count(0)  # the other list has the same options
    page.get_by_label("Compared with").click()
    page.get_by_role("option", name="Version 2").click()
    page.wait_for_url("**/con-orders-value?version=1&with=2")
    expect(changes.locator(".removed", has_text='"name": "note"')).to_be_visible()
    page.reload()
    see(page, "From version 2 to 1")
    page.get_by_role("link", name="con-item, version 1").click()
    see(page, "Referred to by", "con-orders-value, version 2")


@pytest.mark.browser
def test_a_topics_page_leads_to_the_subjects_of_its_keys_and_values(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    stage.log.create_topic("con-orders", partitions=1)
    page = open_at("/console/topics/con-orders?tab=schema")
    expect(page.get_by_role("link", name="con-orders-key")).to_be_visible()
    expect(page.get_by_label("Schema of con-orders-key")).to_contain_text("message Id")
    page.get_by_role("link", name="con-orders-value").click()
    see(page, "From version 1 to 2")


@pytest.mark.browser
def test_a_subject_of_any_name_is_shown_and_an_unknown_one_is_reported(open_at: Open, stage: Stage) -> None:
    subject = "con /?#<b>"
    body = {"schema": '{"type": "string"}', "schemaType": "JSON"}
    escaped = subject_address(subject).removeprefix("/console/schemas")
    httpx.post(f"{stage.url}/registry/subjects{escaped}/versions", json=body, timeout=20).raise_for_status()
    page = open_at("/console/schemas?search=con%20/")
    page.get_by_role("link", name=subject).click()
    see(page, "Version 1", '"type": "string"')
    page.goto(f"{stage.url}/console/schemas/con-nope")
    see(page, "Subject 'con-nope' not found.")


@pytest.mark.browser
def test_only_who_may_read_everything_sees_schemas(stage: Stage, new_page: NewPage, tmp_path: Path) -> None:
    token, secret = new_token("con-narrow", grants_of(["topic:con-*"], [], []))
    write_tokens(tmp_path / "tokens", [token])
    with gateway(stage.log.bootstrap, tokens=tmp_path / "tokens") as (url, _):
        page = new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{url}/console/schemas")
        page.get_by_label("Bearer token").fill(secret)
        page.get_by_label("Bearer token").press("Enter")
        see(page, "read on *")
        assert "con-orders" not in page.content()


def test_schemas_are_compared_line_by_line() -> None:
    old, new = lines_of('{"a":1,"b":[1,2],"c":3}'), lines_of('{"a":1,"b":[1],"c":3}')
    changed = [(kind, line) for kind, line in differing_lines(old, new) if kind != "near"]
    assert changed == [("removed", "−     1,"), ("removed", "−     2"), ("added", "+     1")]
    assert list(differing_lines(old, old)) == []
    far = [str(number) for number in range(40)]
    kinds = [kind for kind, _ in differing_lines(far, ["x", *far, "y"])]
    assert kinds == ["added", "near", "near", "near", "gap", "near", "near", "near", "added"]
    assert lines_of("message A {\n}") == ["message A {", "}"]


def test_subjects_are_named_after_topics() -> None:
    assert subjects_of("a") == ("a-key", "a-value")
    assert [topic_of(each) for each in ("a-b-value", "a-key", "-key", "a", ":.lab:a-key")] == [
        "a-b",
        "a",
        None,
        None,
        None,
    ]
    assert subject_address("a/b", 2) == "/console/schemas/a%2Fb?version=2"
