"""Columns into the values of an encoded topic, each after the frame of its schema. Immutable values; they pickle."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.avro_columns import arrow_schema
from mainstem.encodings.avro_encode import encode
from mainstem.encodings.column_numbers import column_of
from mainstem.encodings.protobuf.protobuf_encode import encode_messages
from mainstem.encodings.protobuf.protobuf_messages import FIRST_MESSAGE
from mainstem.encodings.protobuf.protobuf_nulls import RefusedRows, inner_nulls
from mainstem.errors import SchemaError
from mainstem.record.arrow_source import HEADERS
from mainstem.schema.arrow_json import json_objects
from mainstem.schema.avro import parse_avro
from mainstem.schema.json_columns import JsonField, decode
from mainstem.schema.types import TopicSchema
from mainstem.schemas_topic.frames import VALUE_HEADER, frame_of, guid_frame_of

_parsed = functools.lru_cache(maxsize=64)(parse_avro)


@dataclass(frozen=True, slots=True)
class ValueEncoder:
    """How a topic's values are written: the encoding, the registered schema and its id, the topic's columns.

    ``text`` is the schema as ``WriterSchema`` has it. With a ``guid``, the schema's global id, values begin with that
    instead of the id; with ``in_header``, the record has it in a header, and the value is bare.
    """

    encoding: str
    text: str
    schema_id: int
    columns: TopicSchema
    guid: str | None = None
    in_header: bool = False

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The headers of each record with a value: the frame, where it is not in the value."""
        return ((VALUE_HEADER, self._frame),) if self.in_header else ()

    def headers_column(self, count: int) -> pa.Array | None:
        """The headers of ``count`` records with values, equal for all; None where they need none."""
        if not self.in_header:
            return None
        headers = [{"key": name, "value": value} for name, value in self.headers]
        return pa.repeat(pa.scalar(headers, HEADERS), count)

    @property
    def _frame(self) -> bytes:
        frame = frame_of(self.schema_id) if self.guid is None else guid_frame_of(self.guid)
        return frame + FIRST_MESSAGE if self.encoding == "protobuf" else frame

    def encode(self, arrow_batch: pa.RecordBatch) -> pa.Array:
        """A value for each row (binary). Raises SchemaError, also for a row that the encoding has no form of."""
        found = self.encode_some(arrow_batch)
        for refused in found.refused:
            raise SchemaError(refused.reason)
        return found.values

    def encode_some(self, arrow_batch: pa.RecordBatch, json_columns: frozenset[str] = frozenset()) -> EncodedRowValues:
        """Values for the rows that the encoding has a form of. ``json_columns`` are JSON text already.

        Raises SchemaError.
        """
        frame = b"" if self.in_header else self._frame
        every = np.ones(arrow_batch.num_rows, np.bool_)
        if self.encoding == "json-schema":
            texts = json_objects(arrow_batch, json_columns=json_columns).cast(pa.binary())
            values = pc.binary_join_element_wise(pa.scalar(frame, pa.binary()), texts, pa.scalar(b"", pa.binary()))
            return EncodedRowValues(values, every, [])
        schema = arrow_schema(self.columns)
        for name in json_columns:
            arrow_batch = _with_parsed(arrow_batch, schema.field(name))
        arrow_batch = pa.RecordBatch.from_arrays([column_of(arrow_batch, field) for field in schema], schema=schema)
        if self.encoding == "avro":
            return EncodedRowValues(encode(arrow_batch, _parsed(self.text), frame), every, [])
        refused = []
        for rows, reason in inner_nulls(arrow_batch):
            refused.append(RefusedRows(rows & every, reason))
            every &= ~rows
        kept = arrow_batch.filter(pa.array(every)) if refused else arrow_batch
        return EncodedRowValues(encode_messages(kept, self.text, frame), every, refused)


class EncodedRowValues(NamedTuple):
    """The values of the rows that are ``kept`` (numpy booleans), and the others, each once, with the reason."""

    values: pa.Array
    kept: Any
    refused: list[RefusedRows]


def _with_parsed(arrow_batch: pa.RecordBatch, field: pa.Field) -> pa.RecordBatch:
    """The batch with a column of JSON text in its own type."""
    if pa.types.is_string(field.type):
        return arrow_batch
    number = arrow_batch.schema.get_field_index(field.name)
    texts = arrow_batch.column(number)
    values = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}", "")
    column = decode(values, [JsonField("v", field.type)]).columns[0].array
    return arrow_batch.set_column(number, field, column)
