"""Records of encoded topics for the API and the commands: keys are text and values JSON there, encoded in the log.

What cannot be decoded is shown as it is. Contract: thread-safe; calls may block on the log. The first encoded value or
the first check loads Arrow and the native kernels. That takes half a second, so do not call it on an event loop.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mainstem.client.log import Log
from mainstem.client.records import HeadersLike, encoded_headers
from mainstem.client.values import key_bytes, value_bytes
from mainstem.errors import AuthorizationError, SchemaError
from mainstem.extras import naming_the_extra
from mainstem.model import Headers, Record
from mainstem.schema.topic_schemas import KnownSchemas
from mainstem.schemas_topic.frames import KEY_HEADER, VALUE_HEADER

if TYPE_CHECKING:
    from mainstem.encodings.topic_values import Codec
    from mainstem.schema.validation import Validator

# CPython 3.11 can fail to compile what several threads import at once ("AST constructor recursion depth mismatch").
_LOADING: Final = threading.Lock()
_FRAMES: Final = (b"\x00", b"\x01")


class StoredValues(NamedTuple):
    """Values as a topic has them, and the headers that each record with one of them needs."""

    values: list[Any]
    headers: Headers = ()

    def headers_of(self, value: Any, own: HeadersLike) -> Headers:
        """The headers of a record with ``value``: its own and these; a tombstone needs none."""
        return encoded_headers(own) + (self.headers if value is not None else ())


class EncodedRecords:
    """Keys of a log's topics as text, values as JSON. The module's docstring has the contract."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._schemas = KnownSchemas(log)

    def shown(self, record: Record) -> Record:
        """The record with its key as text and its value as JSON, where they are encoded and can be read."""
        names = {name for name, _ in record.headers}
        if self._has_frame(record.key, KEY_HEADER in names) and self._encodings(record.topic)[0] is not None:
            with contextlib.suppress(SchemaError):
                record = replace(record, key=self._codec.decode_key(record))
        if self._has_frame(record.value, VALUE_HEADER in names) and self._encodings(record.topic)[1] is not None:
            with contextlib.suppress(SchemaError):
                record = replace(record, value=self._codec.json_text(record))
        return record

    def encoded(self, topic: str, values: Sequence[Any]) -> StoredValues:
        """Values as the topic has them. Raises SchemaError for one that does not fit its columns."""
        if self._encodings(topic)[1] is None:
            return StoredValues(list(values))
        headers: list[tuple[str, bytes | None]] = []
        encoded = self._codec.encode_many(topic, [value_bytes(value) for value in values], headers)
        return StoredValues(list(encoded), tuple(headers))

    def require(self, topic: str, *values: Any) -> None:
        """Check values by the topic's schema. Raises SchemaError if one does not fit or there is no schema."""
        self._validator.require(topic, *values)

    def encoded_keys(self, topic: str, keys: Sequence[Any]) -> list[Any]:
        """Keys as the topic has them. Raises SchemaError for one that does not fit its columns."""
        if self._encodings(topic)[0] is None:
            return list(keys)
        return list(self._codec.encode_keys(topic, [key_bytes(key) for key in keys]))

    def encoded_key(self, topic: str, key: Any) -> Any:
        """One key as the topic has it."""
        return self.encoded_keys(topic, [key])[0]

    @staticmethod
    def _has_frame(data: bytes | None, in_header: bool) -> bool:
        return data is not None and (in_header or data[:1] in _FRAMES)

    def _encodings(self, topic: str) -> tuple[str | None, str | None]:
        """The encodings of a topic's keys and values."""
        try:
            known = self._schemas.schema(topic)
        except AuthorizationError:  # a user who may only write appends JSON, which every reader takes
            return None, None
        return (None, None) if known is None else (known.key_encoding, known.encoding)

    @functools.cached_property
    def _codec(self) -> Codec:
        with _LOADING, naming_the_extra():
            from mainstem.encodings.topic_values import Codec

        return Codec(self._log)

    @functools.cached_property
    def _validator(self) -> Validator:
        with _LOADING, naming_the_extra():
            from mainstem.schema.validation import Validator

        return Validator(self._log)


@functools.lru_cache(maxsize=4)
def encoded_records(log: Log) -> EncodedRecords:
    """The one of this log, which all share."""
    return EncodedRecords(log)
