"""Whether a record is in the log, as readers of committed records see it; if not, what it waits for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainstem.client.admin.open_transactions import OpenTransaction
from mainstem.errors import AuthorizationError, RemoteError, UnavailableError, UnknownTopicError
from mainstem.model import Position, Record, TopicPartition

if TYPE_CHECKING:
    from mainstem.client.log import Log


class PlaceState(enum.StrEnum):
    """Where an offset of a partition is."""

    READABLE = "readable"
    NO_RECORD = "no record"
    """A transaction's marker, a record of an aborted transaction, or one that compaction removed."""
    REMOVED = "removed"
    """Before the partition's first offset: retention or a deletion has removed it."""
    IN_TRANSACTION = "behind an open transaction"
    NOT_WRITTEN = "not written"
    """At or after the high watermark."""

    @property
    def is_settled(self) -> bool:
        """Whether readers have been able to pass this offset."""
        return self in (PlaceState.READABLE, PlaceState.NO_RECORD, PlaceState.REMOVED)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of an offset, with the record where it is readable, and the transactions that hold it back."""

    tp: TopicPartition
    offset: int
    state: PlaceState
    detail: str = ""
    record: Record | None = None
    transactions: tuple[OpenTransaction, ...] = ()

    @property
    def after(self) -> Position:
        """The position just after it."""
        return Position({self.tp: self.offset + 1})


def find_place(log: Log, tp: TopicPartition, offset: int) -> RecordPlace:
    """Look for a record. Raises UnknownTopicError, also for a partition that the topic lacks, and UnavailableError."""
    found, count = log.cluster_admin.partitions(tp.topic, after=tp.partition - 1, limit=1)
    if not found or found[0].topic_partition != tp:
        raise UnknownTopicError(f"there is no partition {tp}: topic {tp.topic} has {count} partitions, from 0")
    details = found[0]
    if details.beginning is None or details.end is None or details.committed_end is None:
        raise UnavailableError(f"the offsets of {tp} are not known: {details.error or 'its leader does not answer'}")
    if offset >= details.end:
        detail = f"{tp} ends at offset {details.end}: nothing with offset {offset} is durable yet"
        return RecordPlace(tp, offset, PlaceState.NOT_WRITTEN, detail)
    if offset < details.beginning:
        detail = f"{tp} begins at offset {details.beginning}: retention or a deletion has removed what was before"
        return RecordPlace(tp, offset, PlaceState.REMOVED, detail)
    if offset >= details.committed_end:
        held = blocking_transactions(log, Position({tp: offset + 1}))
        detail = f"readers of committed records stop at offset {details.committed_end} of {tp}"
        return RecordPlace(tp, offset, PlaceState.IN_TRANSACTION, detail, transactions=held)
    reader = log.read(
        tp.topic, start=Position({tp: offset}), end=Position({tp: offset + 1}), fetch_bytes=65_536, on_damaged="skip"
    )
    record = next((each for each in reader if each.partition == tp.partition and each.offset == offset), None)
    if record is not None:
        return RecordPlace(tp, offset, PlaceState.READABLE, record=record)
    detail = "no reader sees a record at this offset: it is a transaction's marker, aborted, or compacted away"
    if reader.damaged:
        detail = f"the record cannot be read: {reader.damaged[0]}"
    return RecordPlace(tp, offset, PlaceState.NO_RECORD, detail)


def blocking_transactions(log: Log, until: Position) -> tuple[OpenTransaction, ...]:
    """The open transactions that keep readers from ``until``; none where the log does not allow to see them."""
    if not until:
        return ()
    try:
        found = log.cluster_admin.open_transactions(*sorted(until.topics))
    except (AuthorizationError, RemoteError, UnknownTopicError):
        return ()
    return tuple(each for each in found if each.first_offset < until.get(each.topic_partition, 0))
