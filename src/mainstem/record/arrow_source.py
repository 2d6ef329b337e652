"""Arrow columns in the native encoder's form: the address and the size of each value, -1 for null.

Contract: an inconsistent array (offsets outside its data) is refused here, because the encoder does not check it. The
addresses are valid as long as the ``Fields`` that carry them, which keep the array alive. Owned by one call.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa

from mainstem.errors import InputError

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
"""The type of a column of records' headers."""
_TEXT_OR_BYTES = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_string_view,
    pa.types.is_null,
)


class Fields(NamedTuple):
    """A column's values in memory. ``array`` is there to keep them alive."""

    addresses: Any
    sizes: Any
    array: Any


def fields_of(column: Any, what: str) -> Fields:
    """The values of a column of bytes or text of any of Arrow's types, chunked or not.

    Raises InputError for another type or an array that contradicts itself; ``what`` names the column there.
    """
    if not any(is_type(column.type) for is_type in _TEXT_OR_BYTES):
        raise InputError(f"{what} are of type {column.type}; bytes or text are needed")
    array = _one_array(column.cast(pa.large_binary()))
    offsets = _integers(array.buffers()[1], array.offset, len(array) + 1)
    data = array.buffers()[2]
    sizes = np.diff(offsets)
    if len(array) and (offsets[0] < 0 or sizes.min() < 0 or offsets[-1] > (0 if data is None else data.size)):
        raise InputError(f"{what}: the array's offsets are outside its data")
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return Fields(offsets[:-1] + (0 if data is None else data.address), sizes, array)


def no_fields(count: int) -> Fields:
    """A column of nulls."""
    return Fields(np.zeros(count, np.int64), np.full(count, -1, np.int64), None)


class HeaderFields(NamedTuple):
    """Of each record the range [first, end) of its headers; of each header its name and value."""

    first: Any
    end: Any
    names: Fields
    values: Fields


def header_fields_of(column: Any) -> HeaderFields:
    """The headers of a column of ``list<struct<key, value>>``; null is none.

    Raises InputError for another type, or for a header without a name.
    """
    if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
        raise InputError(f"headers are of type {column.type}; list<struct<key: string, value: binary>> is needed")
    array = _one_array(column)
    entries = array.values
    if entries.null_count or entries.type.num_fields != 2:
        raise InputError("a header is a struct of key and value, and never null")
    names = fields_of(entries.field(0), "header keys")
    values = fields_of(entries.field(1), "header values")
    offsets = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(offsets)
    if len(array) and (offsets[0] < 0 or counts.min() < 0 or offsets[-1] > len(entries)):
        raise InputError("headers: the array's offsets are outside its data")
    if array.null_count:
        counts[array.is_null().to_numpy(zero_copy_only=False)] = 0
    if len(names.sizes) and names.sizes.min() < 0:
        raise InputError("a header has no key")
    return HeaderFields(offsets[:-1], offsets[:-1] + counts, names, values)


def no_headers(count: int) -> HeaderFields:
    """A column of records without headers."""
    none = np.zeros(count, np.int64)
    return HeaderFields(none, none, no_fields(0), no_fields(0))


def times_of(times: Any, count: int) -> Any:
    """Milliseconds for each record from a column of integers, from one number, or from None, which is -1: no time."""
    if times is None:
        return np.full(count, -1, np.int64)
    if isinstance(times, int):
        return np.full(count, times, np.int64)
    array = times if isinstance(times, np.ndarray) else _one_array(times.cast(pa.int64())).fill_null(-1).to_numpy()
    if array.dtype.kind != "i":
        raise InputError(f"timestamps are of type {array.dtype}; milliseconds as integers are needed")
    return array.astype(np.int64, copy=False)


def _one_array(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _integers(buffer: Any, start: int, count: int) -> Any:
    if buffer is None or buffer.size == 0:
        return np.zeros(count, np.int64)
    if buffer.size < (start + count) * 8:
        raise InputError("an Arrow array whose offsets are cut off")
    return np.frombuffer(buffer, np.int64, count=count, offset=start * 8)
