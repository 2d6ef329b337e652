"""Nulls that Protobuf has no form of: those inside of arrays and maps. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa
import pyarrow.compute as pc


class RefusedRows(NamedTuple):
    """Rows (a numpy array of booleans) that an encoding has no form of, and why."""

    rows: Any
    reason: str


def inner_nulls(arrow_batch: pa.RecordBatch) -> Iterator[RefusedRows]:
    """The rows with a null inside of an array or map, by column."""
    for field, column in zip(arrow_batch.schema, arrow_batch.columns, strict=True):
        for word, rows in _found(column):
            reason = f"column {field.name!r} cannot be written as Protobuf: {word} has a null in it"
            yield RefusedRows(rows, f"{reason}, which Protobuf does not have")


def _found(column: pa.Array) -> Iterator[tuple[str, Any]]:
    kind = column.type
    if pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _found(part)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        word = "an array"
        if pa.types.is_map(kind):
            word, column = "a map", column.cast(pa.list_(pa.struct([("k", kind.key_type), ("v", kind.item_type)])))
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
        parents = np.repeat(np.arange(len(column)), lengths)
        values = column.flatten() if word == "an array" else column.flatten().flatten()[1]
        if values.null_count:
            yield word, _rows(parents, np.asarray(values.is_null()), len(column))
        for inner, elements in _found(values):
            yield inner, _rows(parents, elements, len(column))


def _rows(parents: Any, chosen: Any, count: int) -> Any:
    rows = np.zeros(count, np.bool_)
    rows[parents[chosen]] = True
    return rows
