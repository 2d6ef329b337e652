"""Columns into the values of an encoded topic, each behind the frame of its schema. Immutable values; they pickle."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.avro_columns import arrow_schema
from mainstem.encodings.avro_encode import encode
from mainstem.encodings.protobuf.protobuf_encode import encode_messages
from mainstem.schema.arrow_json import json_objects
from mainstem.schema.avro import parse_avro
from mainstem.schema.json_columns import JsonField, decode
from mainstem.schema.types import TopicSchema
from mainstem.schemas_topic.frames import frame_of

_parsed = functools.lru_cache(maxsize=64)(parse_avro)


@dataclass(frozen=True, slots=True)
class ValueEncoder:
    """How a topic's values are written: the encoding, the registered schema and its id, the topic's columns.

    ``text`` is the schema as ``WriterSchema`` has it.
    """

    encoding: str
    text: str
    schema_id: int
    columns: TopicSchema

    def encode(self, arrow_batch: pa.RecordBatch, json_columns: frozenset[str] = frozenset()) -> pa.Array:
        """A value for each row (binary). ``json_columns`` are JSON text already. Raises SchemaError."""
        frame = frame_of(self.schema_id)
        if self.encoding == "json-schema":
            texts = json_objects(arrow_batch, json_columns=json_columns).cast(pa.binary())
            return pc.binary_join_element_wise(pa.scalar(frame, pa.binary()), texts, pa.scalar(b"", pa.binary()))
        schema = arrow_schema(self.columns)
        for name in json_columns:
            arrow_batch = _with_parsed(arrow_batch, schema.field(name))
        if self.encoding == "protobuf":
            return encode_messages(arrow_batch, self.text, schema, frame)
        return encode(arrow_batch, _parsed(self.text), schema, frame)


def _with_parsed(arrow_batch: pa.RecordBatch, field: pa.Field) -> pa.RecordBatch:
    """The batch with a column of JSON text in its own type."""
    if pa.types.is_string(field.type):
        return arrow_batch
    number = arrow_batch.schema.get_field_index(field.name)
    texts = arrow_batch.column(number)
    values = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}", "")
    column = decode(values, [JsonField("v", field.type)]).columns[0].array
    return arrow_batch.set_column(number, field, column)
