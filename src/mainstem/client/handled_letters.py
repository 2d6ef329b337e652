"""``HandledLetters``: which dead letters are handled, kept in a compacted topic of the log itself.

``__mainstem_handled_letters`` has one record for each partition of a topic of dead letters. Its key is
``TOPIC-ID/PARTITION``, its value ``{"topic": NAME, "handled": [[first, last], …]}``: ranges of offsets. The dead
letters are never changed. A range may cover offsets that hold no letter, so the ranges are at most as many as the
letters that are known (``dead_letters.LETTERS_MAX``); what is older than these is left out.

Any client that may write to the topic can fill it. So a record with more than ``RANGES_MAX`` ranges counts as empty, at
most ``RANGES_IN_ALL`` ranges are kept in all, and one call reads at most ``READ_BYTES_MAX``; the next goes on there.

Two who change it at a time: the append is conditional on the key's last record, and is tried again. Apache Kafka has no
conditions; there the later change wins. Used by one thread at a time.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from mainstem.client.append.append_options import CONDITIONAL_APPEND, KEY_INDEX
from mainstem.errors import ConditionFailedError, ConfigError, UnknownTopicError, UnsupportedFeatureError

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.model import Position, Record

HANDLED_TOPIC: Final = "__mainstem_handled_letters"
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
_FEATURES: Final = {KEY_INDEX: "true", CONDITIONAL_APPEND: "true"}
RANGES_MAX: Final = 5_000
RANGES_IN_ALL: Final = 200_000
READ_BYTES_MAX: Final = 64 << 20
_ATTEMPTS: Final = 10

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of offsets, first and last, in order and apart from each other."""


class HandledLetters:
    """The ranges of each partition, as far as the topic was read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._read_up_to: Position | None = None
        self._ranges: dict[str, Ranges] = {}
        self._kept = 0
        self._offsets: dict[str, int] = {}

    def of(self, topic_id: UUID) -> dict[int, Ranges]:
        """The handled offsets of a topic, by partition."""
        prefix = f"{topic_id}/"
        return {int(key.removeprefix(prefix)): each for key, each in self._ranges.items() if key.startswith(prefix)}

    def catch_up(self) -> None:
        """Read what is new. Raises LogUnavailableError."""
        try:
            reader = self._log.read(HANDLED_TOPIC, start=self._read_up_to or "earliest", on_damaged="skip")
        except UnknownTopicError:
            self._read_up_to = None
            self._ranges.clear()
            self._offsets.clear()
            self._kept = 0
            return
        size_bytes = 0
        for record in reader:
            key = (record.key or b"").decode(errors="replace")
            if _is_key(key):
                self._keep(key, _ranges_of(record), record.offset)
            size_bytes += record.size_bytes
            if size_bytes >= READ_BYTES_MAX:
                break
        self._read_up_to = reader.position

    def _keep(self, key: str, ranges: Ranges, offset: int) -> None:
        """Take in the ranges of a partition, unless there are too many in all."""
        kept = self._kept - 1 - len(self._ranges[key]) if key in self._ranges else self._kept
        if kept + 1 + len(ranges) > RANGES_IN_ALL:
            return
        self._kept = kept + 1 + len(ranges)
        self._ranges[key], self._offsets[key] = ranges, offset

    def change(
        self,
        topic: str,
        topic_id: UUID,
        letters: Mapping[int, Sequence[int]],
        wanted: Mapping[int, Sequence[int]],
        *,
        handled: bool,
    ) -> int:
        """Mark the ``wanted`` of all known ``letters`` (offsets by partition); returns how many were changed.

        Raises LogUnavailableError, and ConditionFailedError when others change it all the time.
        """
        return sum(
            self._change(topic, f"{topic_id}/{partition}", letters[partition], frozenset(offsets), handled=handled)
            for partition, offsets in wanted.items()
        )

    def _change(self, topic: str, key: str, letters: Sequence[int], wanted: frozenset[int], *, handled: bool) -> int:
        for attempt in range(_ATTEMPTS):
            known = self._ranges.get(key, ())
            before = {offset for offset in letters if is_in(known, offset)}
            after = before | wanted if handled else before - wanted
            if after == before:
                return 0
            try:
                self._append(topic, key, ranges_over(sorted(letters), after))
            except ConditionFailedError:
                if attempt == _ATTEMPTS - 1:
                    raise
                self.catch_up()
                continue
            self.catch_up()
            break
        return len(after ^ before)

    def _append(self, topic: str, key: str, ranges: Ranges) -> None:
        if self._read_up_to is None:
            self._create()
        value = {"topic": topic, "handled": ranges}
        try:
            self._log.append(HANDLED_TOPIC, value, key=key, expect_key_offset=self._offsets.get(key, -1))
        except UnsupportedFeatureError:
            self._log.append(HANDLED_TOPIC, value, key=key)

    def _create(self) -> None:
        try:
            self._log.create_topic(HANDLED_TOPIC, partitions=1, configs=_CONFIGS | _FEATURES, exist_ok=True)
        except ConfigError:
            self._log.create_topic(HANDLED_TOPIC, partitions=1, configs=_CONFIGS, exist_ok=True)


def ranges_over(letters: Sequence[int], handled: set[int]) -> Ranges:
    """The ranges that hold all of ``handled`` and no other of ``letters``, which are in order."""
    ranges: list[tuple[int, int]] = []
    goes_on = False
    for offset in letters:
        if offset not in handled:
            goes_on = False
        elif goes_on:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
            goes_on = True
    return tuple(ranges)


def is_in(ranges: Ranges, offset: int) -> bool:
    """Whether one of the ranges holds the offset."""
    at = bisect_right(ranges, offset, key=lambda each: each[0])
    return at > 0 and offset <= ranges[at - 1][1]


def _is_key(key: str) -> bool:
    """Whether a key is ``TOPIC-ID/PARTITION``: any client may append to the topic."""
    topic_id, _, partition = key.rpartition("/")
    try:
        return str(UUID(topic_id)) == topic_id and 0 <= int(partition) < 1 << 31
    except ValueError:
        return False


def _ranges_of(record: Record) -> Ranges:
    """The ranges of a record; none for a value of another form, or with too many."""
    try:
        document = json.loads(record.value or b'{"handled": []}')
        ranges = tuple(sorted((int(first), int(last)) for first, last in document["handled"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return ranges if len(ranges) <= RANGES_MAX else ()
