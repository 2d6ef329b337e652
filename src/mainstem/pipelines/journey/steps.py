"""A journey as frozen values, and as the JSON document that the gateway answers and commands show."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Final

from mainstem.client.admin.open_transactions import OpenTransaction
from mainstem.model import Position, Record
from mainstem.pipelines.journey.batch_search import FoundBatch
from mainstem.pipelines.journey.key_search import TopicRange
from mainstem.pipelines.journey.record_place import RecordPlace

_KEY_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A pipeline on the way of a record. ``depth`` counts the pipelines before it.

    ``state``: ``read`` (a micro-batch has read it), ``waiting``, or ``table`` (the topic is a table of the pipeline,
    read whole in each micro-batch). ``first_batch``: the first of several micro-batches. ``waits_for`` says in words
    what it waits for; ``note`` what is not known, and why.
    """

    pipeline: str
    topic: str
    depth: int
    state: str
    batch: FoundBatch | None = None
    first_batch: FoundBatch | None = None
    outputs: tuple[TopicRange, ...] = ()
    waits_for: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "pipeline": self.pipeline,
            "topic": self.topic,
            "depth": self.depth,
            "state": self.state,
            "micro_batch": _batch_json(self.batch, self.first_batch),
            "outputs": [range_json(output) for output in self.outputs],
            "waits_for": self.waits_for or None,
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class OriginStep:
    """Where a derived record came from: the micro-batch of a pipeline, and the ranges of its inputs that it read.

    ``covers``: the positions of the inputs that the record reflects at most.
    """

    pipeline: str
    topic: str
    depth: int
    batch: FoundBatch | None
    inputs: tuple[TopicRange, ...] = ()
    covers: Position = field(default_factory=Position)
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "pipeline": self.pipeline,
            "topic": self.topic,
            "depth": self.depth,
            "micro_batch": _batch_json(self.batch, None),
            "inputs": [range_json(each) for each in self.inputs],
            "covers": str(self.covers),
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class Arrival:
    """The record, or what came of it, in a topic: all of it lies before ``until``. None: nothing yet.

    ``transactions`` are open before ``until``: they hold readers back.
    """

    topic: str
    depth: int
    until: Position | None
    start: Position = field(default_factory=Position)
    key: bytes | None = None
    waits_for: str = ""
    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Journey:
    """The journey of one record. ``arrivals``: the topics on its way, the record's own first.

    ``complete``: false where the journey has more steps than are followed. ``hidden``: how many steps lead to topics
    that the caller may not read.
    """

    place: RecordPlace
    now_ms: int
    origins: tuple[OriginStep, ...]
    pipelines: tuple[PipelineStep, ...]
    arrivals: tuple[Arrival, ...]
    is_complete: bool
    hidden: int = 0

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        place = self.place
        return {
            "topic": place.tp.topic,
            "partition": place.tp.partition,
            "offset": place.offset,
            "state": place.state.value,
            "detail": place.detail or None,
            "record": None if place.record is None else record_json(place.record),
            "transactions": [transaction_json(each) for each in place.transactions],
            "now_ms": self.now_ms,
            "origins": [origin.to_json() for origin in self.origins],
            "pipelines": [step.to_json() for step in self.pipelines],
            "complete": self.is_complete,
            "hidden": self.hidden,
        }


def range_json(found: TopicRange) -> dict[str, Any]:
    """A range: the partitions that moved, and the records of the key."""
    return {
        "topic": found.topic,
        "ranges": [
            {"partition": tp.partition, "first": found.start.get(tp, 0), "end": offset}
            for tp, offset in found.end.items()
            if offset > found.start.get(tp, 0)
        ],
        "records": [record_json(record) for record in found.matches.records],
        "not_searched": found.matches.skipped or None,
    }


def record_json(record: Record) -> dict[str, Any]:
    """A record by its place, time and key; its value is one read away, and so is a key that is too long for a list."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    if record.key is not None and len(record.key) > _KEY_BYTES_MAX:
        return {**document, "key_bytes": len(record.key)}
    try:
        document["key"] = None if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        document["key_base64"] = base64.b64encode(record.key or b"").decode()
    return document


def transaction_json(transaction: OpenTransaction) -> dict[str, Any]:
    """An open transaction: whose, since when, and where it began."""
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "partition": transaction.topic_partition.partition,
        "topic": transaction.topic_partition.topic,
        "first_offset": transaction.first_offset,
        "since_ms": transaction.since_ms,
    }


def _batch_json(found: FoundBatch | None, first: FoundBatch | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "batch_id": found.batch.batch_id,
        "first_batch_id": found.batch.batch_id if first is None else first.batch.batch_id,
        "ended_ms": found.ended_ms,
        "exact": found.is_exact,
    }
