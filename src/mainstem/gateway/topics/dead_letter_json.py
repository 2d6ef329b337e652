"""Dead letters as the API and the commands show them. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainstem.client.dead_letters import DeadLetter, LetterGroup, LetterTopic, own_headers, place_text
from mainstem.gateway.topics.record_json import record_json
from mainstem.model import Record

GROUPS_SHOWN_MAX = 500


def letter_topics_json(topics: Sequence[LetterTopic]) -> dict[str, Any]:
    """All topics of dead letters, and their groups, newest first; of very many groups the newest."""
    groups = sorted((group for topic in topics for group in topic.groups), key=lambda each: each.last_ms, reverse=True)
    return {"topics": [_topic(each) for each in topics], "groups": [_group(each) for each in groups[:GROUPS_SHOWN_MAX]]}


def letter_json(letter: DeadLetter, record: Record | None, *, is_handled: bool) -> dict[str, Any]:
    """A dead letter with its record's content. ``record`` None: retention has removed it."""
    source: dict[str, Any] = {"topic": letter.source_topic}
    if letter.source is not None:
        source |= {"partition": letter.source[0].partition, "offset": letter.source[1]}
    shown = None if record is None else record_json(replace(record, headers=own_headers(record.headers)))
    return {
        "place": place_text(letter),
        "timestamp_ms": letter.timestamp_ms,
        "error": letter.error,
        "reason": letter.reason,
        "source": source,
        "handled": is_handled,
        "record": shown,
    }


def _topic(topic: LetterTopic) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "kind": topic.owner.kind,
        "app": topic.owner.app,
        "name": topic.owner.name,
        "letters": topic.letters,
        "unhandled": topic.unhandled,
        "partial": topic.is_partial,
    }


def _group(group: LetterGroup) -> dict[str, Any]:
    return {
        "id": group.id,
        "topic": group.topic,
        "kind": group.owner.kind,
        "app": group.owner.app,
        "name": group.owner.name,
        "reason": group.reason,
        "error": group.error,
        "letters": group.letters,
        "unhandled": group.unhandled,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "sources": group.sources,
    }
