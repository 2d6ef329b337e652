"""10,000 documents, each a durable stream in one topic: edited, replayed alone, and followed as it is edited.

mainstem run examples/documents.py
python examples/documents.py load                        # 10,000 documents
python examples/documents.py edit doc-4711 "Once upon a time"
python examples/documents.py history doc-4711            # its edits alone, though 10,000 other documents lie between
python examples/documents.py follow doc-4711             # and as they come
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPMessage
from typing import Any
from urllib.parse import quote

import mainstem as ms

GATEWAY = "http://127.0.0.1:8080"
DOCUMENTS = 10_000

app = ms.App("documents")
edits = app.topic(
    "edits",
    schema="document STRING NOT NULL, text STRING, author STRING",
    key="document",
    partitions=4,
    configs={"mainstem.key.index": "true", "mainstem.conditional.append": "true"},
)
app.view("documents", edits, ms.KeyValue())


def create(gateway: str, document: str, text: str) -> str:
    """A document with its first text, if it is not there yet. The position just after it, for reads of views."""
    return _send(gateway, "PUT", document, text, "loader")


def edit(gateway: str, document: str, text: str, author: str = "me") -> str:
    """One edit; the position just after it."""
    return _send(gateway, "POST", document, text, author)


def load(gateway: str, count: int = DOCUMENTS) -> None:
    """As many documents, each with its first text; eight at a time."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: create(gateway, f"doc-{n}", f"Document {n}"), range(count)))


def history(gateway: str, document: str) -> list[dict[str, Any]]:
    """All edits of one document, in order."""
    return [each for page in _pages(gateway, document, "") for each in page]


def follow(gateway: str, document: str) -> Iterator[dict[str, Any]]:
    """The edits of one document, those that were and those that come, without end."""
    for page in _pages(gateway, document, "&live=long-poll"):
        yield from page


def _pages(gateway: str, document: str, live: str) -> Iterator[list[dict[str, Any]]]:
    """The edits page by page. Each answer says where the next read begins."""
    offset, is_at_end = "-1", False
    while live or not is_at_end:
        with urllib.request.urlopen(f"{_url(gateway, document)}?offset={offset}{live}", timeout=60) as answer:
            headers: HTTPMessage = answer.headers
            yield [json.loads(line) for line in answer]
        offset, is_at_end = headers["Stream-Next-Offset"], "Stream-Up-To-Date" in headers


def _send(gateway: str, method: str, document: str, text: str, author: str) -> str:
    """A line of JSON is one record of the topic, so that views and pipelines read it, too."""
    line = json.dumps({"document": document, "text": text, "author": author}) + "\n"
    request = urllib.request.Request(
        _url(gateway, document), line.encode(), {"Content-Type": "text/plain"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.headers["Mainstem-Position"])


def _url(gateway: str, document: str) -> str:
    return f"{gateway}/streams/edits/{quote(document, safe='')}"


def main(command: str = "load", document: str = "doc-4711", text: str = "") -> None:
    """Load, edit, or show one document's history, or follow it."""
    if command in ("history", "follow"):
        for one in history(GATEWAY, document) if command == "history" else follow(GATEWAY, document):
            print(f"{one['author']}: {one['text']}", flush=True)
        return
    began_s = time.monotonic()
    if command == "load":
        load(GATEWAY)
    else:
        print(edit(GATEWAY, document, text))
    print(f"{time.monotonic() - began_s:.3f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
