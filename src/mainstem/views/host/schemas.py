"""The values of a view's topic: the columns, the key columns, and the reader of encoded values.

Columns come from what the App declares, else from what is registered for the topic. A SQL view's table and a lake's are
made from them, and they say which values of metrics are decimals; other views need no columns. A derived topic's schema
is registered when Spark first starts its pipeline; until then there is nothing to make a table from, and the view
waits. Another App or a connector may also register a schema later than the view starts, but before its first record. So
a view without a schema looks again before it applies the first record. A sink waits for the first record instead,
because its table belongs to other programs too, and is not replaced.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.log import Log
from mainstem.errors import UnknownTopicError
from mainstem.pipelines.definitions import View
from mainstem.pipelines.kinds import SinkKind
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema
from mainstem.views.feed.encoded_values import EncodedValues
from mainstem.views.host.runner import NotYetError


class TopicValues(NamedTuple):
    """The columns for a store that needs them, its key columns, and the reader of encoded values (None: JSON).

    ``is_final``: no other schema comes with the topic's first record.
    """

    schema: TopicSchema | None
    key: tuple[str, ...]
    encoded: EncodedValues | None
    is_final: bool


def values_of_view(view: View, log: Log, *, is_derived: bool, is_new: bool) -> TopicValues:
    """Look up what a view's topic holds; ``is_new``: the view has no store yet.

    Raises NotYetError, DefinitionError, SchemaError.
    """
    topic = view.topic
    schema, key, encoding, key_encoding = None, topic.key, topic.encoding, topic.key_encoding
    if topic.schema is not None:
        schema = schema_of(topic.schema)
    else:
        # Before the look at the schema.
        is_empty = is_new and isinstance(view.kind, SinkKind) and _is_empty(log, topic.name)
        registered = lookup(log, topic.name)
        if registered is None and is_empty:
            raise NotYetError(f"for the schema of topic {topic.name}, or its first record")
        if registered is not None:
            schema, key, encoding = registered.schema, key or registered.key, encoding or registered.encoding
            key_encoding = key_encoding or registered.key_encoding
    if schema is None and (encoding is not None or (view.kind.needs_schema and is_derived)):
        raise NotYetError(
            f"for the schema of topic {topic.name}, which its pipeline or capture registers when it starts"
        )
    encoded = None
    if encoding is not None or key_encoding is not None:
        columns = None
        if key_encoding is not None and schema is not None and key:
            columns = TopicSchema(tuple(map(schema.column, key)))
        encoded = _encoded(log, schema if encoding is not None else None, key_encoding is not None, columns)
    needs_schema = view.kind.needs_schema
    is_final = schema is not None or isinstance(view.kind, SinkKind)
    return TopicValues(schema if needs_schema else None, key if needs_schema else topic.key, encoded, is_final)


def _is_empty(log: Log, topic: str) -> bool:
    try:
        return not any(log.end(topic).values())
    except UnknownTopicError as error:
        raise NotYetError(f"for topic {topic}, which does not exist yet") from error


def _encoded(log: Log, schema: TopicSchema | None, has_keys: bool, key: TopicSchema | None) -> EncodedValues:
    from mainstem.encodings.key_decoder import KeyDecoder
    from mainstem.encodings.value_decoder import SchemaDecoder  # loads native kernels, which JSON does not need
    from mainstem.encodings.writer_schemas import WriterSchemas
    from mainstem.registry.registry import registry_of

    schemas = WriterSchemas(registry_of(log))
    decoder = None if schema is None else SchemaDecoder(schemas)
    return EncodedValues(schema, decoder, KeyDecoder(schemas, key) if has_keys else None)
