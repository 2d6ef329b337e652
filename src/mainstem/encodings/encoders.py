"""The encoder of a topic: its columns as a schema, registered under the subject ``TOPIC-value``.

Functions; as thread-safe as the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mainstem.client.log import Log
from mainstem.encodings.avro_columns import avro_schema_of
from mainstem.encodings.json_schema_columns import json_schema_of
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import registry_of
from mainstem.registry.requests import SchemaRequest
from mainstem.schema.types import TopicSchema

_TYPES: Final[Mapping[str, tuple[str, Callable[[str, TopicSchema], str]]]] = MappingProxyType(
    {"avro": ("AVRO", avro_schema_of), "json-schema": ("JSON", json_schema_of)}
)


def schema_text(topic: str, schema: TopicSchema, encoding: str) -> str:
    """The schema of a topic's columns in an encoding. Raises DefinitionError for columns that it has no form of."""
    return _TYPES[encoding][1](topic, schema)


def encoder_of(log: Log, topic: str, schema: TopicSchema, encoding: str) -> ValueEncoder:
    """The encoder of a topic's values; it registers their schema if it is new.

    Raises SchemaError when the registry refuses the schema, DefinitionError for columns without a form in the encoding.
    """
    schema_type, text_of = _TYPES[encoding]
    text = text_of(topic, schema)
    subject = f"{topic}-value"
    try:
        stored = registry_of(log).register(subject, SchemaRequest(schema_type, text))
    except RegistryError as error:
        raise SchemaError(
            f"topic {topic}: the schema registry refuses the {encoding} schema of its columns under {subject}: {error}"
            "; change the columns, or the subject's compatibility level"
        ) from error
    return ValueEncoder(encoding, text, stored.id, schema)
