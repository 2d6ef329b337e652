"""The documents of the examples: one of 100,000 is replayed alone, and two browsers follow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from examples import documents
from mainstem.client.log import Log
from tests.examples.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

NAME = "doc-4711"
_WATCH = """async (name) => {
  const { signal, follow } = await import("/client.js");
  window.edits = [];
  window.row = signal("documents", name);
  follow("edits", (record) => window.edits.push(record.value.text), { key: name, from: "earliest" });
}"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, str]]:
    """A log with 100,000 documents, two edits of one of them, and the gateway."""
    with serving(documents.app, tmp_path_factory.mktemp("documents")) as (log, url):
        documents.load(log)
        for text in ("second", "third"):
            documents.edit(log, NAME, text)
        yield log, url


def texts(edits: list[dict[str, str]]) -> list[str]:
    return [edit["text"] for edit in edits]


def test_a_document_is_replayed_alone_through_the_index(loaded: tuple[Log, str]) -> None:
    log, url = loaded
    assert texts(documents.history(url, NAME)) == ["Document 4711", "second", "third"]
    reader = log.read_key("edits", NAME)
    assert (reader.scan_reason, len(list(reader))) == (None, 3)
    assert sum(log.end("edits").values()) >= documents.DOCUMENTS + 2


def test_two_browsers_follow_an_edit(loaded: tuple[Log, str], new_page: NewPage) -> None:
    log, url = loaded
    pages: list[Page] = [new_page(), new_page()]
    for page in pages:
        page.goto(f"{url}/healthz")
        page.evaluate(_WATCH, NAME)
        page.wait_for_function("() => window.edits.length >= 3")
    documents.edit(log, NAME, "fourth")
    for page in pages:
        page.wait_for_function("() => window.row.value?.text === 'fourth' && window.edits.length >= 4")
        assert page.evaluate("() => window.edits") == ["Document 4711", "second", "third", "fourth"]


def test_a_program_follows_too(loaded: tuple[Log, str]) -> None:
    log, url = loaded
    followed = documents.follow(url, "doc-99999")
    assert next(followed)["text"] == "Document 99999"
    documents.edit(log, "doc-1", "of another")
    documents.edit(log, "doc-99999", "now")
    assert next(followed)["text"] == "now"
    followed.close()
