"""What an append does to each record, for the topics that ask for it: other appends look at headers only. No I/O.

* ``cleanup.policy=compact``: a record without a key is refused, by its index. Compaction would throw it away.
* ``message.timestamp.before.max.ms``: each record is checked. (``message.timestamp.after.max.ms`` is checked by the
  batch's greatest timestamp, which says as much.)
* ``compression.type`` other than ``producer``: a batch in another codec is compressed anew, and ``max.message.bytes``
  holds for the result, too. One that is in that codec already stays as it came, whatever its level, as in Kafka.

Where records are looked at, they must add up, and their offsets follow on one another. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.errors import CorruptBatchError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from mainstem.log.config import LogConfig
from mainstem.record.compress import compress
from mainstem.record.constants import COMPRESSION_MASK, NO_TIMESTAMP, Compression
from mainstem.record.header import BatchHeader, read_header
from mainstem.record.key_scan import records_of
from mainstem.record.record_check import RecordFacts, walk_records
from mainstem.record.writer import assemble_batch

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def prepare_records(
    view: memoryview, batches: Sequence[tuple[int, BatchHeader]], config: LogConfig, now_ms: int
) -> tuple[memoryview, Sequence[tuple[int, BatchHeader]]]:
    """The batches as they are to be appended; the same ones, unless they had to be compressed anew.

    Raises CorruptBatchError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError.
    """
    if not config.looks_at_records:
        return view, batches
    stored: list[bytes] = []
    index = 0
    for at, header in batches:
        data = view[at : at + header.size_bytes]
        records = records_of(header, data)
        _check_records(header, _walk(header, records), config, now_ms, index)
        index += header.record_count
        stored.append(_recompressed(header, data, records, config))
    if config.codec is None:
        return view, batches
    joined = memoryview(b"".join(stored))
    prepared, at = [], 0
    for each in stored:
        prepared.append((at, read_header(joined, at)))
        at += len(each)
    if at > config.segment_bytes:
        raise RecordTooLargeError(f"{at} bytes in one append, but a segment holds segment.bytes={config.segment_bytes}")
    return joined, prepared


def _walk(header: BatchHeader, records: bytes) -> list[RecordFacts]:
    try:
        return walk_records(header, records)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"its checksum matches, but its records do not add up: {error}") from error


def _check_records(
    header: BatchHeader, records: Sequence[RecordFacts], config: LogConfig, now_ms: int, first_index: int
) -> None:
    for at, record in enumerate(records):
        if record.offset_delta != at:
            text = f"its offset delta is {record.offset_delta}, where {at} comes next"
            raise InvalidRecordError(f"record {first_index + at}: {text}", records={first_index + at: text})
    if config.is_compacted:
        keyless = [first_index + at for at, record in enumerate(records) if not record.has_key]
        if keyless:
            text = "a compacted topic takes no record without a key"
            raise InvalidRecordError(f"record {keyless[0]}: {text}", records=dict.fromkeys(keyless, text))
    if config.bounds_old_timestamps:
        oldest_ms = now_ms - config.message_timestamp_before_max_ms
        old = [
            first_index + at
            for at, record in enumerate(records)
            if NO_TIMESTAMP != header.base_timestamp + record.timestamp_delta < oldest_ms
        ]
        if old:
            text = (
                "its timestamp lies further before the log's clock than "
                f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms}"
            )
            raise InvalidTimestampError(f"record {old[0]}: {text}", records=dict.fromkeys(old, text))


def _recompressed(header: BatchHeader, data: memoryview, records: bytes, config: LogConfig) -> bytes:
    if config.codec is None or _CODECS[config.codec] is header.compression:
        return bytes(data) if config.codec is not None else b""
    codec = _CODECS[config.codec]
    changed = header._replace(attributes=(header.attributes & ~COMPRESSION_MASK) | codec)
    stored = assemble_batch(changed, compress(codec, records, level=config.compression_level))
    if len(stored) > config.max_message_bytes:
        raise RecordTooLargeError(
            f"a record batch of {len(stored)} bytes, once it is stored with compression.type={config.codec}, is over "
            f"max.message.bytes={config.max_message_bytes}"
        )
    return stored
