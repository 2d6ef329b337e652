"""The encoder of a topic: its columns as a schema, registered under the subject ``TOPIC-value``.

Functions; as thread-safe as the log.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.encodings.avro_columns import avro_schema_of
from mainstem.encodings.json_schema_columns import json_schema_of
from mainstem.encodings.protobuf.protobuf_columns import protobuf_schema_of
from mainstem.encodings.protobuf.protobuf_messages import message_class
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.encodings.writer_schemas import WriterSchema
from mainstem.errors import SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.parsing import format_of
from mainstem.registry.registry import Registry, registry_of
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schema.types import TopicSchema

_TYPES: Final = MappingProxyType({"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"})


def schema_text(topic: str, schema: TopicSchema, encoding: str) -> str:
    """The schema of a topic's columns, as ``ValueEncoder`` has it. Raises DefinitionError for a bad column."""
    text = _text(topic, schema, encoding)
    return format_of("PROTOBUF").parse(text, {}).portable() if encoding == "protobuf" else text


def writer_schema(encoder: ValueEncoder) -> WriterSchema:
    """The schema that an encoder writes with."""
    return WriterSchema(_TYPES[encoder.encoding], encoder.text)


def encoder_of(log: Log, topic: str, schema: TopicSchema, encoding: str) -> ValueEncoder:
    """The encoder of a topic's values; it registers their schema if it is new.

    Raises SchemaError when the registry refuses the schema, DefinitionError for columns without a form in the encoding.
    """
    subject, registry = f"{topic}-value", registry_of(log)
    text = _text(topic, schema, encoding, _former_message(registry, subject) if encoding == "protobuf" else None)
    try:
        stored = registry.register(subject, SchemaRequest(_TYPES[encoding], text))
        if encoding == "protobuf":
            text = registry.parsed(stored.content).portable()
    except RegistryError as error:
        raise SchemaError(
            f"topic {topic}: the schema registry refuses the {encoding} schema of its columns under {subject}: {error}"
            "; change the columns, or the subject's compatibility level"
        ) from error
    return ValueEncoder(encoding, text, stored.id, schema)


def _text(topic: str, schema: TopicSchema, encoding: str, former: Any = None) -> str:
    """The text of a topic's schema, as it is registered."""
    if encoding == "protobuf":
        return protobuf_schema_of(topic, schema, former)
    return avro_schema_of(topic, schema) if encoding == "avro" else json_schema_of(topic, schema)


def _former_message(registry: Registry, subject: str) -> Any:
    """The descriptor of the message that is registered for a subject; None where there is none yet."""
    try:
        content = registry.version(subject, LATEST).content
        if content.schema_type != _TYPES["protobuf"]:
            return None
        return message_class(registry.parsed(content).portable()).DESCRIPTOR
    except RegistryError:
        return None
