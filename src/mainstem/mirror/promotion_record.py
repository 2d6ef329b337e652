"""A promotion, written down: a record in ``__mainstem_promotions`` at the promoted log, one for each source.

The key is the source's cluster id. The value is JSON: when, whether it was planned, and where each partition ended.
A later promotion from the same source replaces the record. So it takes along what the earlier ones say of the topics
that they opened, unless those are mirrors again: ``earlier_promotion`` gives that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, WireClient
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.errors import AuthorizationError, TopicExistsError, UnknownTopicError
from mainstem.mirror.link import PROMOTIONS_TOPIC, mirror_of
from mainstem.model import Position, TopicPartition
from mainstem.record.header import iter_headers
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, build_batch

_PARTITION: Final = TopicPartition(PROMOTIONS_TOPIC, 0)


class AbortedAtPromotion(NamedTuple):
    """A transaction that was open in the copy, and whose end was lost with the source."""

    topic_partition: TopicPartition
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Promotion:
    """``position`` is where the partitions ended when the target was opened: up to there both logs are equal.

    ``aborted`` are the transactions that the promotion ended. ``earlier_ms`` has the topics of ``position`` that were
    promoted before ``time_ms``, and when.
    """

    source_id: str
    time_ms: int
    is_planned: bool
    position: Position
    aborted: tuple[AbortedAtPromotion, ...] = ()
    earlier_ms: Mapping[str, int] = field(default_factory=dict)

    def time_of(self, topic: str) -> int | None:
        """When a topic was promoted; None for one that was not."""
        return self.earlier_ms.get(topic, self.time_ms) if topic in self.position.topics else None

    def with_earlier(self, earlier: Promotion | None) -> Promotion:
        """This promotion, with what an earlier one says of other topics."""
        if earlier is None:
            return self
        names = earlier.position.topics - self.position.topics
        kept = {name: time_ms for name in sorted(names) if (time_ms := earlier.time_of(name)) is not None}
        aborted = (each for each in earlier.aborted if each.topic_partition.topic in kept)
        return replace(
            self,
            position=self.position | earlier.position.restrict(kept),
            aborted=tuple(dict.fromkeys((*aborted, *self.aborted))),
            earlier_ms=kept,
        )

    def to_json(self) -> dict[str, Any]:
        """The record's value, which ``--json`` prints, too."""
        value = {
            "version": 1,
            "source": self.source_id,
            "time_ms": self.time_ms,
            "planned": self.is_planned,
            "position": str(self.position),
            "aborted": [
                {"partition": str(each.topic_partition), "producer": each.producer_id, "from": each.first_offset}
                for each in self.aborted
            ],
        }
        return {**value, "earlier_ms": dict(self.earlier_ms)} if self.earlier_ms else value

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Promotion:
        """Read ``to_json``'s form."""
        aborted = []
        for each in value["aborted"]:
            topic, _, number = each["partition"].rpartition("/")
            aborted.append(AbortedAtPromotion(TopicPartition(topic, int(number)), each["producer"], each["from"]))
        position = Position.parse(value["position"])
        earlier_ms = value.get("earlier_ms", {})
        return cls(value["source"], value["time_ms"], value["planned"], position, tuple(aborted), earlier_ms)


def write_promotion(
    client: WireClient,
    source_id: str,
    position: Position,
    earlier: Promotion | None,
    *,
    is_planned: bool,
    aborted: Iterable[AbortedAtPromotion] = (),
) -> Promotion:
    """Keep a promotion durably at the log that is promoted, with ``earlier`` ones; returns it without these."""
    promotion = Promotion(source_id, int(time.time() * 1000), is_planned, position, tuple(aborted))
    if PROMOTIONS_TOPIC not in client.metadata([PROMOTIONS_TOPIC]):
        try:
            create_topic(client, PROMOTIONS_TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        except TopicExistsError:
            client.metadata([PROMOTIONS_TOPIC], wait=True)
    value = json.dumps(promotion.with_earlier(earlier).to_json(), separators=(",", ":")).encode()
    client.produce(_PARTITION, build_batch([NewRecord(source_id.encode(), value, (), promotion.time_ms)]))
    return promotion


def earlier_promotion(client: WireClient, source_id: str) -> Promotion | None:
    """The record of earlier promotions from a source, without topics that are mirrors again; None without one.

    A topic that is gone, or whose configs this user may not read, stays in it, so that no loss is forgotten.
    """
    known = promotions(client).get(source_id)
    if known is None:
        return None
    still = [name for name in known.position.topics if not _is_mirror(client, name)]
    return replace(known, position=known.position.restrict(still))


def _is_mirror(client: WireClient, topic: str) -> bool:
    try:
        return bool(mirror_of(client, topic))
    except (AuthorizationError, UnknownTopicError):
        return False


def promotions(client: WireClient) -> dict[str, Promotion]:
    """The last promotion from each source, by its cluster id."""
    if PROMOTIONS_TOPIC not in client.metadata([PROMOTIONS_TOPIC]):
        return {}
    found: dict[str, Promotion] = {}
    offset, end = client.list_offsets([_PARTITION], EARLIEST)[_PARTITION], client.list_offsets([_PARTITION], LATEST)
    while offset < end[_PARTITION]:
        fetched = client.fetch({_PARTITION: offset}, max_wait_ms=0)[_PARTITION]
        if fetched.error is not None:
            raise fetched.error
        for record in iter_records(fetched.records):
            value = json.loads(record.value or b"{}")
            if value.get("version") == 1:
                found[value["source"]] = Promotion.of_json(value)
        before = offset
        for _, header in iter_headers(fetched.records):
            offset = max(offset, header.next_offset)
        if offset == before:
            break
    return found
