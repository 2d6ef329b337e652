"""The decision on a micro-batch, as a sink's group keeps it: committed offsets with metadata.

    group       mainstem-sink-<sink id>
    partitions  0, 1, … of the topic __mainstem_sinks, which holds no records
    offset      micro-batch + 1, the same in each partition that a decision uses
    metadata    "<n>/<of>:" and the n-th part of a JSON document, at most 4,000 characters

The document's fields:

* ``v``: its version, 1
* ``source``: the digest of the source's end offsets
* ``topics``: the topic names, to which the other fields refer by index
* ``at``: the ends of the written records, as [topic, partition, offset]
* ``tx``: the transactions, as [transactional id without the group, producer id, epoch, topic, partition, offset]. The
  last three name one record of the transaction; that record's outcome is the transaction's outcome.

Partitions of an older, longer decision keep their older offset and are skipped. A damaged decision raises StorageError.

Pure values, without I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from mainstem.client.wire.admin.groups import CommittedEntry
from mainstem.client.wire.produce.transaction_requests import ProducerInstance
from mainstem.errors import ConfigError, StorageError
from mainstem.model import Position, TopicPartition
from mainstem.spark.checkpoints.offsets import StreamOffsets

SINKS_TOPIC: Final = "__mainstem_sinks"
SINKS_PARTITIONS: Final = 16
_PART_CHARS: Final = 4_000
"""Apache Kafka takes 4,096 (``offset.metadata.max.bytes``); what is written here is ASCII."""
_VERSION: Final = 1


class DecidedTransaction(NamedTuple):
    """A transaction to commit, and one of its records, the witness, whose outcome is the transaction's outcome."""

    instance: ProducerInstance
    witness: TopicPartition
    witness_offset: int


@dataclass(frozen=True, slots=True)
class MicroBatchCommit:
    """The last decision: micro-batch ``batch_id`` counts, and these transactions are committed."""

    batch_id: int
    source: str
    position: Position
    transactions: tuple[DecidedTransaction, ...]

    @property
    def instances(self) -> list[ProducerInstance]:
        return [each.instance for each in self.transactions]


def digest(source: StreamOffsets | None) -> str:
    """A hash of the source's end offsets, 16 hexadecimal digits; empty when the offsets are unknown."""
    if source is None:
        return ""
    return blake2b(json.dumps(source.to_json(), sort_keys=True).encode(), digest_size=8).hexdigest()


def entries_of(decision: MicroBatchCommit, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """The offsets and texts to commit. Raises ConfigError when the transactions are too many."""
    text = json.dumps(_document(decision, group), separators=(",", ":"))
    parts = [text[at : at + _PART_CHARS] for at in range(0, len(text), _PART_CHARS)]
    if len(parts) > SINKS_PARTITIONS:
        raise ConfigError(
            f"{len(decision.transactions)} tasks wrote in one micro-batch, more than can be decided on at once: "
            "write from fewer, with coalesce() or spark.sql.shuffle.partitions"
        )
    return {
        TopicPartition(SINKS_TOPIC, number): (decision.batch_id + 1, f"{number}/{len(parts)}:{part}")
        for number, part in enumerate(parts)
    }


def decision_in(entries: Mapping[TopicPartition, CommittedEntry], group: str) -> MicroBatchCommit | None:
    """The decision that a group's committed offsets hold; None when there is none. Raises StorageError."""
    by_number = {tp.partition: entry for tp, entry in entries.items() if tp.topic == SINKS_TOPIC}
    if not by_number:
        return None
    try:
        first = by_number[0]
        count = int(first.metadata.split(":", 1)[0].split("/")[1])
        text = "".join(_part(by_number[number], number, count, first.offset) for number in range(count))
        return _decision(json.loads(text), first.offset - 1, group)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise StorageError(
            f"the decision that group {group!r} keeps in {SINKS_TOPIC} cannot be read ({error}): was the group's "
            "offset set by hand? Which transactions count is not known any more; start the query with a new checkpoint"
        ) from error


def _part(entry: CommittedEntry, number: int, count: int, offset: int) -> str:
    place, part = entry.metadata.split(":", 1)
    if place != f"{number}/{count}" or entry.offset != offset:
        raise ValueError(f"part {number} of {count} belongs to another decision")
    return part


def _document(decision: MicroBatchCommit, group: str) -> dict[str, Any]:
    topics = sorted(decision.position.topics | {each.witness.topic for each in decision.transactions})
    number = {topic: index for index, topic in enumerate(topics)}
    return {
        "v": _VERSION,
        "source": decision.source,
        "topics": topics,
        "at": [[number[tp.topic], tp.partition, offset] for tp, offset in decision.position.items()],
        "tx": [
            [
                instance.transactional_id.removeprefix(group),
                instance.producer_id,
                instance.producer_epoch,
                number[witness.topic],
                witness.partition,
                offset,
            ]
            for instance, witness, offset in decision.transactions
        ],
    }


def _decision(document: Mapping[str, Any], batch_id: int, group: str) -> MicroBatchCommit:
    if document["v"] != _VERSION:
        raise ValueError(f"it is of version {document['v']}")
    topics: Sequence[str] = document["topics"]
    return MicroBatchCommit(
        batch_id,
        document["source"],
        Position({TopicPartition(topics[topic], partition): offset for topic, partition, offset in document["at"]}),
        tuple(
            DecidedTransaction(
                ProducerInstance(group + suffix, producer_id, epoch), TopicPartition(topics[topic], partition), offset
            )
            for suffix, producer_id, epoch, topic, partition, offset in document["tx"]
        ),
    )
