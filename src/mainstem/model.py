"""The words that every package shares: records, topic partitions and positions.

A **position** is a map topic partition → *next* offset, exclusive, like a consumer's position: transaction markers and
compacted gaps, which hold no record, can then never stall someone who waits for it. Positions form a lattice:
``p.covers(q)`` is the partial order and ``p | q`` the least upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

from mainstem.errors import PositionFormatError

Headers = tuple[tuple[str, bytes | None], ...]
OnDamaged: TypeAlias = Literal["stop", "skip"]
"""How a reader handles records that are damaged in the log: stop with an error, or skip them and report them."""
ON_DAMAGED: tuple[str, ...] = get_args(OnDamaged)

# Kafka's rule for topic names (org.apache.kafka.common.internals.Topic): these characters, at most 249 of them, and
# neither "." nor "..". None of "/", ":" and "," is among them, so a position's text form needs no escaping.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POSITION_PART = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,10}):(\d{1,19})")
_DATABASE_PART = re.compile(r"pg:(?:([a-z][a-z0-9_-]{0,39}):)?([0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8})")
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1

_NO_TOPIC_ID: Final = str(UUID(int=0))
LOAD_GROUP_PREFIX: Final = "mainstem-load-"
MIRROR_OF: Final = "mainstem.mirror.of"
"""The config that makes a topic the copy of another log's topic, which a mirror fills."""
DATABASE_TOPIC_PREFIX: Final = "__mainstem_postgres."
"""A captured PostgreSQL database stands in positions as partition 0 of this topic, which no log has, and the capture's
name. Its offset is a position of the database's own log (LSN)."""


def lsn_text(lsn: int) -> str:
    """A position of PostgreSQL's log as PostgreSQL writes it: ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Read ``lsn_text``'s form. Raises ValueError."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def is_load_group(group: str) -> bool:
    """Whether a group keeps the progress of a ``mainstem load``: it reads no records, so it has no lag."""
    return group.startswith(LOAD_GROUP_PREFIX)


def topic_was_recreated(known: UUID | str | None, now: UUID | str) -> bool:
    """Whether the topic that has the id ``now`` is another one than the topic of the same name that had ``known``.

    An id that is absent, empty or all zeros is not known: then False.
    """
    return str(known or "") not in ("", _NO_TOPIC_ID, str(now))


def is_topic_name(name: str) -> bool:
    """Whether Kafka would accept ``name`` as a topic's name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


class TopicPartition(NamedTuple):
    """One partition of a topic; ``str`` gives ``topic/partition``, the form that positions use.

    A tuple, because it is the key of most maps here: it is made, hashed and compared in a third of a dataclass's time.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a reader sees it. ``timestamp_ms`` is milliseconds since the epoch, -1 when it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def position(self) -> Position:
        """The position just after this record: a reader that has it has this record."""
        return Position({TopicPartition(self.topic, self.partition): self.offset + 1})

    @property
    def size_bytes(self) -> int:
        """How long its key, value and headers are together."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class Position(Mapping[TopicPartition, int]):
    """An immutable map topic partition → next offset (exclusive). A partition that is absent is at 0.

    Text form: ``flights/0:17,flights/3:9``, sorted by topic, then partition number; the empty position is the empty
    string. It is safe in a URL's query and in an HTTP header without escapes. ``parse`` also takes a position of a
    PostgreSQL database that is captured, as ``pg_current_wal_lsn()`` gives it: ``pg:shop:0/16B3748``, or
    ``pg:0/16B3748`` where a view derives from one database only.
    """

    __slots__ = ("_next_offsets",)

    def __init__(self, next_offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Make a position of a mapping.

        Args:
            next_offsets: The next offset of each topic partition; without it the empty position.

        Raises:
            PositionFormatError: An offset is negative, or beyond 63 bits.

        Examples:
            >>> str(ms.Position({ms.TopicPartition("flights", 0): 17}))
            'flights/0:17'
        """
        entries = dict(sorted((next_offsets or {}).items()))
        for topic_partition, offset in entries.items():
            if not 0 <= offset <= _MAX_OFFSET:
                raise PositionFormatError(f"position {topic_partition}:{offset}: the offset is out of range")
        self._next_offsets = entries

    @classmethod
    def of(cls, topic: str, partition: int, next_offset: int) -> Position:
        """The position of a single partition.

        Args:
            topic: The topic.
            partition: Its partition, from 0.
            next_offset: The offset just after the last record that counts.

        Raises:
            PositionFormatError: The offset is negative, or beyond 63 bits.

        Examples:
            >>> str(ms.Position.of("flights", 0, 17))
            'flights/0:17'
        """
        return cls({TopicPartition(topic, partition): next_offset})

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read the text form; the order of its parts is free, a partition may occur in it once.

        Args:
            text: ``TOPIC/PARTITION:NEXT_OFFSET`` with commas between, or ``pg:NAME:LSN``.

        Raises:
            PositionFormatError: It says what part is wrong.

        Examples:
            >>> ms.Position.parse("flights/3:9,flights/0:17")
            Position('flights/0:17,flights/3:9')
        """
        entries: dict[TopicPartition, int] = {}
        for part in text.split(",") if text.strip() else ():
            database = _DATABASE_PART.fullmatch(part.strip())
            if database is not None:
                entries[TopicPartition(DATABASE_TOPIC_PREFIX + (database[1] or ""), 0)] = parse_lsn(database[2])
                continue
            match = _POSITION_PART.fullmatch(part.strip())
            if match is None or int(match[2]) > _MAX_PARTITION:
                raise PositionFormatError(f"{part.strip()!r} is not TOPIC/PARTITION:NEXT_OFFSET, e.g. flights/0:17")
            topic_partition = TopicPartition(match[1], int(match[2]))
            if topic_partition in entries:
                raise PositionFormatError(f"{topic_partition} occurs twice in the position")
            entries[topic_partition] = int(match[3])
        return cls(entries)

    @classmethod
    def join(cls, positions: Iterable[Position]) -> Position:
        """The least upper bound of all of them; of none, the empty position.

        Args:
            positions: Positions of any topics.

        Examples:
            >>> ms.Position.join([ms.Position.of("a", 0, 3), ms.Position.of("a", 0, 5), ms.Position.of("b", 0, 1)])
            Position('a/0:5,b/0:1')
        """
        result = cls()
        for position in positions:
            result = result | position
        return result

    def covers(self, other: Position) -> bool:
        """Whether everything before ``other`` is also before this position (a partial order).

        Args:
            other: The position that has to be reached.

        Examples:
            >>> ms.Position.parse("a/0:5").covers(ms.Position.parse("a/0:3"))
            True
        """
        return all(self._next_offsets.get(tp, 0) >= offset for tp, offset in other._next_offsets.items())

    def restrict(self, topics: Iterable[str]) -> Position:
        """The part of this position that lies in ``topics``.

        Args:
            topics: Names of topics.

        Examples:
            >>> ms.Position.parse("a/0:5,b/0:1").restrict(["b"])
            Position('b/0:1')
        """
        wanted = frozenset(topics)
        return Position({tp: offset for tp, offset in self._next_offsets.items() if tp.topic in wanted})

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this position names."""
        return frozenset(tp.topic for tp in self._next_offsets)

    def to_json(self) -> dict[str, int]:
        """The form in JSON documents.

        Examples:
            >>> ms.Position.parse("flights/0:17").to_json()
            {'flights/0': 17}
        """
        return {str(tp): offset for tp, offset in self._next_offsets.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        """Read ``to_json``'s form.

        Args:
            document: The next offset of each ``TOPIC/PARTITION``.

        Raises:
            PositionFormatError: A name or an offset is wrong.

        Examples:
            >>> ms.Position.from_json({"flights/0": 17})
            Position('flights/0:17')
        """
        return cls.parse(",".join(f"{name}:{offset}" for name, offset in document.items()))

    def __or__(self, other: Position) -> Position:
        merged = dict(self._next_offsets)
        for tp, offset in other._next_offsets.items():
            merged[tp] = max(offset, merged.get(tp, 0))
        return Position(merged)

    def __getitem__(self, topic_partition: TopicPartition) -> int:
        return self._next_offsets[topic_partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._next_offsets)

    def __len__(self) -> int:
        return len(self._next_offsets)

    def __hash__(self) -> int:
        return hash(tuple(self._next_offsets.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._next_offsets == other._next_offsets

    def __str__(self) -> str:
        return ",".join([f"{topic}/{partition}:{offset}" for (topic, partition), offset in self._next_offsets.items()])

    def __repr__(self) -> str:
        return f"Position({str(self)!r})"
