"""The documents of the examples: one of many is replayed alone, and two browsers follow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import mainstem as ms
from examples import documents
from mainstem.client.log import Log
from tests.examples.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

NAME = "doc-471"
DOCUMENTS = 500
_WATCH = """async (name) => {
  const { signal, follow } = await import("/client.js");
  window.edits = [];
  window.row = signal("documents", name);
  follow("edits", (record) => window.edits.push(record.value.text), { key: name, from: "earliest" });
}"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, str]]:
    """A log with some documents, two edits of one of them, and the gateway."""
    with serving(documents.app, tmp_path_factory.mktemp("documents")) as (log, url):
        documents.load(url, DOCUMENTS)
        for text in ("second", "third"):
            documents.edit(url, NAME, text)
        yield log, url


def texts(edits: list[dict[str, str]]) -> list[str]:
    return [edit["text"] for edit in edits]


def test_a_document_is_replayed_alone_through_the_index(loaded: tuple[Log, str]) -> None:
    log, url = loaded
    assert texts(documents.history(url, NAME)) == ["Document 471", "second", "third"]
    reader = log.read_key("edits", NAME)
    assert (reader.scan_reason, len(list(reader))) == (None, 3)
    assert sum(log.end("edits").values()) >= DOCUMENTS + 2


def test_an_edit_is_read_in_the_view_by_its_position(loaded: tuple[Log, str]) -> None:
    _, url = loaded
    position = documents.edit(url, "doc-7", "mine")
    row = ms.views(url)["documents"].get("doc-7", at_least=position).row
    assert (row["text"], row["author"]) == ("mine", "me")


def test_two_browsers_follow_an_edit(loaded: tuple[Log, str], new_page: NewPage) -> None:
    _, url = loaded
    pages: list[Page] = [new_page(), new_page()]
    for page in pages:
        page.goto(f"{url}/healthz")
        page.evaluate(_WATCH, NAME)
        page.wait_for_function("() => window.edits.length >= 3")
    documents.edit(url, NAME, "fourth")
    for page in pages:
        page.wait_for_function("() => window.row.value?.text === 'fourth' && window.edits.length >= 4")
        assert page.evaluate("() => window.edits") == ["Document 471", "second", "third", "fourth"]


def test_a_program_follows_too(loaded: tuple[Log, str]) -> None:
    _, url = loaded
    followed = documents.follow(url, "doc-499")
    assert next(followed)["text"] == "Document 499"
    documents.edit(url, "doc-1", "of another")
    documents.edit(url, "doc-499", "now")
    assert next(followed)["text"] == "now"
    followed.close()
