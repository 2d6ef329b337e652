"""JSON values into the rows of a typed read: ``schema.json_columns``, as a task's decoder. Pure; safe from any thread.

Contract: one row for each value. A value that is not one JSON object gives a row of nulls, and ``is_object`` says so;
``fits`` says of which rows every value that the columns ask for fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from mainstem.record.native.native_json import GOOD
from mainstem.schema.json_columns import JsonField, decode, reason

NO_MISFITS: Final[Mapping[str, int]] = MappingProxyType({})


class DecodedRows(NamedTuple):
    """The rows, and which of them (boolean arrays; None: all) came from an object, and from one that fits.

    ``misfits``: how many values do not fit, by column, as far as the format's decoder knows them.
    """

    arrow_batch: pa.RecordBatch
    is_object: pa.Array | None
    fits: pa.Array | None
    misfits: Mapping[str, int] = NO_MISFITS


class JsonDecoder(NamedTuple):
    """JSON as a way to decode values; see ``typed_scan.ValueDecoder``."""

    @property
    def reads_headers(self) -> bool:
        """Headers say nothing about how a value is read."""
        return False

    @property
    def refusal(self) -> str:
        """The end of an error's sentence about a value that is not read."""
        return "is not a JSON object"

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """``decode_json``."""
        return decode_json(values, schema)

    def reason(self, value: bytes) -> str:
        """Why a value is not read."""
        return reason(value, int(decode(pa.array([value], pa.binary()), []).verdicts[0]))


def decode_json(values: pa.Array, schema: pa.Schema) -> DecodedRows:
    """Read ``values`` (binary) into the columns of ``schema``."""
    decoded = decode(values, [JsonField(field.name, field.type) for field in schema])
    arrays = [column.array for column in decoded.columns]
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else without_columns(len(values))
    named = zip(schema.names, decoded.columns, strict=True)
    misfits = {name: column.misfits for name, column in named if column.misfits is not None}
    if decoded.all_good and not misfits:
        return DecodedRows(rows, None, None)
    is_object = decoded.verdicts == GOOD
    fits = is_object.copy()
    for each in misfits.values():
        fits &= ~each
    counts = {name: int((each & is_object).sum()) for name, each in misfits.items()}
    return DecodedRows(rows, pa.array(is_object), pa.array(fits), counts)


def without_columns(count: int) -> pa.RecordBatch:
    """So many rows of no columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
