"""Records of encoded topics for the API and the commands: values are JSON there, and encoded in the log.

What cannot be decoded is shown as it is. Contract: thread-safe; calls may block on the log. Arrow and the native
kernels are loaded with the first encoded value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mainstem.client.log import Log
from mainstem.client.values import value_bytes
from mainstem.errors import AuthorizationError, SchemaError
from mainstem.model import Record
from mainstem.schema.topic_schemas import KnownSchemas

if TYPE_CHECKING:
    from mainstem.encodings.topic_values import Codec

_FRAMES: Final = (b"\x00", b"\x01")
_VALUE_HEADER: Final = "__value_schema_id"


class EncodedRecords:
    """Values of a log's topics as JSON. The module's docstring has the contract."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._schemas = KnownSchemas(log)

    def shown(self, record: Record) -> Record:
        """The record with its value as JSON, if its topic is encoded and the value can be read."""
        value = record.value
        if value is None or not (value[:1] in _FRAMES or any(name == _VALUE_HEADER for name, _ in record.headers)):
            return record
        if not self._is_encoded(record.topic):
            return record
        try:
            return replace(record, value=self._codec.json_text(record))
        except SchemaError:
            return record

    def encoded(self, topic: str, values: Sequence[Any]) -> list[Any]:
        """Values as the topic has them. Raises SchemaError for one that does not fit its columns."""
        if not self._is_encoded(topic):
            return list(values)
        return list(self._codec.encode_many(topic, [value_bytes(value) for value in values]))

    def _is_encoded(self, topic: str) -> bool:
        try:
            known = self._schemas.schema(topic)
        except AuthorizationError:  # a user who may only write appends JSON, which every reader takes
            return False
        return known is not None and known.encoding is not None

    @functools.cached_property
    def _codec(self) -> Codec:
        from mainstem.encodings.topic_values import Codec

        return Codec(self._log)


@functools.lru_cache(maxsize=4)
def encoded_records(log: Log) -> EncodedRecords:
    """The one of this log, which all share."""
    return EncodedRecords(log)
