"""Records of encoded topics for a comparison: keys of both sides as text, values as JSON of the topic's columns.

Bytes cannot be compared: a value names the schema that it was written with, and columns may have come since. A value
that cannot be read stays as it is, and differs. Runs in tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from mainstem.encodings.encoders import schema_text, writer_schema
from mainstem.encodings.frames import SchemaId
from mainstem.encodings.json_values import json_values
from mainstem.encodings.key_decoder import KeyDecoder
from mainstem.encodings.value_decoder import SchemaDecoder
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.encodings.writer_schemas import WriterSchema
from mainstem.schema.types import TopicSchema
from mainstem.spark.options.options import LogOptions
from mainstem.spark.tasks.encoded_decode import EncodedDecoder

_COLUMNS: Final = "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"


@dataclass(frozen=True, slots=True)
class _OneSchema:
    """The schema of what was just encoded, whatever its id."""

    writer: WriterSchema

    def schema(self, schema_id: SchemaId) -> WriterSchema:
        """The one schema."""
        return self.writer


def unregistered_encoder(topic: str, columns: TopicSchema, encoding: str) -> ValueEncoder:
    """An encoder for values that are not written, so that its schema needs no id."""
    return ValueEncoder(encoding, schema_text(topic, columns, encoding), 0, columns)


def values_as_json(values: pa.Array, encoder: ValueEncoder) -> pa.Array:
    """The values that the encoder has made, as JSON."""
    return json_values(values, None, encoder.columns, SchemaDecoder(_OneSchema(writer_schema(encoder)))).values


def records_as_json(
    records: DataFrame, columns: TopicSchema | None, key: TopicSchema | None, log: LogOptions
) -> DataFrame:
    """The records, which have headers, with their keys as text and their values as JSON, where they are encoded."""
    return records.mapInArrow(functools.partial(_as_json, columns=columns, key=key, log=log), _COLUMNS)


def _as_json(
    batches: Iterator[pa.RecordBatch], *, columns: TopicSchema | None, key: TopicSchema | None, log: LogOptions
) -> Iterator[pa.RecordBatch]:
    decoder = EncodedDecoder(log).value_decoder()
    for arrow_batch in batches:
        made = {name: arrow_batch.column(name) for name in ("key", "value", "partition", "offset", "timestamp")}
        if columns is not None:
            made["value"] = json_values(made["value"], arrow_batch.column("headers"), columns, decoder).values
        if key is not None:
            made["key"] = KeyDecoder(decoder.schemas, key).texts(made["key"], arrow_batch.column("headers")).keys
        yield pa.RecordBatch.from_pydict(made)
