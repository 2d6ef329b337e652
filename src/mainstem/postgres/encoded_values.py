"""The values of a capture's topics in Avro, JSON Schema or Protobuf: written a batch at a time, read back one by one.

Rows are JSON until their batch is sent. Arrow and the encoders are loaded with the first topic that is encoded.
A value that its column's type cannot hold stands as PostgreSQL's text in the column ``_postgres``, which is null else.
Used by one thread.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mainstem.errors import SchemaError
from mainstem.postgres.rows import LEFT_OVER
from mainstem.record.constants import HEADER_BYTES, Compression
from mainstem.schema.types import Column, TopicSchema

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.encodings.value_encoder import ValueEncoder
    from mainstem.encodings.writer_schemas import WriterSchema
    from mainstem.record.writer import BatchBuilder, ProducerStamp


def encoded_schema(schema: TopicSchema) -> TopicSchema:
    """The columns of an encoded topic: those of its table, and one for what does not fit them."""
    return TopicSchema((*schema.columns, Column(LEFT_OVER, "STRING")))


class TopicEncoding:
    """Encodes and decodes the values of one topic."""

    def __init__(self, log: Log, topic: str, schema: TopicSchema, key: tuple[str, ...], encoding: str) -> None:
        """Registers ``schema``, the columns of the table. Raises SchemaError, DefinitionError."""
        from mainstem.encodings.encoders import encoder_of
        from mainstem.encodings.registration import register_topic
        from mainstem.encodings.value_decoder import SchemaDecoder
        from mainstem.encodings.writer_schemas import WriterSchemas
        from mainstem.registry.registry import registry_of

        columns = encoded_schema(schema)
        register_topic(log, topic, columns, key, encoding)
        self._topic = topic
        self._encoder: ValueEncoder = encoder_of(log, topic, columns, encoding)
        self._schemas = WriterSchemas(registry_of(log))
        self._decoder = SchemaDecoder(self._schemas)

    def build(self, batch: BatchBuilder, stamp: ProducerStamp, limit_bytes: int) -> list[bytes]:
        """The records of a batch with encoded values, as one batch or as several. Raises SchemaError."""
        import pyarrow.compute as pc

        from mainstem.encodings.json_values import encoded_values
        from mainstem.record.arrow_decode import decode
        from mainstem.record.arrow_encode import encode

        plain = batch.build(compression=Compression.NONE, producer=stamp._replace(is_transactional=False))
        columns = frozenset(("key", "value", "timestamp", "headers"))
        rows = decode(plain, topic=self._topic, partition=0, start_offset=0, columns=columns).arrow_batch
        try:
            values = encoded_values(rows.column("value"), self._encoder)
        except SchemaError as error:
            raise SchemaError(f"topic {self._topic}: {error}") from error
        timestamps_ms = pc.divide(rows.column("timestamp").cast("int64"), 1_000)
        return encode(
            rows.column("key"),
            values,
            timestamps_ms=timestamps_ms,
            headers=rows.column("headers"),
            compression=Compression.LZ4,
            max_batch_bytes=max(limit_bytes, HEADER_BYTES + 1),
            producer=stamp,
        )

    def row_of(self, value: bytes) -> bytes:
        """A value as the JSON object that was encoded; its fields are those of the schema that it was written with."""
        import pyarrow as pa

        from mainstem.encodings.frames import schema_id_of
        from mainstem.encodings.json_values import json_values

        schema_id, _ = schema_id_of(value)
        if schema_id is None:  # it is JSON, of before the topic was encoded
            return value
        written = self._schemas.schema(schema_id)
        names = set() if written is None else _names_of(written)
        columns = TopicSchema(tuple(column for column in self._encoder.columns.columns if column.name in names))
        read = json_values(pa.array([value], pa.binary()), None, columns, self._decoder)
        if read.errors[0].is_valid:
            raise SchemaError(f"topic {self._topic}: the latest value of a row cannot be read: {read.errors[0]}")
        row: bytes = read.values[0].as_py()
        return row


def left_over_of(token: str | None) -> dict[str, Any]:
    """The values beside a row, by column: an object of JSON, or in an encoded topic the text of one."""
    found = json.loads(token or "null")
    return (json.loads(found) if isinstance(found, str) else found) or {}


def _names_of(written: WriterSchema) -> set[str]:
    """The fields of a schema that an encoder has registered."""
    if written.schema_type == "PROTOBUF":
        from mainstem.encodings.protobuf.protobuf_messages import message_class

        return {field.name for field in message_class(written.text).DESCRIPTOR.fields}
    document = json.loads(written.text)
    if written.schema_type == "AVRO":
        return {field["name"] for field in document["fields"]}
    return set(document["properties"])
