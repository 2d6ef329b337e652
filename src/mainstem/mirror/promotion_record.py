"""A promotion, written down: a record in ``__mainstem_promotions`` at the promoted log, one for each source.

The key is the source's cluster id. The value is JSON: when, whether it was planned, and where each partition ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, WireClient
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.errors import TopicExistsError
from mainstem.mirror.link import PROMOTIONS_TOPIC
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

    ``aborted`` are the transactions that the promotion ended.
    """

    source_id: str
    time_ms: int
    is_planned: bool
    position: Position
    aborted: tuple[AbortedAtPromotion, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The record's value, which ``--json`` prints, too."""
        return {
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

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Promotion:
        """Read ``to_json``'s form."""
        aborted = []
        for each in value["aborted"]:
            topic, _, number = each["partition"].rpartition("/")
            aborted.append(AbortedAtPromotion(TopicPartition(topic, int(number)), each["producer"], each["from"]))
        position = Position.parse(value["position"])
        return cls(value["source"], value["time_ms"], value["planned"], position, tuple(aborted))


def write_promotion(
    client: WireClient,
    source_id: str,
    position: Position,
    *,
    is_planned: bool,
    aborted: Iterable[AbortedAtPromotion] = (),
) -> Promotion:
    """Keep a promotion durably at the log that is promoted."""
    promotion = Promotion(source_id, int(time.time() * 1000), is_planned, position, tuple(aborted))
    if PROMOTIONS_TOPIC not in client.metadata([PROMOTIONS_TOPIC]):
        try:
            create_topic(client, PROMOTIONS_TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        except TopicExistsError:
            client.metadata([PROMOTIONS_TOPIC], wait=True)
    value = json.dumps(promotion.to_json(), separators=(",", ":")).encode()
    client.produce(_PARTITION, build_batch([NewRecord(source_id.encode(), value, (), promotion.time_ms)]))
    return promotion


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
