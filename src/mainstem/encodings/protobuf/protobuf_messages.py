"""Classes of Protobuf messages, made of a schema's descriptors when values are read or written.

A schema is one text: base64 of a ``FileDescriptorSet`` with all imports, the schema's own file last. Which message of
the file a value is, comes after the value's frame as a list of numbers: the place of the message in the file, then in
that message, and so on. A single zero byte means the first message.
"""

from __future__ import annotations

import base64
import functools
from typing import Any, Final

from mainstem.errors import CorruptBatchError, MissingDependencyError, SchemaError
from mainstem.record.reader import read_varint

FIRST_MESSAGE: Final = b"\x00"
_DEPTH_MAX: Final = 100


@functools.lru_cache(maxsize=256)
def file_of(text: str) -> Any:
    """The descriptor of a schema's own file. Raises SchemaError."""
    descriptor_pb2, descriptor_pool, _, message = _library()
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text)).file
        for each in files:
            pool.Add(each)
        return pool.FindFileByName(files[-1].name)
    except (TypeError, ValueError, KeyError, IndexError, message.DecodeError) as error:
        raise SchemaError(f"the Protobuf schema cannot be read: {' '.join(str(error).split())[:300]}") from error


@functools.lru_cache(maxsize=1024)
def message_class(text: str, place: tuple[int, ...] = (0,)) -> Any:
    """The class of a message of a schema. Raises SchemaError."""
    _, _, message_factory, _ = _library()
    message, inside = None, list(file_of(text).message_types_by_name.values())
    for number in place:
        if not 0 <= number < len(inside):
            raise SchemaError(f"the schema has no message at place {', '.join(map(str, place[:10]))}")
        message = inside[number]
        inside = list(message.nested_types)
    if message is None or message.GetOptions().map_entry:
        raise SchemaError("the value names no message of its schema")
    return message_factory.GetMessageClass(message)


def split_place(data: bytes) -> tuple[tuple[int, ...], int]:
    """The place of the message that a value names after its frame, and the bytes that it takes. Raises SchemaError."""
    if data[:1] == FIRST_MESSAGE:
        return (0,), 1
    try:
        count, at = read_varint(data, 0)
        if not 0 < count <= _DEPTH_MAX:
            raise SchemaError(f"the place of its message has {count} numbers")
        place = []
        for _ in range(count):
            number, at = read_varint(data, at)
            place.append(number)
    except CorruptBatchError as error:
        raise SchemaError(f"the place of its message cannot be read: {error}") from error
    return tuple(place), at


def _library() -> tuple[Any, Any, Any, Any]:
    """Modules of protobuf. Raises MissingDependencyError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "protobuf must be installed for Protobuf: pip install 'mainstem[registry]'"
        ) from error
    return descriptor_pb2, descriptor_pool, message_factory, message
