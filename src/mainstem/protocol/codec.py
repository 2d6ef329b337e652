"""Frames of the Kafka protocol: bytes in, messages out, and back. No I/O.

The broker's side is ``decode_header``, ``decode_request`` and ``encode_response``; the client's side is
``encode_request`` and ``decode_response``. Messages are the classes of ``mainstem.protocol.messages``, one for all
versions of an API; a version is named next to them::

    from mainstem.protocol.messages.metadata import MetadataRequest

    frame = encode_request(MetadataRequest(topics=None), 12, correlation_id=7, client_id="me")
    response = decode_response(answer, ApiKey.METADATA, 12).body

A frame given to a ``decode_…`` function comes without its four bytes of length; what an ``encode_…`` function returns
has them in front. Record batches are never copied: they are read as memoryviews into the frame, which they keep alive,
and written as the buffers they came in.

Any error in a frame raises FrameError; no length or count in it is used before it is checked against the bytes that are
there (``compiler`` says how).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from mainstem.errors import FrameError, InputError
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.compiler import MAX_ELEMENTS, MAX_TAGGED_FIELDS, M, read_uvarint, reader, writer
from mainstem.protocol.schema import Buffer, Message

Chunks: TypeAlias = list[Buffer]

_HEADER: Final = struct.Struct(">hhih")
_INT32: Final = struct.Struct(">i")
_JOIN_BELOW_BYTES: Final = 4096


class RequestHeader(NamedTuple):
    """The header of a request; ``body_at`` is the index after it, for a version without tagged fields."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


class Request(NamedTuple):
    """A request as it was read. ``body`` is the API's request class."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: Any


class Answerable(Protocol):
    """The fields of a request that its answer needs."""

    @property
    def api_version(self) -> int: ...

    @property
    def correlation_id(self) -> int: ...


class Response(NamedTuple):
    """A response as it was read. ``body`` is the API's response class."""

    correlation_id: int
    body: Any


def decode_header(frame: Buffer) -> RequestHeader:
    """The header of a request of any API and version, known or not. Raises FrameError."""
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(frame, 0)
    except struct.error as error:
        raise FrameError(f"a frame of {len(frame)} bytes is too short for a request's header") from error
    at = _HEADER.size
    if length < 0:
        return RequestHeader(api_key, api_version, correlation_id, None, at)
    if at + length > len(frame):
        raise FrameError(f"the client id is {length} bytes long, {len(frame) - at} are left")
    try:
        client_id = str(frame[at : at + length], "utf-8")
    except UnicodeDecodeError as error:
        raise FrameError("the client id is not UTF-8") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, at + length)


def decode_request(frame: Buffer, header: RequestHeader | None = None, elements_max: int = MAX_ELEMENTS) -> Request:
    """A request of an API and version that are declared. Raises FrameError; LargeFrameError for one with more elements.

    Bytes behind the message are ignored, as Kafka does: librdkafka 2.16 leaves some behind Metadata 13.
    """
    header = header or decode_header(frame)
    message = entity(header.api_key, header.api_version, True)
    at = header.body_at
    if header.api_version in message.__flexible__:
        at = _skip_tags(frame, at)
    body, _ = reader(message, header.api_version, elements_max)(frame, at)
    return Request(header.api_key, header.api_version, header.correlation_id, header.client_id, body)


def encode_response(request: Answerable, body: Message, version: int | None = None) -> Chunks:
    """The answer to ``request`` as buffers to be sent one after another: small parts joined, record batches uncopied.

    ``version`` is the response's, where it is not the request's: an ApiVersions request of an unknown version is
    answered in version 0.
    """
    version = request.api_version if version is None else version
    chunks: Chunks = [b"", _INT32.pack(request.correlation_id)]
    # A client reads ApiVersions responses before it knows what the broker speaks: their header never has tags.
    if version in body.__flexible__ and body.__api_key__ != ApiKey.API_VERSIONS:
        chunks.append(b"\x00")
    writer(type(body), version)(body, chunks)
    return _framed(chunks)


def encode_request(body: Message, version: int, *, correlation_id: int, client_id: str | None) -> Chunks:
    """A request as buffers to be sent one after another. Raises InputError for a number that its field cannot hold."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    chunks: Chunks = [b"", _HEADER.pack(body.__api_key__, version, correlation_id, length) + name]
    if version in body.__flexible__:
        chunks.append(b"\x00")
    try:
        writer(type(body), version)(body, chunks)
    except struct.error as error:
        raise InputError("a number is outside the range of the Kafka protocol; use a smaller one") from error
    return _framed(chunks)


def decode_response(frame: Buffer, api_key: int, version: int) -> Response:
    """The answer to a request of ``api_key`` and ``version``. Raises FrameError; bytes after it are ignored."""
    message = entity(api_key, version, False)
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
    except struct.error as error:
        raise FrameError(f"a frame of {len(frame)} bytes is too short for a response's header") from error
    at = 4
    if version in message.__flexible__ and api_key != ApiKey.API_VERSIONS:
        at = _skip_tags(frame, at)
    body, _ = reader(message, version)(frame, at)
    return Response(correlation_id, body)


def encode_message(body: Message, version: int) -> bytes:
    """A message alone, without a header or a length; for what is kept in records."""
    chunks: Chunks = []
    writer(type(body), version)(body, chunks)
    return b"".join(chunks)


def decode_message(message: type[M], version: int, data: Buffer, at: int = 0) -> M:
    """Read what ``encode_message`` wrote. Raises FrameError; bytes left over are an error, too."""
    body, end = reader(message, version)(data, at)
    if end != len(data):
        raise FrameError(f"{len(data) - end} bytes are left over after {message.__name__} v{version}")
    return body


def _skip_tags(frame: Buffer, at: int) -> int:
    """Skip a header's tagged fields: none is defined that matters here."""
    try:
        count, at = read_uvarint(frame, at)
        if count > MAX_TAGGED_FIELDS:
            raise FrameError(f"the header has {count} tagged fields; at most {MAX_TAGGED_FIELDS} are read")
        for _ in range(count):
            _, at = read_uvarint(frame, at)
            size, at = read_uvarint(frame, at)
            at += size
    except IndexError as error:
        raise FrameError("the header's tagged fields end too early") from error
    return at


def _framed(chunks: Chunks) -> Chunks:
    """Put the length in front, and join neighbouring small chunks."""
    size = sum(map(len, chunks))
    chunks[0] = _INT32.pack(size)
    if size < _JOIN_BELOW_BYTES:
        return [b"".join(chunks)]
    return list(_joined(chunks))


def _joined(chunks: Iterable[Buffer]) -> Iterable[Buffer]:
    small: Chunks = []
    for chunk in chunks:
        if len(chunk) < _JOIN_BELOW_BYTES:
            small.append(chunk)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield chunk
    if small:
        yield b"".join(small)
