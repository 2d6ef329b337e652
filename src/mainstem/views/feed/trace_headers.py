"""Finds in a batch of records the headers that name their traces. Pure; columnar, as a batch may have many records."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.model import Headers

_RECORDS_MAX: Final = 256


def trace_headers(arrow_batch: pa.RecordBatch, names: frozenset[str]) -> tuple[Headers, ...]:
    """The headers of ``names`` in the records that have one: of 256 of these records, evenly over the batch."""
    column = arrow_batch.column("headers")
    entries = column.flatten()
    is_named = pc.is_in(pc.struct_field(entries, "key"), value_set=pa.array(sorted(names), pa.string()))
    rows = pc.unique(pc.list_parent_indices(column).filter(is_named)).to_pylist()
    every = -(-len(rows) // _RECORDS_MAX) or 1
    return tuple(_named(column[row].as_py(), names) for row in rows[::every])


def _named(entries: list[dict[str, object]], names: frozenset[str]) -> Headers:
    pairs = ((str(entry["key"]), entry["value"]) for entry in entries)
    return tuple((name, value) for name, value in pairs if name in names and isinstance(value, bytes))
