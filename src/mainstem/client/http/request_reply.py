"""The format of requests and replies in the log, so that a worker in any language can answer.

A request is a record of the request's topic with two headers:

    mainstem-correlation-id   text that names the request
    mainstem-reply-topic      the topic that the reply belongs into

A reply is a record of that topic whose *key* is the correlation id. Its value and headers are the answer's. With the
header ``mainstem-error`` (one line of text) it says that the request failed. Of several replies with one correlation
id the first counts.

An HTTP client gets a *request id*: the offset of the request in the log, and a secret whose hash is the correlation id.
So the gateway need not store pending requests, and a reader of the topic, who sees the correlation ids, cannot make the
request id of another client. Pure functions and values.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import struct
from dataclasses import dataclass
from typing import Final

from mainstem.errors import InputError, UnknownRequestError
from mainstem.model import TopicPartition, is_topic_name

CORRELATION_ID: Final = "mainstem-correlation-id"
REPLY_TOPIC: Final = "mainstem-reply-topic"
ERROR: Final = "mainstem-error"
REPLY_TOPIC_PREFIX: Final = "__mainstem_replies."
ERROR_CHARACTERS_MAX: Final = 500

_SECRET_BYTES: Final = 16
_PLACE = struct.Struct(">IQQ")
_TEXT_MAX: Final = 600
_DOMAIN: Final = b"mainstem request\0"


def reply_topic_of(topic: str) -> str:
    """Where the replies to a topic's requests are. Raises InputError for a topic that takes no requests."""
    name = REPLY_TOPIC_PREFIX + topic
    if topic.startswith("__"):
        raise InputError(f"{topic!r} is one of the log's own topics, and takes no requests")
    if not is_topic_name(name):
        raise InputError(f"requests need a topic whose name has at most {249 - len(REPLY_TOPIC_PREFIX)} characters")
    return name


def fresh_secret() -> bytes:
    """A secret for a new request."""
    return secrets.token_bytes(_SECRET_BYTES)


def repeatable_secret(*parts: str) -> bytes:
    """The secret of a request that may be repeated: the same parts, the idempotency key among them, give the same."""
    digest = hashlib.sha256(_DOMAIN)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest()[:_SECRET_BYTES]


def correlation_id(secret: bytes) -> str:
    """The text that names a request in the log."""
    return _text(hashlib.sha256(_DOMAIN + secret).digest()[:_SECRET_BYTES])


@dataclass(frozen=True, slots=True)
class RequestId:
    """The id in ``GET /requests/{id}``. ``reply_from``: replies are at this offset or after it, in any partition."""

    secret: bytes
    topic: str
    partition: int
    offset: int
    reply_from: int = 0

    @property
    def correlation_id(self) -> str:
        """The text that names the request in the log."""
        return correlation_id(self.secret)

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the request is."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return _text(self.secret + _PLACE.pack(self.partition, self.offset, self.reply_from) + self.topic.encode())

    @classmethod
    def parse(cls, text: str) -> RequestId:
        """Read the text form. Raises UnknownRequestError for what never was an id."""
        fixed = _SECRET_BYTES + _PLACE.size
        try:
            if len(text) > _TEXT_MAX or not text.isascii():
                raise ValueError
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            partition, offset, reply_from = _PLACE.unpack(data[_SECRET_BYTES:fixed])
            found = cls(data[:_SECRET_BYTES], data[fixed:].decode(), partition, offset, reply_from)
        except (ValueError, binascii.Error, struct.error):
            raise unknown_request() from None
        is_possible = max(offset, reply_from) < 2**63 and partition < 2**31 and is_topic_name(found.topic)
        if not is_possible or str(found) != text or found.topic.startswith("__"):
            raise unknown_request()
        return found


def unknown_request() -> UnknownRequestError:
    """The error for an unknown request id; the same for an invalid one and for another client's."""
    return UnknownRequestError("there is no such request; take the Location that its 202 gave")


def error_text(error: BaseException) -> str:
    """One line for the header ``mainstem-error``."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_CHARACTERS_MAX]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
