"""``Codec``: keys and values of encoded topics for programs that append to a log and read it.

    codec = ms.Codec(log)
    log.append("orders", codec.encode("orders", {"id": 1}), key=codec.encode_key("orders", 1))
    rows = [codec.decode(record) for record in log.read("orders")]

A topic's columns and schema are kept for some seconds. Thread-safe.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa

from mainstem.client.log import Log
from mainstem.client.values import key_bytes, value_bytes
from mainstem.clock import Clock
from mainstem.encodings.encoders import encoder_of, key_encoder_of
from mainstem.encodings.json_values import JsonValues, encoded_values, json_values, numbered
from mainstem.encodings.key_decoder import KeyDecoder
from mainstem.encodings.key_encoder import KeyEncoder
from mainstem.encodings.value_decoder import SchemaDecoder
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.encodings.writer_schemas import WriterSchemas
from mainstem.errors import InputError, SchemaError
from mainstem.model import Record
from mainstem.registry.registry import registry_of
from mainstem.schema.topic_schemas import KnownSchemas, RegisteredSchema
from mainstem.schema.types import FRAMINGS, Framing
from mainstem.schemas_topic.frames import KEY_HEADER, header_frame


class Codec:
    """Encodes and decodes the keys and values of a log's topics. The module's docstring has the contract."""

    def __init__(self, log: Log, clock: Clock | None = None, *, framing: Framing | None = None) -> None:
        """Connect to nothing yet.

        Args:
            log: The log, and the schemas of its topics.
            clock: The time; tests give one of their own.
            framing: ``id``: values begin with a zero and the schema's id. ``guid``: they begin with a one and the
                schema's global id (16 bytes). ``header``: the global id is in the header ``__value_schema_id``, and
                the value is bare. Without it, each topic's own.

        Raises:
            InputError: The framing is unknown.
        """
        if framing is not None and framing not in FRAMINGS:
            raise InputError(f"unknown framing {framing!r}: use one of {', '.join(FRAMINGS)}")
        self._log, self._framing = log, framing
        self._topics = KnownSchemas(log, clock)
        self._decoder = SchemaDecoder(WriterSchemas(registry_of(log)))
        self._lock = threading.Lock()
        self._encoders: dict[RegisteredSchema, ValueEncoder] = {}
        self._key_encoders: dict[RegisteredSchema, KeyEncoder] = {}

    def encoding(self, topic: str) -> str | None:
        """The topic's encoding; None for JSON, and for a topic without a registered schema.

        Examples:
            >>> ms.Codec(log).encoding("orders") is None
            True
        """
        known = self._topics.schema(topic)
        return None if known is None else known.encoding

    def encode(self, topic: str, value: Any, headers: list[tuple[str, bytes | None]] | None = None) -> bytes | None:
        """A value as the topic has it. Values of a topic that is not encoded are JSON.

        Args:
            topic: The topic.
            value: What ``Log.append`` takes as a JSON object; None for a tombstone.
            headers: The headers of the record, for the framing ``header``, which adds one.

        Returns:
            The bytes to append; None for a tombstone.

        Raises:
            SchemaError: The value does not fit the topic's columns, or has a field that is none of them.
            InputError: The framing is ``header``, and there are no ``headers`` to add it to.

        Examples:
            >>> ms.Codec(log).encode("orders", {"id": 1})
            b'{"id":1}'
        """
        data = value_bytes(value)
        return self.encode_many(topic, [data], headers)[0] if data is not None else None

    def encode_many(
        self,
        topic: str,
        values: list[bytes | None],
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> list[bytes | None]:
        """Many values as the topic has them.

        Args:
            topic: The topic.
            values: JSON objects as bytes; None for a tombstone.
            headers: The headers that all these records have, for the framing ``header``, which adds one.

        Returns:
            The bytes to append, in the same order.

        Raises:
            SchemaError: One does not fit the topic's columns; the error says which.
            InputError: The framing is ``header``, and there are no ``headers`` to add it to.

        Examples:
            >>> ms.Codec(log).encode_many("orders", [b'{"id":1}', None])
            [b'{"id":1}', None]
        """
        known = self._topics.schema(topic)
        if known is None or known.encoding is None:
            return values
        if (self._framing or known.framing) == "header" and headers is None:
            raise InputError(
                f"topic {topic}: its values name their schema in a header of the record: give encode a list as "
                "headers=, and append the record with these headers"
            )
        encoder = self._encoder(known)
        _refuse_other_fields(known, values)
        try:
            found: list[bytes | None] = encoded_values(pa.array(values, pa.binary()), encoder).to_pylist()
        except SchemaError as error:
            raise SchemaError(f"topic {topic}: {error}") from error
        if headers is not None:
            headers += encoder.headers
        return found

    def decode(self, record: Record) -> Any:
        """A record's value as Python values of its JSON form; None for a tombstone.

        Raises:
            SchemaError: The value cannot be read by its schema, or is not JSON.

        Examples:
            >>> [ms.Codec(log).decode(record)["carrier"] for record in log.read("flights", limit=1)]
            ['UA']
        """
        text = self.json_text(record)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise SchemaError(_place(record) + ": the value is not JSON; read record.value") from error

    def encode_key(self, topic: str, key: Any) -> bytes | None:
        """A key as the topic has it. Keys of a topic whose keys are not encoded are text.

        Args:
            topic: The topic.
            key: What ``Log.append`` takes as a key; a list of values for a key of several columns.

        Returns:
            The bytes to append; None for no key.

        Raises:
            SchemaError: The key does not fit the columns of the topic's key.

        Examples:
            >>> ms.Codec(log).encode_key("orders", 1)
            b'1'
        """
        return self.encode_keys(topic, [key_bytes(key)])[0]

    def encode_keys(self, topic: str, keys: list[bytes | None]) -> list[bytes | None]:
        """Many keys in the topic's encoding.

        Args:
            topic: The topic.
            keys: Keys as text; None for no key.

        Returns:
            The bytes to append, in the same order.

        Raises:
            SchemaError: A key is not UTF-8 text, or does not fit the columns of the topic's key.

        Examples:
            >>> ms.Codec(log).encode_keys("orders", [b"1", None])
            [b'1', None]
        """
        known = self._topics.schema(topic)
        if known is None or known.key_encoding is None or all(key is None for key in keys):
            return keys
        try:
            array = pa.array([None if key is None else key.decode() for key in keys], pa.string())
        except UnicodeDecodeError as error:
            raise SchemaError(f"topic {topic}: a key is not UTF-8 text: {error}") from error
        found: list[bytes | None] = self._key_encoder(known).encode_texts(array).to_pylist()
        return found

    def decode_key(self, record: Record) -> bytes | None:
        """A record's key as the text that it is in a topic of text keys; None for no key.

        Raises:
            SchemaError: The key cannot be read by its schema.

        Examples:
            >>> [ms.Codec(log).decode_key(record) for record in log.read("flights", limit=1)]
            [b'UA']
        """
        known = self._topics.schema(record.topic)
        if record.key is None or known is None or known.key_encoding is None:
            return record.key
        frame = header_frame(record.headers, KEY_HEADER) or b""
        found = KeyDecoder(self._decoder.schemas, known.key_columns).texts(pa.array([frame + record.key], pa.binary()))
        if found.errors:
            raise SchemaError(f"{_place(record)}: {found.errors[0]}")
        text: bytes = found.keys[0].as_py()
        return text

    def json_text(self, record: Record) -> bytes | None:
        """A record's value as JSON text, of all columns; None for a tombstone.

        Raises:
            SchemaError: The value cannot be read by its schema.

        Examples:
            >>> [ms.Codec(log).json_text(record) for record in log.read("ledger")]
            [b'an entry']
        """
        known = self._topics.schema(record.topic)
        if record.value is None or known is None or known.encoding is None:
            return record.value
        frame = header_frame(record.headers) or b""
        found = self.json_values(known, pa.array([frame + record.value], pa.binary()))
        if found.errors[0].is_valid:
            raise SchemaError(f"{_place(record)}: {found.errors[0]}")
        text: bytes = found.values[0].as_py()
        return text

    def json_values(self, topic: RegisteredSchema, values: pa.Array, headers: pa.Array | None = None) -> JsonValues:
        """Many values of an encoded topic as JSON.

        Args:
            topic: The topic with its schema.
            values: The records' values, binary, of any length.
            headers: The frames of the records' headers, binary, where values have none of their own.

        Returns:
            The values as JSON, and for those that cannot be read the reason.
        """
        return json_values(values, headers, topic.schema, self._decoder)

    def _encoder(self, known: RegisteredSchema) -> ValueEncoder:
        assert known.encoding is not None
        with self._lock:
            encoder = self._encoders.get(known)
        if encoder is None:
            framing = self._framing or known.framing
            encoder = encoder_of(self._log, known.topic, known.schema, known.encoding, framing=framing)
            with self._lock:
                self._encoders[known] = encoder
        return encoder

    def _key_encoder(self, known: RegisteredSchema) -> KeyEncoder:
        with self._lock:
            encoder = self._key_encoders.get(known)
        if encoder is None:
            if known.key_columns is None or known.key_encoding is None:
                raise SchemaError(f"topic {known.topic} declares no key columns, so its keys cannot be encoded")
            encoder = key_encoder_of(self._log, known.topic, known.key_columns, known.key_encoding)
            with self._lock:
                self._key_encoders[known] = encoder
        return encoder


def _place(record: Record) -> str:
    return f"{record.topic}, partition {record.partition}, offset {record.offset}"


def _refuse_other_fields(topic: RegisteredSchema, values: list[bytes | None]) -> None:
    """Raise SchemaError for a field that is not a column: the schema has no place for it, and it would be lost."""
    names = frozenset(topic.schema.names)
    for number, value in enumerate(values):
        try:
            fields = json.loads(value) if value is not None else {}
        except ValueError:
            continue  # the check of the values reports it
        others = sorted(fields.keys() - names) if isinstance(fields, dict) else []
        if others:
            raise SchemaError(
                f"topic {topic.topic}: {numbered(number, values)}column {others[0]!r} does not exist; the columns are "
                f"{', '.join(topic.schema.names)}"
            )
