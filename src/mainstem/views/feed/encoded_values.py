"""Keys and values of an encoded topic as text and JSON, for stores, which read these alone.

A batch gets its values as JSON objects of the topic's columns, its keys as the text that they would be in a topic whose
keys are text; columns say of a record why its key or value cannot be read, which is then as it was. Thread-safe, as the
schemas are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.schema.types import TopicSchema
from mainstem.schemas_topic.frames import KEY_HEADER, VALUE_HEADER
from mainstem.views.stores.store import KEY_ERROR, VALUE_ERROR

if TYPE_CHECKING:
    from mainstem.encodings.key_decoder import KeyDecoder
    from mainstem.encodings.value_decoder import SchemaDecoder


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """How the values of a topic are read: its columns, and the schemas of its writers; None: they are JSON.

    ``keys``: how its keys are read; None: they are text.
    """

    columns: TopicSchema | None
    decoder: SchemaDecoder | None
    keys: KeyDecoder | None = None

    def as_json(self, arrow_batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, which has headers, with its keys as text and its values as JSON. Raises LogUnavailableError."""
        from mainstem.encodings.frames import without_frames  # loads native kernels, which JSON does not need

        headers, read = arrow_batch.column("headers"), arrow_batch
        if self.keys is not None:
            read = self._with_keys(read, headers)
        if self.decoder is not None and self.columns is not None:
            read = self._with_values(read, headers)
        if headers.null_count == read.num_rows:
            return read
        names = [name for name, reader in ((KEY_HEADER, self.keys), (VALUE_HEADER, self.decoder)) if reader is not None]
        return _with(read, "headers", without_frames(headers, *names))

    def _with_keys(self, arrow_batch: pa.RecordBatch, headers: pa.Array) -> pa.RecordBatch:
        assert self.keys is not None
        keys, errors = self.keys.texts(arrow_batch.column("key"), headers)
        read = _with(arrow_batch, "key", keys)
        if not errors:
            return read
        return read.append_column(KEY_ERROR, pa.array([errors.get(row) for row in range(len(keys))], pa.string()))

    def _with_values(self, arrow_batch: pa.RecordBatch, headers: pa.Array) -> pa.RecordBatch:
        from mainstem.encodings.json_values import json_values

        assert self.decoder is not None
        assert self.columns is not None
        found = json_values(arrow_batch.column("value"), headers, self.columns, self.decoder)
        read = _with(arrow_batch, "value", found.values)
        return read if found.errors.null_count == len(found.errors) else read.append_column(VALUE_ERROR, found.errors)


def _with(arrow_batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = arrow_batch.schema.get_field_index(name)
    return arrow_batch.set_column(at, arrow_batch.schema.field(at), column)
