"""Key columns, or the text of keys, into the encoded keys of a topic. Immutable values; they pickle.

Equal keys have equal bytes: every key of a topic is written with one schema (``encoders.key_encoder_of``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import SchemaError
from mainstem.record.native.native_json import ESCAPED
from mainstem.schema.json_columns import Cells, Column, JsonField, decode, key_column


@dataclass(frozen=True, slots=True)
class KeyEncoder:
    """How a topic's keys are written. ``names``: its key columns in order; the encoder's may be in another."""

    topic: str
    names: tuple[str, ...]
    encoder: ValueEncoder

    def encode(self, arrow_batch: pa.RecordBatch) -> pa.Array:
        """The key of each row (binary). Raises SchemaError for a row with a null in its key."""
        columns = {name: arrow_batch.column(name) for name in self.names}
        for name, column in columns.items():
            if column.null_count:
                raise SchemaError(f"topic {self.topic}: key column {name!r} is null in {column.null_count} rows")
        return self.encoder.encode(pa.RecordBatch.from_pydict(columns))

    def encode_texts(self, keys: pa.Array) -> pa.Array:
        """Keys as text (binary or string) in the topic's encoding; null stays null. Raises SchemaError."""
        texts = keys.cast(pa.string())
        valid = np.asarray(texts.is_valid())
        chosen = texts if valid.all() else texts.filter(pa.array(valid))
        columns = [self._lone(chosen)] if len(self.names) == 1 else self._joint(chosen)
        for name, column in zip(self.names, columns, strict=True):
            if column.array.null_count:
                row = int(np.flatnonzero(np.asarray(column.array.is_null()))[0])
                kind = self.encoder.columns.column(name).type
                raise SchemaError(
                    f"topic {self.topic}: {chosen[row].as_py()[:100]!r} is not a key of it: {name} is {kind}"
                )
        arrays = [column.array for column in columns]
        encoded = self.encode(pa.RecordBatch.from_arrays(arrays, names=list(self.names)))
        return encoded if valid.all() else encoded.take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def _kind(self, name: str) -> pa.DataType:
        from mainstem.encodings.avro_columns import arrow_schema

        return arrow_schema(self.encoder.columns).field(name).type

    def _lone(self, texts: pa.Array) -> Column:
        quoted = pa.array([json.dumps(text, ensure_ascii=False).encode() for text in texts.to_pylist()], pa.binary())
        _, offsets, data = quoted.buffers()
        at = np.frombuffer(offsets, np.int32).astype(np.int64)[: len(quoted) + 1]
        source = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        source.flags.writeable = False
        kinds = np.full(len(quoted), ESCAPED, np.uint8)
        return key_column(Cells(source, at[:-1].copy(), at[1:].copy(), kinds), self._kind(self.names[0]))

    def _joint(self, texts: pa.Array) -> list[Column]:
        rows: list[Any] = []
        for text in texts.to_pylist():
            try:
                parts = json.loads(text)
            except (ValueError, RecursionError):
                parts = None
            if not isinstance(parts, list) or len(parts) != len(self.names):
                raise SchemaError(
                    f"topic {self.topic}: {text[:100]!r} is not a key of it: use a JSON array: {', '.join(self.names)}"
                )
            rows.append(json.dumps(dict(zip(self.names, parts, strict=True))))
        fields = [JsonField(name, self._kind(name)) for name in self.names]
        return decode(pc.cast(pa.array(rows, pa.string()), pa.binary()), fields).columns
