"""The values of a view's topic: the columns, the key columns, and the reader of encoded values.

Columns come from what the App declares, else from what is registered for the topic. A SQL view's table and a lake's are
made from them, and they say which values of metrics are decimals; other views need no columns. A derived topic's schema
is registered when Spark first starts its pipeline; until then there is nothing to make a table from, and the view
waits.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.log import Log
from mainstem.pipelines.definitions import View
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema
from mainstem.views.feed.encoded_values import EncodedValues
from mainstem.views.host.runner import NotYetError


class TopicValues(NamedTuple):
    """The columns for a store that needs them, its key columns, and the reader of encoded values (None: JSON)."""

    schema: TopicSchema | None
    key: tuple[str, ...]
    encoded: EncodedValues | None


def values_of_view(view: View, log: Log, *, is_derived: bool) -> TopicValues:
    """Look up what a view's topic holds. Raises NotYetError, DefinitionError, SchemaError."""
    topic = view.topic
    schema, key, encoding = None, topic.key, topic.encoding
    if topic.schema is not None:
        schema = schema_of(topic.schema)
    else:
        registered = lookup(log, topic.name)
        if registered is not None:
            schema, key, encoding = registered.schema, key or registered.key, encoding or registered.encoding
    if schema is None and (encoding is not None or (view.kind.needs_schema and is_derived)):
        raise NotYetError(
            f"for the schema of topic {topic.name}, which its pipeline or capture registers when it starts"
        )
    encoded = None if schema is None or encoding is None else _encoded(schema, log)
    return TopicValues(
        schema if view.kind.needs_schema else None, key if view.kind.needs_schema else topic.key, encoded
    )


def _encoded(schema: TopicSchema, log: Log) -> EncodedValues:
    from mainstem.encodings.value_decoder import SchemaDecoder  # loads native kernels, which JSON does not need
    from mainstem.encodings.writer_schemas import WriterSchemas
    from mainstem.registry.registry import registry_of

    return EncodedValues(schema, SchemaDecoder(WriterSchemas(registry_of(log))))
