"""The records of ``__share_group_state``, in Kafka's own format: snapshots of a share partition, and updates of it.

The state is the last snapshot plus the updates after it, in order. An update holds the changed runs and the new start
offset (-1 if it did not move). Acquired records are written as available, with this delivery counted. So a record is
delivered again with its count after a crash (Kafka does not write acquisitions, and loses that count). A snapshot
without a value means that the share partition was removed.

Key: two bytes that say its type, then the key's struct. Value: two bytes that say its version, then the struct.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.share.in_flight import InFlight, RecordState, Run
from mainstem.errors import FrameError
from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages import share_records as messages
from mainstem.protocol.schema import Message

_INT16: Final = struct.Struct(">h")
_VERSION: Final = 0
_SNAPSHOT: Final = 0
_UPDATE: Final = 1


class ShareKey(NamedTuple):
    """Which share partition: a group's view of a partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """Kafka's way to write it, which decides the partition of the topic that keeps it."""
        return f"{self.group_id}:{encode_uuid(self.topic_id)}:{self.partition}"


class Epochs(NamedTuple):
    """``state`` counts how often an admin moved the start offset, ``snapshot`` the snapshots that were written."""

    state: int
    leader: int
    snapshot: int


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """The whole state of a share partition; ``in_flight`` is None when the share partition was removed."""

    key: ShareKey
    epochs: Epochs
    in_flight: InFlight | None
    created_ms: int


@dataclass(frozen=True, slots=True)
class Update:
    """The runs that changed; a start offset of -1 is none."""

    key: ShareKey
    runs: Sequence[Run]
    start_offset: int


StateChange: TypeAlias = ShareSnapshot | Update


def snapshot_record(snapshot: ShareSnapshot, time_ms: int) -> StateRecord:
    """The record of a whole state; its tombstone when there is none."""
    key = messages.ShareSnapshotKey(
        group_id=snapshot.key.group_id, topic_id=snapshot.key.topic_id, partition=snapshot.key.partition
    )
    if snapshot.in_flight is None:
        return StateRecord(_framed(_SNAPSHOT, key), None)
    written = snapshot.in_flight.written()
    value = messages.ShareSnapshotValue(
        snapshot_epoch=snapshot.epochs.snapshot,
        state_epoch=snapshot.epochs.state,
        leader_epoch=snapshot.epochs.leader,
        start_offset=written.start_offset,
        delivery_complete_count=written.delivery_complete_count,
        create_timestamp=snapshot.created_ms,
        write_timestamp=time_ms,
        state_batches=_batches(written.runs),
    )
    return StateRecord(_framed(_SNAPSHOT, key), _framed(_VERSION, value))


def update_record(key: ShareKey, epochs: Epochs, runs: Iterable[Run], before: InFlight, after: InFlight) -> StateRecord:
    """The record of a change that leads from ``before`` to ``after``."""
    value = messages.ShareUpdateValue(
        snapshot_epoch=epochs.snapshot,
        leader_epoch=epochs.leader,
        start_offset=after.start_offset if after.start_offset != before.start_offset else -1,
        delivery_complete_count=after.delivery_complete_count,
        state_batches=_batches(runs),
    )
    name = messages.ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return StateRecord(_framed(_UPDATE, name), _framed(_VERSION, value))


def read_state_change(key: bytes, value: bytes | None) -> StateChange | None:
    """Decode a record; None for an unknown type. Raises FrameError for a damaged record."""
    kind = _leading_int16(key)
    if kind == _SNAPSHOT:
        name = decode_message(messages.ShareSnapshotKey, 0, key, 2)
        share_key = ShareKey(name.group_id, name.topic_id, name.partition)
        if value is None:
            return ShareSnapshot(share_key, Epochs(0, 0, 0), None, -1)
        held = decode_message(messages.ShareSnapshotValue, _leading_int16(value), value, 2)
        epochs = Epochs(held.state_epoch, held.leader_epoch, held.snapshot_epoch)
        in_flight = InFlight(held.start_offset).applied(_runs(held.state_batches))
        return ShareSnapshot(share_key, epochs, in_flight, held.create_timestamp)
    if kind == _UPDATE and value is not None:
        updated = decode_message(messages.ShareUpdateKey, 0, key, 2)
        news = decode_message(messages.ShareUpdateValue, _leading_int16(value), value, 2)
        share_key = ShareKey(updated.group_id, updated.topic_id, updated.partition)
        return Update(share_key, _runs(news.state_batches), news.start_offset)
    return None


def _batches(runs: Iterable[Run]) -> list[messages.StateBatch]:
    return [
        messages.StateBatch(
            first_offset=run.first,
            last_offset=run.last,
            delivery_state=run.state.written,
            delivery_count=run.delivery_count,
        )
        for run in runs
    ]


def _runs(batches: Iterable[messages.StateBatch]) -> list[Run]:
    try:
        return [
            Run(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state).written, batch.delivery_count)
            for batch in batches
        ]
    except ValueError as error:
        raise FrameError(f"a share partition's state: {error}") from error


def _framed(number: int, body: Message) -> bytes:
    return _INT16.pack(number) + encode_message(body, _VERSION)


def _leading_int16(data: bytes) -> int:
    if len(data) < 2:
        raise FrameError(f"a share state record's key or value is {len(data)} bytes long")
    number: int = _INT16.unpack_from(data)[0]
    return number
