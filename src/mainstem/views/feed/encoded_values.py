"""Values of an encoded topic as JSON, for stores, which read JSON alone.

A batch gets its values as JSON objects of the topic's columns, and a column ``error`` that says of a record why its
value cannot be read; the value is then as it was. Thread-safe, as the schemas are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.schema.types import TopicSchema
from mainstem.views.stores.store import VALUE_ERROR

if TYPE_CHECKING:
    from mainstem.encodings.value_decoder import SchemaDecoder


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """How the values of a topic are read: its columns, and the schemas of its writers."""

    columns: TopicSchema
    decoder: SchemaDecoder

    def as_json(self, arrow_batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, which has headers, with its values as JSON. Raises LogUnavailableError."""
        from mainstem.encodings.frames import without_frames  # loads native kernels, which JSON does not need
        from mainstem.encodings.json_values import json_values

        found = json_values(arrow_batch.column("value"), arrow_batch.column("headers"), self.columns, self.decoder)
        at = arrow_batch.schema.get_field_index("value")
        with_json = arrow_batch.set_column(at, arrow_batch.schema.field(at), found.values)
        if with_json.column("headers").null_count < with_json.num_rows:
            at = arrow_batch.schema.get_field_index("headers")
            headers = without_frames(arrow_batch.column("headers"))
            with_json = with_json.set_column(at, arrow_batch.schema.field(at), headers)
        if found.errors.null_count == len(found.errors):
            return with_json
        return with_json.append_column(VALUE_ERROR, found.errors)
