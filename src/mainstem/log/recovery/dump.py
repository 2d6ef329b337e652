"""The content of one file of a log, as plain values for JSON: batches and records, index entries, producers.

Reads only. A damaged batch is reported at its position, and reading goes on after it. Functions over the disk port.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

from mainstem.errors import CorruptBatchError, InputError
from mainstem.log.cleaning.compaction_job import CLEANED, SWAP
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    SEAL,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_offset_file,
)
from mainstem.log.files.small_files import read_file
from mainstem.log.partition.producer_snapshot import decode_snapshot, owner_of
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.log.segments.index_checksums import decode_seal
from mainstem.record.header import BatchHeader, batch_crc
from mainstem.record.reader import DecodedRecord, read_control_type, read_records

_ENTRIES: Final = {
    OFFSET_INDEX: (struct.Struct(">II"), ("offset", "file_position")),
    TIME_INDEX: (struct.Struct(">qI"), ("timestamp_ms", "offset")),
    TRANSACTION_INDEX: (
        struct.Struct(">hqqqq"),
        ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    ),
}


def dump_file(disk: Disk, path: PurePath, *, records: bool = True) -> Iterator[dict[str, Any]]:
    """The content of a file, one value for each batch, entry or producer. Raises InputError, StorageError."""
    name = path.name
    for ending in (CLEANED, SWAP, DELETED):
        name = name.removesuffix(ending)
    parsed = parse_offset_file(name)
    if parsed is None or parsed[1] not in {LOG, SNAPSHOT, SEAL, *_ENTRIES}:
        raise InputError(
            f"{path.name} is not a log's file: name a .log, .index, .timeindex, .txnindex, .snapshot or .seal"
        )
    offset, suffix = parsed
    if suffix == LOG:
        return _batches(disk, path, offset, records)
    data = read_file(disk, path)
    if data is None:
        raise InputError(f"there is no file {path}")
    if suffix == SNAPSHOT:
        return _producers(data, offset)
    return _seal(data) if suffix == SEAL else _entries(data, offset, suffix)


def _batches(disk: Disk, path: PurePath, base_offset: int, with_records: bool) -> Iterator[dict[str, Any]]:
    if not disk.exists(path):
        raise InputError(f"there is no file {path}")
    file = disk.open(path)
    try:
        size = file.size_bytes()
        end = 0
        for at, header in walk_past_damage(file, Start(0, base_offset), size, prove=True):
            if at != end:
                yield {"file_position": end, "damaged_bytes": at - end}
            data = file.read(at, header.size_bytes)
            batch = {"file_position": at, "size_bytes": header.size_bytes, **_header(header)}
            batch["is_valid"] = batch_crc(data, 0, header) == header.crc
            if with_records:
                batch["records"] = _records(header, data)
            yield batch
            end = at + header.size_bytes
        if end != size:
            yield {"file_position": end, "damaged_bytes": size - end}
    finally:
        file.close()


def _header(header: BatchHeader) -> dict[str, Any]:
    fields = header._asdict()
    del fields["magic"], fields["batch_length"], fields["attributes"], fields["last_offset_delta"]
    return {
        **fields,
        "last_offset": header.last_offset,
        "compression": header.compression.name.lower(),
        "timestamp_type": "LogAppendTime" if header.has_log_append_time else "CreateTime",
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "has_delete_horizon": header.has_delete_horizon,
    }


def _records(header: BatchHeader, data: bytes) -> list[dict[str, Any]]:
    try:
        records = read_records(data)
    except CorruptBatchError as error:
        return [{"error": str(error)}]
    return [_control(record) if header.is_control else _record(record) for record in records]


def _record(record: DecodedRecord) -> dict[str, Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": headers,
    }


def _control(record: DecodedRecord) -> dict[str, Any]:
    control_type = read_control_type(record)
    marker = control_type.name.lower() if control_type is not None else None
    return {"offset": record.offset, "timestamp_ms": record.timestamp_ms, "marker": marker}


def _text(data: bytes | None) -> str | None:
    """As text; what is not UTF-8 with its bytes escaped."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _entries(data: bytes, base_offset: int, suffix: str) -> Iterator[dict[str, Any]]:
    entry, names = _ENTRIES[suffix]
    whole = len(data) - len(data) % entry.size
    for values in entry.iter_unpack(data[:whole]):
        fields = dict(zip(names, values, strict=True))
        if suffix != TRANSACTION_INDEX:
            fields["offset"] += base_offset
        yield fields
    if whole != len(data):
        yield {"damaged_bytes": len(data) - whole}


def _producers(data: bytes, offset: int) -> Iterator[dict[str, Any]]:
    state = decode_snapshot(data, offset, *owner_of(data))
    for entry in state.entries():
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp_ms": entry.last_timestamp_ms,
            "written_ms": entry.written_ms,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
            "batches": [batch._asdict() for batch in entry.batches],
        }


def _seal(data: bytes) -> Iterator[dict[str, Any]]:
    seal = decode_seal(data)
    yield seal._asdict() if seal is not None else {"damaged_bytes": len(data)}
