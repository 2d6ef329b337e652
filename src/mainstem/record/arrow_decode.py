"""Decoding record batches into Arrow, in bulk: the columns that are asked for, and nothing else.

Contract of ``decode``: the records of the whole batches in the buffer with offsets in [start, end), in order, those of
control batches and of aborted transactions left out; and ``next_offset``, where reading goes on, which passes over what
was left out. It may stop early, before a batch that does not add up or when ``total_bytes_max`` is reached, and says so
by ``next_offset`` and ``consumed_bytes``; only where nothing could be decoded does it raise CorruptBatchError. So a
reader that calls again from ``next_offset`` gets all that is good, then the error.

One call makes at most ``total_bytes_max`` < 2 GiB of column data, so that Arrow's 32-bit offsets always suffice.
The result owns its memory: the buffer may be reused at once. Pure; safe from any thread; the GIL is released in the
native part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mainstem.errors import CorruptBatchError, InputError
from mainstem.record.arrow_columns import ArrowColumns, Notes, schema_of
from mainstem.record.compress import decompress
from mainstem.record.constants import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    INT32_MAX,
    INT64_MAX,
    MAGIC,
    MAGIC_AT,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    Buffer,
    Compression,
    ControlType,
)
from mainstem.record.header import other_magic, read_header, verify
from mainstem.record.native import native_decode as native
from mainstem.record.reader import read_control_type, read_records


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """``batch_bytes_max`` bounds one decompressed batch, ``total_bytes_max`` what one call decodes."""

    verify_crc: bool = True
    batch_bytes_max: int = DECOMPRESSED_BYTES_MAX
    total_bytes_max: int = 1024 * 1024 * 1024

    def __post_init__(self) -> None:
        if not 0 < self.batch_bytes_max <= INT32_MAX or not 0 < self.total_bytes_max <= INT32_MAX:
            raise InputError("the limits of a decode must be between 1 byte and 2 GiB")


AbortedTransactions = Sequence[tuple[int, int]]
"""(producer id, first offset) of each, as a fetch response lists them."""


class Decoded(NamedTuple):
    """The records as an Arrow record batch, and how far the reading came.

    ``next_offset``: every offset before it was decoded or holds nothing to decode. ``consumed_bytes``: the part of the
    buffer that was dealt with; what is left starts with the batch that holds ``next_offset`` or comes after it.
    ``aborted``: the aborted transactions that end in what is left, to be given with it: one that ended before would
    otherwise hide what its producer wrote since.
    """

    arrow_batch: Any
    next_offset: int
    consumed_bytes: int
    aborted: AbortedTransactions


_DEFAULT_OPTIONS = DecodeOptions()
# Bounds the notes on where fields lie, which take more memory than the smallest records do.
_RECORDS_MAX = 8 * 1024 * 1024


def decode(
    buffer: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    columns: frozenset[str],
    aborted: AbortedTransactions = (),
    options: DecodeOptions = _DEFAULT_OPTIONS,
) -> Decoded:
    """Decode ``columns`` of the records in ``buffer``. The module's docstring has the contract.

    ``timestamp`` is in microseconds, saturated where milliseconds do not fit; ``headers`` is null for a record without
    any, as in Spark's own connector.
    """
    schema = schema_of(columns)
    decoding = _Decoding(buffer, (start_offset, INT64_MAX if end_offset is None else end_offset), options)
    decoding.scan(from_the_beginning=bool(aborted))
    decoding.select(aborted)
    decoding.load()
    # The name is repeated for each record, and has to fit 2 GiB like all other columns.
    decoding.parse("headers" in columns, min(_RECORDS_MAX, INT32_MAX // max(1, len(topic.encode()))))
    decoding.raise_if_stuck()
    notes = Notes(decoding.source, decoding.table, decoding.notes, decoding.noted)
    arrow_columns = ArrowColumns(notes, topic, partition)
    arrow_batch = pa.RecordBatch.from_arrays([arrow_columns.build(name) for name in schema.names], schema=schema)
    return Decoded(arrow_batch, decoding.next_offset, decoding.consumed_bytes, decoding.aborted_ahead(aborted))


class _Decoding:
    """One call's way through a buffer, step by step; each step may cut the work short. Owned by that call.

    Invariants: every batch before ``consumed_bytes``, and every offset before ``next_offset``, is decoded or holds
    nothing to decode; ``table`` has a row for each batch that is still to be decoded, in order.
    """

    def __init__(self, buffer: Buffer, offset_range: tuple[int, int], options: DecodeOptions) -> None:
        self.source = _read_only(buffer)
        self.table = np.empty((0, native.TABLE_COLUMNS), np.int64)
        self.notes = np.empty((native.NOTE_ROWS, 0), np.int64)
        self.noted = 0
        self._start_offset, self._end_offset = offset_range
        self.next_offset = self._start_offset
        self.consumed_bytes = 0
        self._buffer = buffer
        self._options = options
        self._scanned = self.table
        self._problem: CorruptBatchError | None = None
        self._ended: list[tuple[int, tuple[int, int]]] = []  # (file position of the marker, transaction)

    def scan(self, *, from_the_beginning: bool) -> None:
        """Find and prove the batches of the range; those before it too where markers among them have to be seen."""
        table = np.empty((native.count_batches(self.source), native.TABLE_COLUMNS), np.int64)
        rows, reason, self.consumed_bytes = native.scan_batches(
            self.source,
            table,
            0 if from_the_beginning else self._start_offset,
            self._end_offset,
            self._options.verify_crc,
        )
        self.table = self._scanned = table[:rows]
        self.next_offset = self._offset_after(rows)
        if reason == native.AT_END_OFFSET:
            self.next_offset = max(self._start_offset, self._end_offset)
        elif reason == native.AT_BAD_BATCH:
            self._problem = self._explain(self.consumed_bytes)
        elif MAGIC_AT < self.source.size - self.consumed_bytes < HEADER_BYTES:
            self._problem = self._of_another_format()

    def select(self, aborted: AbortedTransactions) -> None:
        """Leave out control batches and the records of aborted transactions."""
        is_aborted = self._aborted_batches(aborted) if aborted else np.zeros(len(self.table), np.bool_)
        is_data = self.table[:, native.ATTRIBUTES] & CONTROL_BIT == 0
        is_ahead = self.table[:, native.BASE_OFFSET] + self.table[:, native.LAST_DELTA] >= self._start_offset
        self.table = self.table[is_data & is_ahead & ~is_aborted[: len(self.table)]]

    def load(self) -> None:
        """Decompress what is compressed, so that the records of all batches lie in one source."""
        if (self.table[:, native.ATTRIBUTES] & COMPRESSION_MASK).any():
            self._decompress()
            return
        sums = np.cumsum(self.table[:, native.PAYLOAD_BYTES])
        fitting = max(1, int(np.searchsorted(sums, self._options.total_bytes_max, side="right")))
        if fitting < len(self.table):
            self._cut(fitting)

    def parse(self, with_headers: bool, records_max: int) -> None:
        """Walk the records and note where their fields lie."""
        counts = np.minimum(self.table[:, native.COUNT], self.table[:, native.PAYLOAD_BYTES] // RECORD_BYTES_MIN)
        capacity = min(int(counts.sum()), records_max)
        notes = np.empty((native.NOTE_ROWS, capacity), np.int64)
        offset_range = (self._start_offset, self._end_offset)
        walked, noted, no_room_for = native.parse_records(self.source, self.table, offset_range, with_headers, notes)
        self.notes, self.noted = notes, noted
        if no_room_for >= 0:
            self._cut(walked, next_offset=no_room_for)
        elif walked < len(self.table):
            self._cut(walked, self._explain(int(self.table[walked, native.AT])))

    def raise_if_stuck(self) -> None:
        """Raise what stopped the decoding if nothing came before it."""
        if self._problem is not None and self.next_offset <= self._start_offset:
            raise self._problem

    def _offset_after(self, rows: int) -> int:
        """The next offset after so many of the scanned batches."""
        if rows == 0:
            return self._start_offset
        last = self._scanned[rows - 1]
        after = int(last[native.BASE_OFFSET] + last[native.LAST_DELTA]) + 1
        return max(self._start_offset, min(after, self._end_offset))

    def _cut(self, row: int, problem: CorruptBatchError | None = None, *, next_offset: int | None = None) -> None:
        """End the work before the batch in this row of ``table``, or within it, before ``next_offset``."""
        at = int(self.table[row, native.AT])
        self.consumed_bytes = at
        if next_offset is None:
            self.next_offset = self._offset_after(int(np.searchsorted(self._scanned[:, native.AT], at)))
            self.table = self.table[:row]
        else:
            self.next_offset = next_offset
            self.table = self.table[: row + 1]
        self._problem = problem

    def aborted_ahead(self, aborted: AbortedTransactions) -> AbortedTransactions:
        """Those whose end was not among the bytes that were consumed."""
        ended = {transaction for at, transaction in self._ended if at < self.consumed_bytes}
        return tuple(transaction for transaction in aborted if tuple(transaction) not in ended)

    def _aborted_batches(self, aborted: AbortedTransactions) -> Any:
        """Which batches an aborted transaction wrote: from its first offset to the marker that ends it."""
        upcoming = sorted(((first_offset, producer) for producer, first_offset in aborted), reverse=True)
        first_offsets: dict[int, int] = {}  # of the producers whose aborted transaction is open
        result = np.zeros(len(self.table), np.bool_)
        fields = self.table[:, [native.BASE_OFFSET, native.LAST_DELTA, native.PRODUCER, native.ATTRIBUTES, native.AT]]
        for row, (base_offset, last_delta, producer, attributes, at) in enumerate(fields.tolist()):
            while upcoming and upcoming[-1][0] <= base_offset + last_delta:
                first_offset, opened = upcoming.pop()
                first_offsets[opened] = first_offset
            if producer not in first_offsets or not attributes & TRANSACTIONAL_BIT:
                continue
            if not attributes & CONTROL_BIT:
                result[row] = True
                continue
            try:
                ends_in_abort = self._control_type(row) is ControlType.ABORT
            except CorruptBatchError as error:
                self._cut(row, error)
                break
            if ends_in_abort:
                self._ended.append((at, (producer, first_offsets.pop(producer))))
        return result

    def _control_type(self, row: int) -> ControlType | None:
        at, size = self.table[row, [native.AT, native.SIZE]].tolist()
        markers = read_records(memoryview(self._buffer)[at : at + size])
        return read_control_type(markers[0]) if markers else None

    def _decompress(self) -> None:
        """Lay the payloads of all batches side by side, decompressed."""
        parts: list[Any] = []
        total = 0
        stored = memoryview(self._buffer)
        fields = self.table[:, [native.PAYLOAD_AT, native.PAYLOAD_BYTES, native.ATTRIBUTES]]
        for row, (payload_at, payload_bytes, attributes) in enumerate(fields.tolist()):
            codec = Compression(attributes & COMPRESSION_MASK)
            part: Buffer = stored[payload_at : payload_at + payload_bytes]
            try:
                if payload_bytes:  # compaction may have taken every record, and the codec's frame with them
                    part = decompress(codec, part, limit_bytes=self._options.batch_bytes_max)
            except CorruptBatchError as error:
                offset = self.table[row, native.BASE_OFFSET]
                self._cut(row, CorruptBatchError(f"record batch at offset {offset}: {error}"))
                break
            if parts and total + len(part) > self._options.total_bytes_max:
                self._cut(row)
                break
            self.table[row, native.PAYLOAD_AT], self.table[row, native.PAYLOAD_BYTES] = total, len(part)
            parts.append(part)
            total += len(part)
        self.source = _read_only(b"".join(parts))

    def _of_another_format(self) -> CorruptBatchError | None:
        """The error of a tail that is shorter than any batch: none, unless Kafka before 0.11 wrote it."""
        magic = int(self.source[self.consumed_bytes + MAGIC_AT])
        if magic >= MAGIC:
            return None
        return CorruptBatchError(f"record batch at file position {self.consumed_bytes}: {other_magic(magic)}")

    def _explain(self, at: int) -> CorruptBatchError:
        """The error of the batch at this file position, from the plain reader."""
        try:
            header = read_header(self._buffer, at)
            verify(self._buffer, at, header)
            batch = memoryview(self._buffer)[at : at + header.size_bytes]
            read_records(batch, limit_bytes=self._options.batch_bytes_max)
        except CorruptBatchError as error:
            return error
        return CorruptBatchError(f"record batch at file position {at}: its offset {header.base_offset} goes back")


def _read_only(buffer: Buffer) -> Any:
    """The buffer as an array; read-only, as that is what the kernels are compiled for."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array
