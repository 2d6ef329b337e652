"""Encoded values as JSON objects, and JSON objects as encoded values: for all that reads and writes JSON.

``JsonValues.of`` gives a value that cannot be read as it is, and says why in ``errors``. Pure but for the schemas.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.avro_columns import arrow_schema
from mainstem.encodings.frames import with_frames
from mainstem.encodings.value_decoder import SchemaDecoder
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import SchemaError
from mainstem.record.native.native_json import GOOD
from mainstem.schema.arrow_json import json_objects
from mainstem.schema.json_columns import JsonField, decode, reason
from mainstem.schema.types import TopicSchema


class JsonValues(NamedTuple):
    """Values as JSON (binary, null for a tombstone), and why one is not (string, null where it is)."""

    values: pa.Array
    errors: pa.Array


def json_values(values: pa.Array, headers: pa.Array | None, columns: TopicSchema, decoder: SchemaDecoder) -> JsonValues:
    """Each value as a JSON object of the columns. Raises LogUnavailableError without the schemas."""
    framed = values if headers is None else with_frames(values, headers)
    count = len(values)
    alive = pa.array(np.flatnonzero(np.asarray(framed.is_valid())))
    whole = framed if len(alive) == count else framed.take(alive)
    rows = decoder.decode(whole, arrow_schema(columns))
    texts = json_objects(rows.arrow_batch).cast(pa.binary())
    errors: dict[int, str] = {}
    if rows.fits is not None:
        for row in np.flatnonzero(~np.asarray(rows.fits)).tolist():
            errors[row] = decoder.reason(whole[row].as_py()) if _is_refused(rows.is_object, row) else _MISFIT
        bad = pa.array(np.isin(np.arange(len(whole)), list(errors)))
        raw = (values if len(alive) == count else values.take(alive)).filter(bad)
        texts = pc.replace_with_mask(texts, bad, raw)
    said = pa.array([errors.get(row) for row in range(len(whole))], pa.string()) if errors else None
    said = pa.nulls(len(whole), pa.string()) if said is None else said
    if len(alive) == count:
        return JsonValues(texts, said)
    places = np.full(count, -1, np.int64)
    places[np.asarray(alive)] = np.arange(len(alive))
    taken = pa.array(places, mask=places < 0)
    return JsonValues(texts.take(taken), said.take(taken))


_MISFIT = "a field of the value does not fit its column: the schema that it was written with has another type"


def _is_refused(is_object: pa.Array | None, row: int) -> bool:
    return is_object is not None and not is_object[row].as_py()


def encoded_values(values: pa.Array, encoder: ValueEncoder) -> pa.Array:
    """JSON objects (text or bytes, null for a tombstone) as encoded values. Raises SchemaError, which names the value.

    A single value is not numbered: its caller knows which one it is.
    """
    fields = [JsonField(field.name, field.type) for field in arrow_schema(encoder.columns)]
    decoded = decode(values, fields)
    valid = np.asarray(values.is_valid())
    bad = np.flatnonzero(valid & (decoded.verdicts != GOOD))
    if len(bad):
        value = values[int(bad[0])].as_py()
        data = value.encode() if isinstance(value, str) else value
        raise SchemaError(numbered(int(bad[0]), values) + reason(data, int(decoded.verdicts[bad[0]])))
    for number, column in enumerate(decoded.columns):
        if column.misfits is not None and column.misfits.any():
            row = int(np.flatnonzero(column.misfits)[0])
            name = encoder.columns.columns[number]
            shown = f"column {name.name!r}: {decoded.shown(number, row)} is not {name.type}"
            raise SchemaError(numbered(row, values) + shown)
    arrays = [column.array for column in decoded.columns]
    rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(encoder.columns))
    encoded = encoder.encode(rows)
    return encoded if valid.all() else pc.if_else(pa.array(valid), encoded, pa.scalar(None, pa.binary()))


def numbered(row: int, values: Sized) -> str:
    """The beginning of an error about one of several values; empty where it is the only one."""
    return f"value {row + 1}: " if len(values) > 1 else ""
