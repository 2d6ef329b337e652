"""The Arrow columns of decoded records, built from the native decoder's notes without a second copy.

Each buffer is a numpy array of exactly the size that is needed, wrapped as it is. All data of one column fits 2 GiB,
which the caller sees to, so ``binary`` and ``string`` with their 32-bit offsets suffice. Owned by one call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mainstem.errors import CorruptBatchError, InputError
from mainstem.record.constants import LOG_APPEND_TIME_BIT
from mainstem.record.native import native_decode as native

_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field(
            "headers",
            pa.list_(_HEADER),
        ),
    ]
)
COLUMNS = frozenset(SCHEMA.names)


@lru_cache(maxsize=64)
def schema_of(columns: frozenset[str]) -> Any:
    """The Arrow schema of these columns, in the order of ``SCHEMA``. Raises InputError for one that does not exist."""
    if unknown := columns - COLUMNS:
        raise InputError(f"no such column of a record: {', '.join(sorted(unknown))}")
    return pa.schema([field for field in SCHEMA if field.name in columns])


class Notes(NamedTuple):
    """Where the fields of ``record_count`` records lie in ``source``; ``table`` has the records' batches."""

    source: Any
    table: Any
    rows: Any
    record_count: int

    def row(self, index: int) -> Any:
        """One note on all records."""
        return self.rows[index, : self.record_count]


class ArrowColumns:
    """Builds one column after the other from the native decoder's notes."""

    def __init__(self, notes: Notes, topic: str, partition: int) -> None:
        self._notes = notes
        self._count = notes.record_count
        self._topic = topic
        self._partition = partition
        self._builders = {
            "key": self._keys,
            "value": self._values,
            "topic": self._topics,
            "partition": self._partitions,
            "offset": self._offsets,
            "timestamp": self._timestamps,
            "timestamp_type": self._timestamp_types,
            "headers": self._headers,
        }

    def build(self, name: str) -> Any:
        """The column of this name in ``SCHEMA``."""
        return self._builders[name]()

    def _keys(self) -> Any:
        return self._bytes(native.KEY_AT, native.KEY_SIZE)

    def _values(self) -> Any:
        return self._bytes(native.VALUE_AT, native.VALUE_SIZE)

    def _bytes(self, places: int, sizes: int) -> Any:
        return _variable(pa.binary(), self._notes.source, self._notes.row(places), self._notes.row(sizes))

    def _topics(self) -> Any:
        name = np.frombuffer(self._topic.encode(), np.uint8)
        offsets = np.arange(self._count + 1, dtype=np.int32) * np.int32(name.size)
        return _assemble(pa.string(), self._count, [None, offsets, np.tile(name, self._count)])

    def _partitions(self) -> Any:
        return _assemble(pa.int32(), self._count, [None, np.full(self._count, self._partition, np.int32)])

    def _offsets(self) -> Any:
        return _assemble(pa.int64(), self._count, [None, self._notes.row(native.OFFSET).copy()])

    def _timestamps(self) -> Any:
        return _assemble(pa.timestamp("us", tz="UTC"), self._count, [None, self._notes.row(native.TIMESTAMP).copy()])

    def _timestamp_types(self) -> Any:
        types = (self._notes.table[:, native.ATTRIBUTES] & LOG_APPEND_TIME_BIT != 0).astype(np.int32)
        return _assemble(pa.int32(), self._count, [None, np.repeat(types, self._notes.table[:, native.COUNT])])

    def _headers(self) -> Any:
        counts = self._notes.row(native.HEADER_COUNT)
        total = int(np.maximum(counts, 0).sum())
        notes = np.empty((native.HEADER_NOTE_ROWS, total), np.int64)
        if not native.note_headers(self._notes.source, self._notes.rows, self._count, notes):
            raise CorruptBatchError("the buffer changed while it was being decoded")
        names = _variable(pa.string(), self._notes.source, notes[native.NAME_AT], notes[native.NAME_SIZE])
        values = _variable(pa.binary(), self._notes.source, notes[native.HEADER_AT], notes[native.HEADER_SIZE])
        entries = pa.StructArray.from_arrays([_utf8(names), values], fields=list(_HEADER))
        offsets, validity, nulls = _offsets_of(counts)
        return _assemble(pa.list_(_HEADER), self._count, [validity, offsets], nulls, [entries])


def _offsets_of(sizes: Any) -> tuple[Any, Any, int]:
    """Arrow's offsets, validity bits (None when nothing is null) and number of nulls; a size of -1 is null."""
    offsets = np.empty(sizes.size + 1, np.int32)
    validity = np.full((sizes.size + 7) // 8, 0xFF, np.uint8)
    nulls = native.fill_offsets(sizes, offsets, validity)
    return offsets, validity if nulls else None, nulls


def _variable(arrow_type: Any, source: Any, places: Any, sizes: Any) -> Any:
    """A column of bytes or text, copied together from where the notes say."""
    offsets, validity, nulls = _offsets_of(sizes)
    data = np.empty(int(offsets[-1]), np.uint8)
    native.copy_fields(source, places, offsets, data)
    return _assemble(arrow_type, sizes.size, [validity, offsets, data], nulls)


def _utf8(names: Any) -> Any:
    """The same text, with replacement characters where it is not UTF-8: Arrow's readers rely on it."""
    data = np.frombuffer(names.buffers()[2], np.uint8)
    if data.size == 0 or int(data.max()) < 0x80:
        return names
    return pa.array([name.decode("utf-8", "replace") for name in names.cast(pa.binary()).to_pylist()], pa.string())


def _assemble(
    arrow_type: Any, count: int, buffers: list[Any], nulls: int = 0, children: list[Any] | None = None
) -> Any:
    """Wrap numpy arrays as an Arrow array, without copying."""
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(arrow_type, count, wrapped, nulls, children=children)
