"""The check of an append's batches, record by record, and the batches to store. No I/O.

As Apache Kafka's LogValidator:

* Every record is walked: lengths, offset deltas, the record count, compressed data.
* ``cleanup.policy=compact``: a record without a key is refused, by its index. Compaction would remove it.
* ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms`` hold for each record's timestamp.
* ``confluent.value.schema.validation`` and the like: ``frames``, which the broker gives, refuses records.
* A header's greatest timestamp is corrected to that of its records, because retention and the time index rely on it.
* ``compression.type`` other than ``producer``: a batch in another codec is recompressed, and ``max.message.bytes``
  holds for the result, too. A batch in that codec stays unchanged, whatever its level, as in Kafka.

Deliberate: Kafka accepts wrong offset deltas, and answers compressed data that does not decompress with
UNKNOWN_SERVER_ERROR. Here both are INVALID_RECORD: readers could not read them.

Concurrency: ``AppendCheck.run`` may run in any thread; the partition log's owner makes the check and takes its result.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mainstem.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordListTooLargeError,
    RecordTooLargeError,
)
from mainstem.log.partition.batch_validation import check_batches
from mainstem.log.partition.config import LogConfig
from mainstem.record.compress import DecompressedSizeError, compress, decompress
from mainstem.record.constants import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    INT64_MAX,
    RECORD_BYTES_MIN,
    Buffer,
    Compression,
)
from mainstem.record.header import BatchHeader, iter_headers, read_header
from mainstem.record.record_check import (
    BROKEN_RECORDS_MAX,
    RecordRules,
    RecordsChecked,
    check_records,
    is_native_loaded,
)
from mainstem.record.writer import assemble_batch

if TYPE_CHECKING:
    from mainstem.log.key_index.append_hook import AppendFeatures, ScannedAppend

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_QUICK_BYTES: Final = 4 << 20
_QUICK_COMPRESSED_BYTES: Final = 16 << 10
_QUICK_PLAIN_BYTES: Final = 256 << 10
_QUICK_RECORDS: Final = 50_000
_QUICK_PLAIN_RECORDS: Final = 200
"""While the native walk is not loaded."""
_QUICK_FEATURE_RECORDS: Final = 1000
FEATURE_RECORDS_MAX: Final = 100_000
"""The most records of one append in a topic that reads the key or headers of each: each becomes an object."""


class FrameCheck(Protocol):
    """The check that keys and values name schemas that the topic takes."""

    def refused(self, header: BatchHeader, records: bytes) -> Mapping[int, str]:
        """Why records of a batch, whose plain records these are, are refused: by their index in the batch."""


class CheckedAppend(NamedTuple):
    """Batches that may be stored. ``sent`` are their headers as they came, ``batches`` (file position, header) as they
    are to be stored, in ``view``; ``scanned`` is what the topic's log features found in them.
    """

    view: memoryview
    sent: list[BatchHeader]
    batches: Sequence[tuple[int, BatchHeader]]
    scanned: ScannedAppend | None
    config: LogConfig
    features: AppendFeatures | None


class AppendCheck:
    """One append that is to be checked, by the configs and features that its topic has now."""

    def __init__(
        self,
        data: Buffer,
        config: LogConfig,
        now_ms: int,
        features: AppendFeatures | None = None,
        *,
        is_own: bool = False,
        needs_sequence: bool = True,
    ) -> None:
        """The batches of ``data``; those that are this process's ``own`` are not walked record by record."""
        self.config = config
        self.features = features
        self.frames: FrameCheck | None = None  # what a topic that validates schemas needs
        self._view = memoryview(data)
        self._now_ms = now_ms
        self._is_own = is_own
        self._needs_sequence = needs_sequence

    @property
    def needs_content_check(self) -> bool:
        """Whether keys or values are to be read by their schemas, after ``run``."""
        return self.config.validates_content and not self._is_own

    @property
    def data(self) -> memoryview:
        """The batches as they came."""
        return self._view

    @property
    def needs_frames(self) -> bool:
        """Whether ``frames`` has to be set before the check can run."""
        return self.config.validates_schemas and not self._is_own and self.frames is None

    def run_if_quick(self) -> CheckedAppend | None:
        """Check it now if that takes a millisecond or two; None when it may take longer. Raises as ``run`` does."""
        if not self._looks_quick():
            return None
        try:
            return self._check(min(_QUICK_PLAIN_BYTES, self.config.mainstem_max_decompressed_bytes))
        except DecompressedSizeError:
            return None

    def run(self) -> CheckedAppend:
        """Check it, however long that takes; it may load the native walk.

        Raises CorruptBatchError, RecordTooLargeError, InvalidRecordError, InvalidTimestampError.
        """
        limit_bytes = self.config.mainstem_max_decompressed_bytes
        try:
            return self._check(limit_bytes)
        except DecompressedSizeError:
            raise RecordTooLargeError(
                f"a record batch has more than mainstem.max.decompressed.bytes={limit_bytes} when it is "
                "decompressed: send smaller batches"
            ) from None

    def _looks_quick(self) -> bool:
        if self.needs_content_check:
            return False
        looks_at_each = self.features is not None or self.config.validates_schemas
        if len(self._view) <= _QUICK_COMPRESSED_BYTES and not looks_at_each and is_native_loaded():
            return True  # whatever it holds
        if len(self._view) > _QUICK_BYTES or self.needs_frames:
            return False
        records_max = _QUICK_RECORDS if is_native_loaded() else _QUICK_PLAIN_RECORDS
        if looks_at_each:
            records_max = min(records_max, _QUICK_FEATURE_RECORDS)
        records = compressed = 0
        try:
            for _, header in iter_headers(self._view):
                records += header.record_count
                if header.attributes & COMPRESSION_MASK or self.config.codec is not None:
                    compressed += header.size_bytes
        except CorruptBatchError:
            return True  # the check meets it, too
        return records <= records_max and compressed <= _QUICK_COMPRESSED_BYTES

    def _check(self, limit_bytes: int) -> CheckedAppend:
        view, config, features = self._view, self.config, self.features
        batches = check_batches(view, config, needs_sequence=self._needs_sequence)
        sent = [header for _, header in batches]
        frames = None if self._is_own else self.frames
        assert not self.needs_frames, "the broker gives the schemas of a topic that validates them"
        if features is not None or frames is not None:
            _refuse_many(sent)
        rules = _rules_of(config, self._now_ms)
        plain: list[Buffer] = []
        stored: list[bytes | None] = []
        is_changed = False
        index = 0
        for at, header in batches:
            data = view[at : at + header.size_bytes]
            records: Buffer = data[HEADER_BYTES:]
            if header.attributes & COMPRESSION_MASK:
                records = _decompressed(header, records, limit_bytes)
            max_timestamp = header.max_timestamp
            if not self._is_own:
                try:
                    checked = check_records(header, records, rules)
                except CorruptBatchError as error:
                    raise InvalidRecordError(f"its checksum matches, but its records do not add up: {error}") from error
                if checked.broken_count:
                    raise _refusal(checked, config, self._now_ms, index)
                max_timestamp = checked.max_timestamp
            if frames is not None:
                refuse_records(frames.refused(header, bytes(records)), index)
            index += header.record_count
            changed = None
            if config.codec is not None or max_timestamp != header.max_timestamp:
                changed = _changed(header, data, records, config, max_timestamp)
            stored.append(changed)
            is_changed = is_changed or changed is not None
            if features is not None:
                plain.append(records)
        scanned = None if features is None else features.scan(sent, plain)
        if is_changed:
            view, batches = _joined(view, batches, stored, config)
        return CheckedAppend(view, sent, batches, scanned, config, features)


def _rules_of(config: LogConfig, now_ms: int) -> RecordRules:
    if config.uses_log_append_time:
        return RecordRules(config.is_compacted)
    newest_ms = min(now_ms + config.message_timestamp_after_max_ms, INT64_MAX)
    return RecordRules(config.is_compacted, now_ms - config.message_timestamp_before_max_ms, newest_ms)


def _refuse_many(headers: Sequence[BatchHeader]) -> None:
    count = sum(header.record_count for header in headers)
    if count > FEATURE_RECORDS_MAX:
        raise RecordTooLargeError(
            f"{count} records in one append, but a topic with a key index, conditions, idempotency keys or schema "
            f"validation takes "
            f"{FEATURE_RECORDS_MAX}: send smaller batches"
        )


def refuse_records(refused: Mapping[int, str], first_index: int = 0) -> None:
    """Raise InvalidRecordError if there are any: by their index in a batch whose first record has ``first_index``."""
    if not refused:
        return
    first = min(refused)
    others = f" (and {len(refused) - 1} more records)" if len(refused) > 1 else ""
    named = {first_index + at: text for at, text in itertools.islice(refused.items(), BROKEN_RECORDS_MAX)}
    raise InvalidRecordError(f"record {first_index + first}: {refused[first]}{others}", records=named)


def _decompressed(header: BatchHeader, records: Buffer, limit_bytes: int) -> Buffer:
    if header.record_count > limit_bytes // RECORD_BYTES_MIN:
        raise DecompressedSizeError(f"{header.record_count} records")
    try:
        return decompress(header.compression, records, limit_bytes=limit_bytes)
    except DecompressedSizeError:
        raise
    except CorruptBatchError as error:
        raise InvalidRecordError(f"its checksum matches, but {error}") from error


def _refusal(
    checked: RecordsChecked, config: LogConfig, now_ms: int, first_index: int
) -> InvalidRecordError | InvalidTimestampError:
    """The error that names the records; any timestamp among them makes it one of timestamps, as in Kafka."""
    texts: dict[int, str] = {}
    for record in checked.broken:
        if record.has_no_key:
            text = "a compacted topic takes no record without a key"
        elif record.timestamp_ms < now_ms:
            text = (
                f"timestamp {record.timestamp_ms} is {now_ms - record.timestamp_ms} ms before the log's clock, over "
                f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms}"
            )
        else:
            text = (
                f"timestamp {record.timestamp_ms} is {record.timestamp_ms - now_ms} ms after the log's clock, over "
                f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms}"
            )
        texts[first_index + record.at] = text
    first, text = next(iter(texts.items()))
    others = f" (and {checked.broken_count - 1} more records)" if checked.broken_count > 1 else ""
    kind = InvalidRecordError if all(record.has_no_key for record in checked.broken) else InvalidTimestampError
    return kind(f"record {first}: {text}{others}", records=texts)


def _changed(
    header: BatchHeader, data: memoryview, records: Buffer, config: LogConfig, max_timestamp: int
) -> bytes | None:
    """The batch as it is stored, if the topic's configs change it."""
    mended = header
    if header.max_timestamp != max_timestamp and not config.uses_log_append_time:
        mended = header._replace(max_timestamp=max_timestamp)
    if config.codec is not None and _CODECS[config.codec] is not header.compression:
        return _recompressed(mended, records, config)
    return None if mended is header else assemble_batch(mended, data[HEADER_BYTES:])


def _recompressed(header: BatchHeader, records: Buffer, config: LogConfig) -> bytes:
    assert config.codec is not None
    codec = _CODECS[config.codec]
    changed = header._replace(attributes=(header.attributes & ~COMPRESSION_MASK) | codec)
    stored = assemble_batch(changed, compress(codec, records, level=config.compression_level))
    if len(stored) > config.max_message_bytes:
        raise RecordTooLargeError(
            f"a record batch of {len(stored)} bytes, once it is stored with compression.type={config.codec}, is over "
            f"max.message.bytes={config.max_message_bytes}"
        )
    return stored


def _joined(
    view: memoryview, batches: Sequence[tuple[int, BatchHeader]], stored: Sequence[bytes | None], config: LogConfig
) -> tuple[memoryview, list[tuple[int, BatchHeader]]]:
    parts = [
        view[at : at + header.size_bytes] if changed is None else changed
        for (at, header), changed in zip(batches, stored, strict=True)
    ]
    joined = memoryview(b"".join(parts))
    if len(joined) > config.segment_bytes:
        raise RecordListTooLargeError(
            f"{len(joined)} bytes in one append, but a segment holds segment.bytes={config.segment_bytes}"
        )
    prepared, at = [], 0
    for part in parts:
        prepared.append((at, read_header(joined, at)))
        at += len(part)
    return joined, prepared
