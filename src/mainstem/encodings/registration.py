"""A topic's columns, registered in two places: ``__mainstem_schemas`` for our readers, the schema registry for all.

The subject is ``TOPIC-value``; the registry is the topic ``_schemas`` of the same log. The schema goes to the registry
first: where that refuses it as incompatible, nothing has changed. Where another program has registered its own schema
for the topic, the columns only say what is read of it. The schema of keys is registered when one is written.
Functions; as thread-safe as the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.client.log import Log
from mainstem.schema.topic_schemas import RegisteredSchema, register
from mainstem.schema.types import FRAMINGS, TopicSchema


def register_topic(
    log: Log,
    topic: str,
    schema: TopicSchema,
    key: Sequence[str] = (),
    encoding: str | None = None,
    key_encoding: str | None = None,
    framing: str = FRAMINGS[0],
) -> RegisteredSchema:
    """Register a topic's columns, and its schema where it is encoded. Raises SchemaError, DefinitionError."""
    if encoding is not None:
        from mainstem.encodings.encoders import (
            encoder_of,
            is_of_another_writer,
        )  # loads Arrow, which topics of JSON do not need

        for name in key:
            schema.column(name)
        if not is_of_another_writer(log, topic, schema):
            encoder_of(log, topic, schema, encoding)
    return register(log, topic, schema, key, encoding, key_encoding, framing)
