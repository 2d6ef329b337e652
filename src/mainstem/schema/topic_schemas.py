"""The schemas of all topics, kept in a compacted topic of the log itself: ``__mainstem_schemas``.

Key = the topic's name, value = ``{"columns": [{"name", "type", "nullable"}], "key": [column, …], "version": n}`` and,
where there is one, ``"ddl"``, ``"encoding"``, ``"key_encoding"`` and ``"framing"``. The latest record of a topic is its
schema; versions count up from 1.
It works on any Kafka-protocol log. Functions; as thread-safe as the log they are given.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.errors import SchemaError, UnknownTopicError
from mainstem.model import Record
from mainstem.schema.types import ENCODINGS, FRAMINGS, TopicSchema

SCHEMAS_TOPIC: Final = "__mainstem_schemas"
SYSTEM_TOPIC_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""Of the topics that are replayed whole at a start: only closed segments are compacted, so those are small."""

SCHEMA_KEPT_S: Final = 10.0
_TOPICS_KEPT: Final = 1_000


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A topic's schema as registered, with the columns that make its key.

    ``encoding``: the form of its values, one of ``types.ENCODINGS``; None for plain JSON. ``key_encoding``: that of its
    keys; None for text. ``framing``: where its values name their schema, one of ``types.FRAMINGS``.
    """

    topic: str
    schema: TopicSchema
    key: tuple[str, ...]
    version: int
    encoding: str | None = None
    key_encoding: str | None = None
    framing: str = FRAMINGS[0]

    @property
    def key_columns(self) -> TopicSchema | None:
        """The columns that make the key; None without any."""
        return TopicSchema(tuple(map(self.schema.column, self.key))) if self.key else None


def register(
    log: Log,
    topic: str,
    schema: TopicSchema,
    key: Sequence[str] = (),
    encoding: str | None = None,
    key_encoding: str | None = None,
    framing: str = FRAMINGS[0],
) -> RegisteredSchema:
    """Make ``schema`` the topic's schema; what is registered already is left alone.

    Raises SchemaError when a key column is not among the columns.
    """
    for name in key:
        schema.column(name)
    known = lookup(log, topic)
    version = 1 if known is None else known.version + 1
    registered = RegisteredSchema(topic, schema, tuple(key), version, encoding, key_encoding, framing)
    if known is not None and replace(registered, version=known.version) == known:
        return known
    value = {**schema.to_json(), "key": list(key), "version": registered.version}
    if encoding is not None:
        value["encoding"] = encoding
    if key_encoding is not None:
        value["key_encoding"] = key_encoding
    if framing != FRAMINGS[0]:
        value["framing"] = framing
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


class KnownSchemas:
    """The schemas of topics, each looked up again after ``SCHEMA_KEPT_S``. Thread-safe."""

    def __init__(self, log: Log, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[RegisteredSchema | None, float]] = {}

    def schema(self, topic: str) -> RegisteredSchema | None:
        """The topic's schema; None when it has none. Raises as ``lookup``."""
        with self._lock:
            known = self._known.get(topic)
        if known is not None and self._clock.monotonic_s() < known[1]:
            return known[0]
        found = lookup(self._log, topic)
        with self._lock:
            if len(self._known) >= _TOPICS_KEPT:
                self._known.clear()
            self._known[topic] = found, self._clock.monotonic_s() + SCHEMA_KEPT_S
        return found


def _create_topic(log: Log) -> None:
    log.create_topic(SCHEMAS_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)


def _read(topic: str, value: bytes) -> RegisteredSchema:
    try:
        document: dict[str, Any] = json.loads(value)
        key = tuple(str(name) for name in document.get("key", ()))
        encodings = document.get("encoding"), document.get("key_encoding")
        for encoding in encodings:
            if encoding is not None and encoding not in ENCODINGS:
                raise SchemaError(f"unknown encoding {encoding!r}; use a newer release")
        framing = document.get("framing", FRAMINGS[0])
        if framing not in FRAMINGS:
            raise SchemaError(f"unknown framing {framing!r}; use a newer release")
        schema = TopicSchema.from_json(document)
        return RegisteredSchema(topic, schema, key, int(document.get("version", 1)), *encodings, framing)
    except (ValueError, TypeError, AttributeError, SchemaError, OverflowError, RecursionError) as error:
        raise SchemaError(f"the schema registered for topic {topic!r} cannot be read: {error}") from error
