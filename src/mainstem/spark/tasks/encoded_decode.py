"""Keys and values of encoded topics, as a task's decoder: schemas come from the registry in the log that is read.

A worker process keeps the schemas that it has asked for; a fork begins with none. See ``encodings.value_decoder``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from mainstem.encodings.key_decoder import KeyDecoder
from mainstem.encodings.value_decoder import SchemaDecoder
from mainstem.encodings.writer_schemas import WriterSchemas
from mainstem.registry.registry import registry_of
from mainstem.schema.json_rows import DecodedRows
from mainstem.spark.clients import opened
from mainstem.spark.options.options import LogOptions
from mainstem.spark.per_process import PerProcess

_KNOWN: PerProcess[dict[LogOptions, SchemaDecoder]] = PerProcess(dict)


@dataclass(frozen=True, slots=True)
class EncodedDecoder:
    """A ``typed_scan.ValueDecoder`` for values with schemas in the registry of a log."""

    log: LogOptions

    @property
    def refusal(self) -> str:
        """The end of an error's sentence about a value that is not read."""
        return "cannot be read by its schema"

    @property
    def reads_headers(self) -> bool:
        """A schema's id may be in a header."""
        return True

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """Read values into columns. Raises LogUnavailableError when a schema cannot be asked for."""
        return self.value_decoder().decode(values, schema)

    def reason(self, value: bytes) -> str:
        """Why a value is not read."""
        return self.value_decoder().reason(value)

    def value_decoder(self) -> SchemaDecoder:
        """The decoder of this process."""
        known = _KNOWN.value
        if self.log not in known:
            known[self.log] = SchemaDecoder(WriterSchemas(registry_of(opened(self.log))))
        return known[self.log]


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """A ``typed_scan.KeyTextReader`` for keys with schemas in the registry of a log."""

    log: LogOptions

    def with_texts(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records, which have headers, with their keys as text; one that cannot be read stays as it is."""
        decoder = KeyDecoder(EncodedDecoder(self.log).value_decoder().schemas)
        at = records.schema.get_field_index("key")
        texts = decoder.texts(records.column("key"), records.column("headers")).keys
        return records.set_column(at, records.schema.field(at), texts)
