"""A topic's columns, registered in two places: ``__mainstem_schemas`` for our readers, the schema registry for all.

The subject is ``TOPIC-value``; the registry is the topic ``_schemas`` of the same log. The schema goes to the registry
first: where that refuses it as incompatible, nothing has changed. Functions; as thread-safe as the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mainstem.client.log import Log
from mainstem.encodings.avro_columns import avro_schema_of
from mainstem.encodings.json_schema_columns import json_schema_of
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from mainstem.registry.requests import SchemaRequest
from mainstem.schema.registry import RegisteredSchema, register
from mainstem.schema.types import TopicSchema

_TYPES: Final[Mapping[str, tuple[str, Callable[[str, TopicSchema], str]]]] = MappingProxyType(
    {"avro": ("AVRO", avro_schema_of), "json-schema": ("JSON", json_schema_of)}
)


def register_topic(
    log: Log, topic: str, schema: TopicSchema, key: Sequence[str] = (), encoding: str | None = None
) -> RegisteredSchema:
    """Register a topic's columns, and its schema where it is encoded. Raises SchemaError, DefinitionError."""
    if encoding is not None:
        for name in key:
            schema.column(name)
        encoder_of(log, topic, schema, encoding)
    return register(log, topic, schema, key, encoding)


def schema_text(topic: str, schema: TopicSchema, encoding: str) -> str:
    """The schema of a topic's columns in an encoding. Raises DefinitionError for columns that it has no form of."""
    return _TYPES[encoding][1](topic, schema)


def encoder_of(log: Log, topic: str, schema: TopicSchema, encoding: str) -> ValueEncoder:
    """How to write the topic's values; its schema is registered if it is not yet.

    Raises SchemaError when the registry refuses the schema, DefinitionError for columns without a form in the encoding.
    """
    schema_type, text_of = _TYPES[encoding]
    text = text_of(topic, schema)
    subject = f"{topic}-value"
    try:
        stored = Registry(log).register(subject, SchemaRequest(schema_type, text))
    except RegistryError as error:
        raise SchemaError(
            f"topic {topic}: the schema registry refuses the {encoding} schema of its columns under {subject}: {error}"
            "; change the columns, or the subject's compatibility level"
        ) from error
    return ValueEncoder(encoding, text, stored.id, schema)
