"""Lost offsets: ranges that were removed before a stream read them, recorded in the progress topic.

A stream with ``failOnDataLoss=false`` continues at the log start offset and appends one record for each range that it
missed: key ``loss:<reader>:<topic>/<partition>:<start>-<end>:<topic id>``, value this document. The key names the
range: a repeated record after a crash replaces the first, and compaction keeps every range.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainstem.errors import SchemaError, UnknownTopicError
from mainstem.model import Record, TopicPartition
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.progress import PROGRESS_TOPIC

if TYPE_CHECKING:
    from mainstem.client.log import Log

_PREFIX = b"loss:"


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets [start, end) of a partition, which ``reader`` (a consumer group) never read, and what removed them.

    ``end`` is None for all unread offsets of a deleted or recreated topic, whose end is unknown. ``topic_id`` is
    the id of the topic that held the offsets; ``noticed_ms`` is when the reader noticed the loss.
    """

    reader: str
    topic_partition: TopicPartition
    start: int
    end: int | None
    rule: str
    topic_id: str
    noticed_ms: int

    def __str__(self) -> str:
        offsets = f"from {self.start} on" if self.end is None else f"{self.start} to {self.end - 1}"
        return f"{self.topic_partition}: offsets {offsets} ({self.rule})"

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        end = "" if self.end is None else str(self.end)
        key = f"loss:{self.reader}:{self.topic_partition}:{self.start}-{end}:{self.topic_id}"
        document = {
            "reader": self.reader,
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "start": self.start,
            "end": self.end,
            "rule": self.rule,
            "topic_id": self.topic_id,
            "noticed_ms": self.noticed_ms,
        }
        return key.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_record(cls, record: Record) -> Loss | None:
        """Read a record of the progress topic; None for one of another kind, and for a tombstone.

        Raises SchemaError for a loss that cannot be parsed.
        """
        if record.value is None or not (record.key or b"").startswith(_PREFIX):
            return None
        try:
            document = json.loads(record.value)
            return cls(
                reader=str(document["reader"]),
                topic_partition=TopicPartition(str(document["topic"]), int(document["partition"])),
                start=int(document["start"]),
                end=None if document["end"] is None else int(document["end"]),
                rule=str(document["rule"]),
                topic_id=str(document["topic_id"]),
                noticed_ms=int(document["noticed_ms"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise SchemaError(
                f"{record.topic}/{record.partition}:{record.offset} is not a record of a loss: {error}"
            ) from error


def record_losses(log: Log, losses: Iterable[Loss]) -> None:
    """Append the records. Creates the progress topic if it does not exist."""
    from mainstem.schema.topic_schemas import SYSTEM_TOPIC_CONFIGS

    log.create_topic(PROGRESS_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
    for loss in losses:
        key, value = loss.to_record()
        log.append(PROGRESS_TOPIC, value, key=key)


def recorded_losses(log: Log, reader: str | None = None) -> list[Loss]:
    """Every recorded loss, or those of one reader, oldest first; empty without a progress topic."""
    found: dict[str, Loss] = {}
    try:
        for key, loss in EntryReader(log, PROGRESS_TOPIC, Loss.from_record):
            if loss is not None and reader in (None, loss.reader):
                found.setdefault(key, loss)
    except UnknownTopicError:
        return []
    return list(found.values())
