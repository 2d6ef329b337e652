"""Encoding Arrow columns into record batches, in bulk: what ``writer.build_batch`` makes, at many times its rate.

Contract: the records of the columns in order, cut into batches of at most ``max_batch_bytes`` before compression, each
ready to be sent as it is. Sequences run on from batch to batch. Pure; safe from any thread; the GIL is released in the
native part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.errors import InputError, RecordTooLargeError
from mainstem.record.arrow_source import (
    HeaderFields,
    fields_of,
    header_fields_of,
    no_fields,
    no_headers,
    times_of,
)
from mainstem.record.compress import compress
from mainstem.record.constants import (
    HEADER_BYTES,
    INT32_MAX,
    MAGIC,
    MAX_BATCH_BYTES,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    Compression,
)
from mainstem.record.header import BatchHeader
from mainstem.record.native import native_encode as native
from mainstem.record.writer import NO_PRODUCER, ProducerStamp, assemble_batch


def encode(
    keys: Any | None,
    values: Any,
    *,
    timestamps_ms: Any | None = None,
    headers: Any | None = None,
    compression: Compression = Compression.NONE,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    producer: ProducerStamp | None = None,
    base_sequence: int | None = None,
) -> list[bytes]:
    """The record batches of these columns; none for no records.

    ``keys`` and ``values`` are Arrow columns of bytes or text (null: no key; a tombstone); ``timestamps_ms`` a column
    or array of integers, one number for all, or None for none; ``headers`` a column of
    ``list<struct<key: string, value: binary>>``. ``base_sequence`` stands in for the producer's own where given.
    Raises RecordTooLargeError for a record that fits no batch, and InputError for columns that do not fit together.
    """
    count = len(values)
    value_fields = fields_of(values, "values")
    key_fields = no_fields(count) if keys is None else fields_of(keys, "keys")
    header_fields = no_headers(count) if headers is None else header_fields_of(headers)
    times = times_of(timestamps_ms, count)
    if not count == len(key_fields.sizes) == len(times) == len(header_fields.first):
        raise InputError(f"the columns of {count} values differ in length")
    if not HEADER_BYTES < max_batch_bytes <= INT32_MAX:
        raise InputError(f"a record batch of at most {max_batch_bytes} bytes: not a size of the format")
    notes = np.stack(
        [key_fields.addresses, key_fields.sizes, value_fields.addresses, value_fields.sizes, times, *header_fields[:2]]
    )
    payloads, output = _write_payloads(notes, header_fields, max_batch_bytes)
    stamp = producer or NO_PRODUCER
    if base_sequence is not None:
        stamp = stamp._replace(base_sequence=base_sequence)
    return _assemble(payloads.tolist(), output, compression, stamp)


def _write_payloads(notes: Any, headers: HeaderFields, max_batch_bytes: int) -> tuple[Any, Any]:
    """(a row for each batch, the bytes in which their payloads lie)."""
    count = notes.shape[1]
    header_notes = np.stack([*headers.names[:2], *headers.values[:2]])
    bound = count * native.RECORD_OVERHEAD_MAX + _sum(notes[native.KEY_SIZE]) + _sum(notes[native.VALUE_SIZE])
    # Records may share headers: each record's own are counted by the sums before and after them.
    sums = np.concatenate([[0], np.cumsum(np.maximum(header_notes[[native.NAME_SIZE, native.HEADER_SIZE]], 0).sum(0))])
    first, end = notes[native.FIRST_HEADER], notes[native.HEADERS_END]
    bound += int((sums[end] - sums[first] + (end - first) * native.HEADER_OVERHEAD_MAX).sum())
    output = np.empty(bound, np.uint8)
    payloads = np.empty((count, native.PAYLOAD_COLUMNS), np.int64)
    batches, too_large = native.write_payloads(notes, header_notes, max_batch_bytes, output, payloads)
    if too_large >= 0:
        raise RecordTooLargeError(f"record {too_large} is too large for a record batch of {max_batch_bytes} bytes")
    return payloads[:batches], output.data


def _sum(sizes: Any) -> int:
    return int(np.maximum(sizes, 0).sum())


def _assemble(
    payloads: list[list[int]], output: memoryview, compression: Compression, producer: ProducerStamp
) -> list[bytes]:
    batches: list[bytes] = []
    attributes = int(compression) | (TRANSACTIONAL_BIT if producer.is_transactional else 0)
    sequence = producer.base_sequence
    for start, end, records, base_time, max_time in payloads:
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=records - 1,
            base_timestamp=base_time,
            max_timestamp=max_time,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            record_count=records,
        )
        batches.append(assemble_batch(header, compress(compression, output[start:end])))
        sequence = sequence if sequence == NO_SEQUENCE else (sequence + records) & INT32_MAX
    return batches
