"""The schemas of all topics, kept in a compacted topic of the log itself: ``__mainstem_schemas``.

Key = the topic's name, value = ``{"columns": [{"name", "type", "nullable"}], "key": [column, …], "version": n}`` and,
where the user gave one, ``"ddl"``. The latest record of a topic is its schema; versions count up from 1. It works on
any Kafka-protocol log. Functions; as thread-safe as the log they are given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.errors import SchemaError, UnknownTopicError
from mainstem.model import Record
from mainstem.schema.types import TopicSchema

SCHEMAS_TOPIC: Final = "__mainstem_schemas"
SYSTEM_TOPIC_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""Of the topics that are replayed whole at a start: only closed segments are compacted, so those are small."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A topic's schema as registered, with the columns that make its key."""

    topic: str
    schema: TopicSchema
    key: tuple[str, ...]
    version: int


def register(log: Log, topic: str, schema: TopicSchema, key: Sequence[str] = ()) -> RegisteredSchema:
    """Make ``schema`` the topic's schema; what is registered already is left alone.

    Raises SchemaError when a key column is not among the columns.
    """
    for name in key:
        schema.column(name)
    known = lookup(log, topic)
    if known is not None and (known.schema, known.key) == (schema, tuple(key)):
        return known
    registered = RegisteredSchema(topic, schema, tuple(key), 1 if known is None else known.version + 1)
    value = {**schema.to_json(), "key": list(key), "version": registered.version}
    _create_topic(log)
    log.append(SCHEMAS_TOPIC, value, key=topic)
    return registered


def lookup(log: Log, topic: str) -> RegisteredSchema | None:
    """The topic's schema; None when it has none. Raises SchemaError for an entry that cannot be read."""
    return lookup_all(log, topic).get(topic)


def lookup_all(log: Log, topic: str | None = None) -> dict[str, RegisteredSchema]:
    """The schemas of all topics by name (or of ``topic`` alone)."""
    found: dict[str, Record] = {}
    try:
        for record in log.read(SCHEMAS_TOPIC, key=topic, every_partition=True):
            found[(record.key or b"").decode()] = record
    except UnknownTopicError:
        return {}  # nothing has ever been registered
    return {name: _read(name, record.value) for name, record in found.items() if record.value is not None}


def _create_topic(log: Log) -> None:
    log.create_topic(SCHEMAS_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)


def _read(topic: str, value: bytes) -> RegisteredSchema:
    try:
        document: dict[str, Any] = json.loads(value)
        key = tuple(str(name) for name in document.get("key", ()))
        return RegisteredSchema(topic, TopicSchema.from_json(document), key, int(document.get("version", 1)))
    except (ValueError, TypeError, AttributeError, SchemaError, OverflowError, RecursionError) as error:
        raise SchemaError(f"the schema registered for topic {topic!r} cannot be read: {error}") from error
