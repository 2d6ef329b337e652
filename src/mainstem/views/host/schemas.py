"""The schema that a SQL view's table, or a lake's, is made from, and that says which values of metrics are decimals.

In this order: what the App declares, what is registered for the topic, nothing. A derived topic's schema is registered
when Spark first starts its pipeline; until then there is nothing to make a table from, and the view waits. Other views
need no schema.
"""

from __future__ import annotations

from mainstem.client.log import Log
from mainstem.encodings.value_decoder import SchemaDecoder
from mainstem.encodings.writer_schemas import WriterSchemas
from mainstem.pipelines.definitions import Topic, View
from mainstem.registry.registry import Registry
from mainstem.schema.infer import schema_of
from mainstem.schema.registry import lookup
from mainstem.schema.types import TopicSchema
from mainstem.views.feed.encoded_values import EncodedValues
from mainstem.views.host.runner import NotYetError


def schema_of_view(view: View, log: Log, *, is_derived: bool) -> TopicSchema | None:
    """The schema for ``view``; None where the topic has none. Raises NotYetError, DefinitionError, SchemaError."""
    if not view.kind.needs_schema:
        return None
    return _topic_schema(view.topic, log, is_derived=is_derived)


def values_of_view(view: View, log: Log, *, is_derived: bool) -> EncodedValues | None:
    """How the values of the view's topic are read; None for JSON. Raises as ``schema_of_view``."""
    topic = view.topic
    encoding = topic.encoding
    if encoding is None and topic.schema is None:
        registered = lookup(log, topic.name)
        encoding = None if registered is None else registered.encoding
    schema = None if encoding is None else _topic_schema(topic, log, is_derived=is_derived)
    return None if schema is None else EncodedValues(schema, SchemaDecoder(WriterSchemas(Registry(log))))


def _topic_schema(topic: Topic, log: Log, *, is_derived: bool) -> TopicSchema | None:
    if topic.schema is not None:
        return schema_of(topic.schema)
    registered = lookup(log, topic.name)
    if registered is not None:
        return registered.schema
    if is_derived or topic.encoding is not None:
        raise NotYetError(
            f"for the schema of topic {topic.name}, which its pipeline or capture registers when it starts"
        )
    return None


def key_of_view(view: View, log: Log) -> tuple[str, ...]:
    """The key columns of the view's topic, where its store is laid out by a schema. Raises SchemaError."""
    if not view.kind.needs_schema or view.topic.key or view.topic.schema is not None:
        return view.topic.key
    registered = lookup(log, view.topic.name)
    return () if registered is None else registered.key
