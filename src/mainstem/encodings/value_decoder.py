"""Values of registered schemas into typed Arrow columns: a row for each value, by the schema that its frame names.

The schema's own format decides how a value is read, whatever the topic's encoding is by now. Fields go to columns by
name. A value without a frame is read as JSON: a topic of JSON values may become an encoded one, and a lake or a dead
letter that has a value as JSON can be read and appended again. A value that is damaged, or whose schema is not known,
gives a row of nulls, and ``is_object`` says so.

Contract: pure but for the schemas, which are asked for by id; as thread-safe as they are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from mainstem.encodings.frames import Framed, SchemaId, behind_frames, by_schema, schema_id_of
from mainstem.encodings.protobuf.protobuf_decode import decode_messages, reason_of_message
from mainstem.encodings.writer_schemas import WriterSchema
from mainstem.errors import SchemaError
from mainstem.record.native.native_json import GOOD
from mainstem.schema.avro import AvroType, parse_avro
from mainstem.schema.avro_decode import decode_records, reason_of, together, unreadable
from mainstem.schema.json_columns import NO_VALUE, decode, reason
from mainstem.schema.json_rows import DecodedRows, decode_json

_ANY_READER: Final = AvroType("record")
"""The reader's side of Avro's schema resolution: columns by name, null where the writer has no such field."""
_parsed = functools.lru_cache(maxsize=256)(parse_avro)


class Schemas(Protocol):
    """Where schemas are looked up."""

    def schema(self, schema_id: SchemaId) -> WriterSchema | None:
        """The schema of an id; None for an unknown id."""


@dataclass(frozen=True, slots=True)
class SchemaDecoder:
    """Decodes values by the schemas of a registry."""

    schemas: Schemas

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """Read ``values`` (binary, none null) into the columns of ``schema``."""
        blocks, order = [], []
        for group in by_schema(values):
            chosen = values if len(group.rows) == len(values) else values.take(pa.array(group.rows))
            blocks.append(self._block(chosen, group, schema))
            order.append(group.rows)
        return together(blocks, order, schema)

    def reason(self, value: bytes) -> str:
        """Why a value is not read."""
        schema_id, frame_bytes = schema_id_of(value)
        if schema_id is None:
            return _reason_of_json(value, "the value begins with no schema id, and ")
        writer = self.schemas.schema(schema_id)
        if writer is None:
            return f"the schema registry has no schema {schema_id} that can be read; register it, and append again"
        if writer.schema_type == "JSON":
            return _reason_of_json(value[frame_bytes:], "")
        if writer.schema_type == "PROTOBUF":
            return f"{reason_of_message(value[frame_bytes:], writer.text)} (schema {schema_id})"
        try:
            record = _parsed(writer.text)
        except SchemaError as error:
            return f"schema {schema_id} of type {writer.schema_type} does not make columns: {error}"
        return f"{reason_of(value[frame_bytes:], record)} (schema {schema_id})"

    def _block(self, values: pa.Array, group: Framed, schema: pa.Schema) -> DecodedRows:
        if group.schema_id is None:
            return decode_json(values, schema)
        writer = self.schemas.schema(group.schema_id)
        if writer is None:
            return unreadable(len(values), schema)
        if writer.schema_type == "JSON":
            return decode_json(behind_frames(values, group.frame_bytes), schema)
        if writer.schema_type == "PROTOBUF":
            return decode_messages(values, group.frame_bytes, writer.text, schema)
        try:
            record = _parsed(writer.text)
        except SchemaError:
            return unreadable(len(values), schema)
        return decode_records(values, group.frame_bytes, record, _ANY_READER, schema)


def _reason_of_json(value: bytes, opening: str) -> str:
    verdict = int(decode(pa.array([value], pa.binary()), []).verdicts[0])
    if verdict in (GOOD, NO_VALUE):
        return "the value does not fit its columns"
    said = reason(value, verdict)
    if not opening:
        return said
    return opening + said.removeprefix("the value ").replace("is not JSON", "it is not JSON", 1)
