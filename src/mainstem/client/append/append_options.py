"""The options of an append: the topic's id; and conditions and an idempotency key, which are sent as record headers.

A log that does not know the headers ignores them, and so does a topic whose configs do not enable them: it would append
the record unconditionally. So the topic's configs are read before the first such append, and again when they were read
ten seconds ago. If a config is turned off while writers rely on it, they lose its guarantee.

Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypedDict
from uuid import UUID

from mainstem.client.values import value_bytes
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import topic_configs
from mainstem.client.wire.connection.pool import Pool
from mainstem.clock import Clock
from mainstem.errors import InputError, UnsupportedFeatureError
from mainstem.model import Headers
from mainstem.record.append_headers import EXPECT_END, EXPECT_KEY_OFFSET, IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_BYTES_MAX

_KNOWN_FOR_S: Final = 10.0
CONDITIONAL_APPEND: Final = "mainstem.conditional.append"
KEY_INDEX: Final = "mainstem.key.index"
IDEMPOTENCY_WINDOW: Final = "mainstem.idempotency.window.ms"
_NAMES: Final = (CONDITIONAL_APPEND, KEY_INDEX, IDEMPOTENCY_WINDOW)


class AppendOptions(TypedDict, total=False):
    """The options of an append; see ``Log.append``. A topic id of zeros is not known, and binds nothing."""

    expect_key_offset: int | None
    expect_end: int | None
    expect_topic_id: UUID | None
    idempotency_key: str | bytes | None


def option_headers(options: AppendOptions) -> Headers:
    """The headers of the options. Raises InputError for an invalid value."""
    headers: list[tuple[str, bytes | None]] = []
    for name, value in (
        (EXPECT_KEY_OFFSET, options.get("expect_key_offset")),
        (EXPECT_END, options.get("expect_end")),
    ):
        if value is not None:
            if value < -1:
                raise InputError(f"invalid expected offset {value}: use 0 or more, or -1 for a key without records")
            headers.append((name, str(value).encode()))
    key = options.get("idempotency_key")
    if key is not None:
        data = value_bytes(key) or b""
        if not 0 < len(data) <= IDEMPOTENCY_KEY_BYTES_MAX:
            raise InputError(f"an idempotency key has from 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes, not {len(data)}")
        headers.append((IDEMPOTENCY_KEY, data))
    return tuple(headers)


class TopicFeatures:
    """The append options that topics enable, cached for some seconds."""

    def __init__(self, make_client: Callable[[], WireClient], clock: Clock) -> None:
        self._clients = Pool(make_client)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[dict[str, str | None], float]] = {}

    def check(self, topic: str, options: AppendOptions) -> None:
        """Prove that the log will obey. Raises UnsupportedFeatureError, UnknownTopicError."""
        configs = self._configs(topic)
        if options.get("expect_key_offset") is not None or options.get("expect_end") is not None:
            self._require(topic, configs, CONDITIONAL_APPEND, "true")
        if options.get("expect_key_offset") is not None:
            self._require(topic, configs, KEY_INDEX, "true")
        if options.get("idempotency_key") is not None:
            self._require(topic, configs, IDEMPOTENCY_WINDOW, "86400000")

    def _require(self, topic: str, configs: dict[str, str | None], name: str, example: str) -> None:
        value = configs.get(name)
        if value is None:
            raise UnsupportedFeatureError(
                f"the log does not know the topic config {name}, so it would append whatever is asked: "
                "Apache Kafka cannot do this"
            )
        if value in ("false", "0"):
            self.forget(topic)
            raise UnsupportedFeatureError(f"topic {topic!r} does not do this: set its config {name}={example}")

    def _configs(self, topic: str) -> dict[str, str | None]:
        with self._lock:
            configs, until_s = self._known.get(topic, ({}, 0.0))
        if self._clock.monotonic_s() < until_s:
            return configs
        with self._clients.borrow() as client:
            client.partition_count(topic)  # raises UnknownTopicError
            configs = topic_configs(client, topic, _NAMES)
        with self._lock:
            self._known[topic] = configs, self._clock.monotonic_s() + _KNOWN_FOR_S
        return configs

    def forget(self, topic: str) -> None:
        """Drop the cached configs of a topic: the next append reads them again."""
        with self._lock:
            self._known.pop(topic, None)

    def close(self) -> None:
        self._clients.close()
