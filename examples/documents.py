"""100,000 documents, each an entity of its own in one topic: edited, replayed alone, and followed as it is edited.

mainstem run examples/documents.py
python examples/documents.py load                        # 100,000 documents
python examples/documents.py edit doc-4711 "Once upon a time"
python examples/documents.py history doc-4711            # its edits alone, though 100,000 other documents lie between
python examples/documents.py follow doc-4711             # and as they come
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import mainstem as ms

GATEWAY = "http://127.0.0.1:8080"
DOCUMENTS = 100_000

app = ms.App("documents")
edits = app.topic(
    "edits",
    schema="document STRING NOT NULL, text STRING, author STRING",
    key="document",
    partitions=4,
    configs={"mainstem.key.index": "true"},
)
app.view("documents", edits, ms.KeyValue())


def load(log: ms.Log, count: int = DOCUMENTS) -> ms.Position:
    """As many documents, each with its first text."""
    return log.append_many("edits", ((f"doc-{n}", _edit(f"doc-{n}", f"Document {n}", "loader")) for n in range(count)))


def edit(log: ms.Log, document: str, text: str, author: str = "me") -> ms.Position:
    """One edit; the position just after it."""
    return log.append("edits", _edit(document, text, author), key=document)


def history(gateway: str, document: str) -> list[dict[str, Any]]:
    """All edits of one document, in order."""
    url = f"{gateway}/topics/edits/keys/{quote(document, safe='')}?limit=10000"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return [record["value"] for record in json.load(answer)["records"]]


def follow(gateway: str, document: str, start: str = "earliest") -> Iterator[dict[str, Any]]:
    """The edits of one document, those that were and those that come, without end."""
    url = f"{gateway}/topics/edits/stream?key={quote(document, safe='')}&from={quote(start)}"
    with urllib.request.urlopen(url, timeout=60) as events:  # it gives a sign of life more often than that
        for line in events:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))["value"]


def _edit(document: str, text: str, author: str) -> dict[str, str]:
    return {"document": document, "text": text, "author": author}


def main(command: str = "load", document: str = "doc-4711", text: str = "") -> None:
    """Load, edit, or show one document's history, or follow it."""
    if command in ("history", "follow"):
        for one in history(GATEWAY, document) if command == "history" else follow(GATEWAY, document):
            print(f"{one['author']}: {one['text']}")
        return
    with ms.Log("127.0.0.1:9092") as log:
        began_s = time.monotonic()
        position = load(log) if command == "load" else edit(log, document, text)
        print(f"{position} after {time.monotonic() - began_s:.3f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
