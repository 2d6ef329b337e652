"""Kafka's ``__cluster_metadata`` in bytes: the snapshot (``.checkpoint``) of a cluster's metadata, and its log.

A snapshot is one file of record batches: a header as a control record, batches of metadata records, a footer. Its name
has the end offset and the epoch of the log that it replaces. A log segment holds the same batches, and control records
of the quorum between them. Pure functions over bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mainstem.errors import FrameError, StorageError
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.compiler import read_uvarint, uvarint
from mainstem.protocol.messages import cluster_metadata_records as kafka
from mainstem.protocol.schema import Message
from mainstem.record.constants import CONTROL_BIT, MAGIC, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from mainstem.record.header import BatchHeader, iter_headers, verify
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, assemble_batch, build_batch, encode_record

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
_FRAME_VERSION: Final = 1
_SNAPSHOT_HEADER: Final = 3
_SNAPSHOT_FOOTER: Final = 4
_CONTROL_KEY: Final = struct.Struct(">hh")
_BATCH_BYTES: Final = 256 * 1024
_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

DELEGATION_TOKEN: Final = 10
BEGIN_TRANSACTION: Final = 23
END_TRANSACTION: Final = 24
ABORT_TRANSACTION: Final = 25
_WITHOUT_MEANING: Final = frozenset({7, 8, 10, 17, 20, 21, 26, 27, 28})
"""Fencing and unfencing of brokers, delegation tokens, no-op, ZooKeeper, controllers, and eligible leader replicas."""
_CLASSES: Final[dict[int, type[Message]]] = {
    each.__api_key__: each
    for each in (
        kafka.RegisterBrokerRecord,
        kafka.UnregisterBrokerRecord,
        kafka.TopicRecord,
        kafka.PartitionRecord,
        kafka.ConfigRecord,
        kafka.PartitionChangeRecord,
        kafka.RemoveTopicRecord,
        kafka.UserScramCredentialRecord,
        kafka.FeatureLevelRecord,
        kafka.ClientQuotaRecord,
        kafka.ProducerIdsRecord,
        kafka.AccessControlEntryRecord,
        kafka.RemoveAccessControlEntryRecord,
        kafka.RemoveUserScramCredentialRecord,
    )
}


class VersionedRecord(NamedTuple):
    """A metadata record and the version that it is written in."""

    body: Message
    version: int


class MetadataRecord(NamedTuple):
    """A metadata record that was read. ``body`` is None for one that says nothing about topics, users or rights."""

    offset: int
    kind: int
    body: Message | None


def checkpoint_name(offset: int, epoch: int) -> str:
    """The name of the snapshot that replaces a log up to ``offset`` in ``epoch``."""
    return f"{offset:020d}-{epoch:010d}.checkpoint"


def parse_checkpoint_name(name: str) -> tuple[int, int] | None:
    """Offset and epoch of such a name; None for any other."""
    match = _CHECKPOINT_NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def encode_checkpoint(records: Sequence[VersionedRecord], epoch: int, time_ms: int) -> bytes:
    """The bytes of a snapshot."""
    header = kafka.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=time_ms)
    batches = [_control_batch(_SNAPSHOT_HEADER, header, 0, epoch, time_ms)]
    offset = 1
    for values in _runs(map(_framed, records)):
        rows = [NewRecord(None, value, (), time_ms) for value in values]
        batches.append(build_batch(rows, base_offset=offset, leader_epoch=epoch))
        offset += len(rows)
    footer = kafka.SnapshotFooterRecord(version=0)
    batches.append(_control_batch(_SNAPSHOT_FOOTER, footer, offset, epoch, time_ms))
    return b"".join(batches)


def _runs(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The values of each batch: Kafka reads batches of a few megabytes."""
    run: list[bytes] = []
    size_bytes = 0
    for value in values:
        if run and size_bytes + len(value) > _BATCH_BYTES:
            yield run
            run, size_bytes = [], 0
        run.append(value)
        size_bytes += len(value)
    if run:
        yield run


def _framed(record: VersionedRecord) -> bytes:
    numbers = (_FRAME_VERSION, record.body.__api_key__, record.version)
    return b"".join(map(uvarint, numbers)) + encode_message(record.body, record.version)


def _control_batch(kind: int, body: Message, offset: int, epoch: int, time_ms: int) -> bytes:
    header = BatchHeader(
        offset,
        0,
        epoch,
        MAGIC,
        0,
        CONTROL_BIT,
        0,
        time_ms,
        time_ms,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        1,
    )
    return assemble_batch(header, encode_record(_CONTROL_KEY.pack(0, kind), encode_message(body, 0)))


def read_metadata(data: bytes, from_offset: int = 0) -> Iterator[MetadataRecord]:
    """The metadata records of a snapshot or of a log segment, in order. Raises StorageError for damaged bytes, and for
    records that this version of Mainstem does not know.
    """
    end = 0
    for at, header in iter_headers(data):
        verify(data, at, header)
        end = at + header.size_bytes
        if header.is_control or header.next_offset <= from_offset:
            continue
        for record in read_records(data[at:end]):
            if record.offset >= from_offset:
                yield _read_record(record.offset, record.value or b"")
    if end != len(data):
        raise StorageError(f"{METADATA_DIRECTORY}: {len(data) - end} bytes after its last whole batch")


def _read_record(offset: int, value: bytes) -> MetadataRecord:
    frame_version, at = read_uvarint(value, 0)
    kind, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    if frame_version != _FRAME_VERSION:
        raise _unknown(f"frame version {frame_version}")
    if kind in _WITHOUT_MEANING or kind in (BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION):
        return MetadataRecord(offset, kind, None)
    message = _CLASSES.get(kind)
    if message is None or version not in message.__versions__:
        raise _unknown(f"a record of type {kind}, version {version}")
    try:
        return MetadataRecord(offset, kind, decode_message(message, version, value, at))
    except FrameError as error:
        raise StorageError(f"{METADATA_DIRECTORY}: the record at offset {offset} cannot be read: {error}") from error


def _unknown(what: str) -> StorageError:
    return StorageError(
        f"{METADATA_DIRECTORY} holds {what}, which this version of Mainstem does not know: the directory is of a newer "
        "Apache Kafka; use a newer Mainstem"
    )


def without_aborted(records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
    """The records that count: those of a transaction of the controller only when it was ended."""
    held: list[MetadataRecord] | None = None
    for record in records:
        if record.kind == BEGIN_TRANSACTION:
            held = []
        elif record.kind == END_TRANSACTION:
            yield from held or ()
            held = None
        elif record.kind == ABORT_TRANSACTION:
            held = None
        elif held is not None:
            held.append(record)
        else:
            yield record
