"""Rows of any columns as records, by the option ``keyColumn``: values as JSON or encoded, keys as text or encoded.

A topic whose registered schema is encoded gets encoded records, as everywhere; the options ``valueFormat`` and
``keyFormat`` say otherwise, or say it of a topic that has no registered schema. Runs in Spark's workers, which keep the
encoders. What is registered for a topic is asked for again after some seconds.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

import pyarrow as pa

from mainstem.encodings.encoders import encoder_of, key_encoder_of
from mainstem.encodings.key_encoder import KeyEncoder
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import AuthorizationError, SchemaError
from mainstem.schema.topic_schemas import KnownSchemas, RegisteredSchema
from mainstem.schema.types import FRAMINGS, TopicSchema
from mainstem.spark.clients import opened
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.sink.task_appender import Rows
from mainstem.spark.tasks.json_encode import encode_keys, encode_values

_ENCODERS_MAX: Final = 100


class _Encoders(NamedTuple):
    """How a topic's values and keys are written; None: as JSON, as text."""

    value: ValueEncoder | None
    key: KeyEncoder | None


_SCHEMAS: dict[tuple[LogOptions, int], KnownSchemas] = {}
_ENCODERS: dict[tuple[WriteOptions, RegisteredSchema | None, int], _Encoders] = {}


def typed_rows(arrow_batch: pa.RecordBatch, topic: str, options: WriteOptions) -> Rows:
    """The records of rows. Raises SchemaError for columns that do not fit the topic's, and for a null in a key."""
    encoders = _encoders(topic, options)
    if encoders.value is None:
        values = encode_values(arrow_batch)
    else:
        others = sorted(set(arrow_batch.schema.names) - set(encoders.value.columns.names))
        if others:
            known = ", ".join(encoders.value.columns.names)
            raise SchemaError(f"topic {topic}: there is no column {', '.join(others)}; its columns are {known}")
        values = encoders.value.encode(arrow_batch)
    if encoders.key is None:
        keys = encode_keys(arrow_batch, options.key_columns)
    else:
        keys = encoders.key.encode(arrow_batch)
    headers = None if encoders.value is None else encoders.value.headers_column(arrow_batch.num_rows)
    return Rows(values, keys, headers)


def _encoders(topic: str, options: WriteOptions) -> _Encoders:
    here = (options.log, os.getpid())
    if here not in _SCHEMAS:
        _SCHEMAS[here] = KnownSchemas(opened(options.log))
    try:
        registered = _SCHEMAS[here].schema(topic)
    except AuthorizationError:  # a user who may only write appends JSON, which every reader takes
        registered = None
    wanted = (options, registered, os.getpid())
    if wanted not in _ENCODERS:
        if len(_ENCODERS) >= _ENCODERS_MAX:
            _ENCODERS.clear()
        _ENCODERS[wanted] = _made(topic, options, registered)
    return _ENCODERS[wanted]


def _made(topic: str, options: WriteOptions, registered: RegisteredSchema | None) -> _Encoders:
    formats, log = options.formats, opened(options.log)
    encoding = formats.value or (registered.encoding if registered else None)
    key_encoding = formats.key or (registered.key_encoding if registered else None)
    value = key = None
    columns = formats.columns
    if registered is not None and (columns is None or encoding == registered.encoding):
        columns = registered.schema
    if encoding is not None and encoding != "json" and columns is not None:
        framing = formats.framing or (registered.framing if registered else FRAMINGS[0])
        value = encoder_of(log, topic, columns, encoding, subject=formats.subject, framing=framing)
    if key_encoding is not None and key_encoding != "text" and columns is not None:
        key_columns = TopicSchema(tuple(map(columns.column, options.key_columns)))
        key = key_encoder_of(log, topic, key_columns, key_encoding)
    return _Encoders(value, key)
