"""How far a stream or a scan reads: offsets of every partition, with the life of each topic that they belong to.

``StreamOffsets`` is what Spark keeps in its checkpoint for the source. Beside the topics that it streams it carries the
end positions of the tables that the query joins, so that a micro-batch that is run again joins the same rows. Its JSON
is stable: the same offsets give the same text, by which Spark knows that there is nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mainstem.client.wire.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.spark.options import OffsetSpec, ReadOptions

NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of every partition, and ``topic_ids``: the lives of the topics that the offsets belong to."""

    position: Position
    topic_ids: Mapping[str, str]
    tables: Position

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"position": self.position.to_json(), "topic_ids": dict(self.topic_ids)}
        return document if not self.tables else {**document, "tables": self.tables.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffsets:
        return cls(
            Position.from_json(document["position"]),
            dict(sorted(document.get("topic_ids", {}).items())),
            Position.from_json(document.get("tables", {})),
        )

    def at(self, position: Position, tables: Position) -> StreamOffsets:
        return replace(self, position=position, tables=tables)


def topics_of(client: WireClient, options: ReadOptions) -> dict[str, tuple[str, tuple[TopicPartition, ...]]]:
    """Topic → (its id, the partitions to read), in order. Raises UnknownTopicError for one that is not there."""
    names = set(options.topics) | {tp.topic for tp in options.assigned}
    if options.pattern is not None:
        # matched as Kafka's consumers do: the whole name, and never an internal topic
        wanted = re.compile(options.pattern)
        found = client.metadata()
        names = {name for name, topic in found.items() if not topic.is_internal and wanted.fullmatch(name)}
    else:
        found = client.metadata(names)
    missing = sorted(names - found.keys())
    if missing:
        raise UnknownTopicError(f"there is no topic {', '.join(missing)}; create it, or check the option's spelling")
    result = {}
    for name in sorted(names):
        partitions = tuple(TopicPartition(name, number) for number in sorted(found[name].partitions))
        if options.assigned:
            partitions = _assigned(name, partitions, options.assigned)
        result[name] = (str(found[name].topic_id), partitions)
    return result


def _assigned(
    topic: str, partitions: Iterable[TopicPartition], assigned: frozenset[TopicPartition]
) -> tuple[TopicPartition, ...]:
    wanted = {tp for tp in assigned if tp.topic == topic}
    missing = sorted(wanted - set(partitions))
    if missing:
        raise UnknownTopicError(f"there is no partition {', '.join(map(str, missing))}; check the option assign")
    return tuple(sorted(wanted))


def resolve(
    client: WireClient,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> Position:
    """The offset of each partition that ``spec`` says.

    A partition without a record at or after a time stands at its end. A map that leaves partitions out, or names
    others, is a ConfigError: which end it should then be is a guess.
    """
    asked = list(partitions)
    if isinstance(spec, int):
        found = client.list_offsets(asked, spec, isolation)
        if len(found) < len(asked):
            ends = client.list_offsets([tp for tp in asked if tp not in found], LATEST, isolation)
            found = {**found, **ends}
        return Position(found)
    _require_same(asked, spec)
    symbolic = {at: [tp for tp, offset in spec.items() if offset == at] for at in (EARLIEST, LATEST)}
    found = {tp: offset for tp, offset in spec.items() if offset >= 0}
    for at, tps in symbolic.items():
        found.update(client.list_offsets(tps, at, isolation) if tps else {})
    return Position(found)


def _require_same(partitions: list[TopicPartition], spec: Mapping[TopicPartition, int]) -> None:
    missing, foreign = set(partitions) - spec.keys(), spec.keys() - set(partitions)
    if missing or foreign:
        said = ", ".join(
            [*(f"{tp} is missing" for tp in sorted(missing)), *(f"{tp} does not exist" for tp in sorted(foreign))]
        )
        raise ConfigError(f"the offsets must name every partition: {said} (-2 is earliest, -1 is latest)")


def limited(start: Position, ends: Position, rows_max: int) -> Position:
    """``ends``, or less: at most ``rows_max`` offsets beyond ``start``, shared out by how much each partition has."""
    behind = {tp: max(0, end - start.get(tp, 0)) for tp, end in ends.items()}
    total = sum(behind.values())
    if total <= rows_max:
        return ends
    shares = {tp: count * rows_max // total for tp, count in behind.items()}
    left = rows_max - sum(shares.values())
    for tp in sorted(behind, key=lambda tp: shares[tp] - behind[tp])[:left]:  # rounding must not starve the small ones
        shares[tp] += 1
    return Position({tp: min(end, start.get(tp, 0) + shares[tp]) for tp, end in ends.items()})


def require_same_lives(start: StreamOffsets, found: Mapping[str, str]) -> None:
    """Raises OffsetOutOfRangeError when a topic was deleted and made again since ``start``."""
    for topic, topic_id in start.topic_ids.items():
        now = found.get(topic, topic_id)
        if now != topic_id:
            raise OffsetOutOfRangeError(
                f"topic {topic} was deleted and made again: the checkpoint's offsets belong to its former life "
                f"({topic_id}, now {now}); start the query with a new checkpoint"
            )
