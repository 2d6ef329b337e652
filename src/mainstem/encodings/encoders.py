"""The encoders of a topic: its columns as a schema, registered under the subject ``TOPIC-value``; its key's under
``TOPIC-key``.

Every key of a topic is written with one schema, because equal keys have to be equal bytes for compaction, partitions
and the key index. So the schema of a key is registered once, when the first key is written; where another program has
registered one, keys are written with that. Functions; as thread-safe as the log.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from mainstem.client.log import Log
from mainstem.encodings.avro_columns import avro_schema_of
from mainstem.encodings.json_schema_columns import json_schema_of
from mainstem.encodings.key_decoder import as_record
from mainstem.encodings.key_encoder import KeyEncoder
from mainstem.encodings.protobuf.protobuf_columns import protobuf_schema_of
from mainstem.encodings.protobuf.protobuf_messages import message_class
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.encodings.writer_schemas import WriterSchema
from mainstem.errors import DefinitionError, SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.parsing import format_of
from mainstem.registry.registry import Registry, registry_of
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schema.arrow import value_type
from mainstem.schema.avro import AvroType, parse_avro
from mainstem.schema.types import TopicSchema
from mainstem.schemas_topic.records import StoredSchema

_TYPES: Final = MappingProxyType({"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"})


def schema_text(topic: str, schema: TopicSchema, encoding: str) -> str:
    """The schema of a topic's columns, as ``ValueEncoder`` has it. Raises DefinitionError for a bad column."""
    text = _text(topic, schema, encoding)
    return format_of("PROTOBUF").parse(text, {}).portable() if encoding == "protobuf" else text


def writer_schema(encoder: ValueEncoder) -> WriterSchema:
    """The schema that an encoder writes with."""
    return WriterSchema(_TYPES[encoder.encoding], encoder.text)


def encoder_of(
    log: Log, topic: str, schema: TopicSchema, encoding: str, *, subject: str | None = None, framing: str = "id"
) -> ValueEncoder:
    """The encoder of a topic's values; it registers their schema if it is new.

    ``subject`` is ``TOPIC-value`` by default. ``framing`` is one of ``types.FRAMINGS``.

    Raises SchemaError when the registry refuses the schema, DefinitionError for columns without a form in the encoding.
    """
    subject, registry = subject or f"{topic}-value", registry_of(log)
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
    guid = None if framing == "id" else stored.content.guid
    return ValueEncoder(encoding, text, stored.id, schema, guid, framing == "header")


def key_schema_text(topic: str, columns: TopicSchema, encoding: str) -> str:
    """The schema of a topic's key columns, as it is registered. Raises DefinitionError for a bad column."""
    for column in columns.columns:
        if pa.types.is_nested(value_type(column.type)):
            raise DefinitionError(f"topic {topic}: key column {column.name!r} is {column.type}: a key has scalars only")
    if encoding == "avro":
        return avro_schema_of(f"{topic}_key", columns, nullable=False)
    return _text(f"{topic}_key", columns, encoding)


def key_encoder_of(log: Log, topic: str, columns: TopicSchema, encoding: str) -> KeyEncoder:
    """The encoder of a topic's keys, of these columns; it registers their schema if the subject has none.

    Raises SchemaError where the subject has a schema that the columns do not fit, DefinitionError for a bad column.
    """
    subject, registry = f"{topic}-key", registry_of(log)
    own = key_schema_text(topic, columns, encoding)
    try:
        stored = _latest(registry, subject)
        if stored is None:
            stored = registry.register(subject, SchemaRequest(_TYPES[encoding], own))
        content = stored.content
        text = content.text if content.schema_type == "AVRO" else registry.parsed(content).portable()
        if content.schema_type == "AVRO" and content.references:
            text = registry.parsed(content).portable()
    except RegistryError as error:
        raise SchemaError(f"topic {topic}: the schema registry refuses the schema of its keys: {error}") from error
    ordered = _in_order(columns, encoding, own, content.schema_type, text)
    if ordered is None:
        raise SchemaError(
            f"topic {topic}: the schema of its keys, {subject} {stored.version} ({content.schema_type}), is not "
            f"that of the key columns {columns.ddl_text()} in {encoding}: equal keys would "
            "have different bytes; use the columns of the schema, or another topic"
        )
    if encoding == "avro":
        text = as_record(text, columns.names[0])
    return KeyEncoder(topic, columns.names, ValueEncoder(encoding, text, stored.id, ordered))


def is_of_another_writer(log: Log, topic: str, schema: TopicSchema) -> bool:
    """Whether the topic's value schema was registered by another program: its record, message or title is not ours."""
    registry = registry_of(log)
    try:
        stored = _latest(registry, f"{topic}-value")
        if stored is None:
            return False
        content = stored.content
        encoding = next(name for name, kind in _TYPES.items() if kind == content.schema_type)
        own = _text(topic, schema, encoding)
        if encoding == "protobuf":
            texts = registry.parsed(content).portable(), format_of("PROTOBUF").parse(own, {}).portable()
            theirs, ours = (message_class(text).DESCRIPTOR.full_name for text in texts)
            return bool(theirs != ours)
        names = [json.loads(text) for text in (content.text, own)]
        keys = ("name", "namespace") if encoding == "avro" else ("title",)
        theirs, ours = ([each.get(key) for key in keys] if isinstance(each, dict) else each for each in names)
        return bool(theirs != ours)
    except (RegistryError, SchemaError, DefinitionError, ValueError):
        return True


def _latest(registry: Registry, subject: str) -> StoredSchema | None:
    try:
        return registry.version(subject, LATEST)
    except RegistryError as error:
        if error.status == 404:
            return None
        raise


def _in_order(columns: TopicSchema, encoding: str, own: str, schema_type: str, text: str) -> TopicSchema | None:
    """The key columns in the order of the schema that keys are written with; None where they do not fit it."""
    if schema_type != _TYPES[encoding]:
        return None
    if encoding == "json-schema":
        names = json.loads(text).get("properties", {}) if isinstance(json.loads(text), dict) else {}
        return columns if set(names) == set(columns.names) else None
    if encoding == "protobuf":
        theirs, ours = (
            {field.name: (field.type, field.is_repeated) for field in message_class(each).DESCRIPTOR.fields}
            for each in (text, format_of("PROTOBUF").parse(own, {}).portable())
        )
        return columns if theirs == ours else None
    record, wanted = parse_avro(as_record(text, columns.names[0])), parse_avro(own)
    kinds = {each.name: each.type for each in wanted.fields}
    names = tuple(each.name for each in record.fields)
    if set(names) != set(kinds) or not all(_holds(each.type, kinds[each.name]) for each in record.fields):
        return None
    return TopicSchema(tuple(map(columns.column, names)))


def _holds(theirs: AvroType, ours: AvroType) -> bool:
    """Whether each value of a key column has a form in another program's field."""
    kind, _ = theirs.without_null()
    same = (kind.kind, kind.logical, kind.scale) == (ours.kind, ours.logical, ours.scale)
    return same or (kind.kind == "long" and ours.kind == "int" and not kind.logical and not ours.logical)


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
