"""JSON values into the rows of a typed read: ``schema.json_columns``, as a task's decoder. Pure; safe from any thread.

Contract: one row for each value. A value that is not one JSON object gives a row of nulls, and ``is_object`` says so;
``fits`` says of which rows every value that the columns ask for fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from mainstem.record.native.native_json import GOOD
from mainstem.schema.json_columns import JsonField, decode, reason


class DecodedRows(NamedTuple):
    """The rows, and which of them (boolean arrays; None: all) came from an object, and from one that fits.

    ``misfits``: the columns with values that do not fit, as far as the format's decoder knows them.
    """

    arrow_batch: pa.RecordBatch
    is_object: pa.Array | None
    fits: pa.Array | None
    misfits: tuple[str, ...] = ()


class JsonDecoder(NamedTuple):
    """JSON as a way to decode values; see ``typed_scan.ValueDecoder``."""

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
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _without_columns(values, schema)
    misfits = [column.misfits for column in decoded.columns if column.misfits is not None]
    if decoded.all_good and not misfits:
        return DecodedRows(rows, None, None)
    is_object = decoded.verdicts == GOOD
    fits = is_object.copy()
    for each in misfits:
        fits &= ~each
    names = [name for name, column in zip(schema.names, decoded.columns, strict=True) if column.misfits is not None]
    return DecodedRows(rows, pa.array(is_object), pa.array(fits), tuple(names))


def _without_columns(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    return pa.table({"none": pa.nulls(len(values))}).select([]).cast(schema).to_batches()[0]
