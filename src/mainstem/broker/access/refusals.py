"""Answers that refuse, made from what was asked: by the shapes that the protocol's messages share.

A request's topics, partitions and groups come back in its answer under nearly the same names; so a refusal is the
answer's own struct with its defaults, the names of what was asked, and the error. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mainstem.protocol.apis import entity
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.protocol.schema import Field, Message, Struct

_PARTITION_NAMES: Final = ("partition_index", "partition", "partition_id", "index")
_ERROR_NAMES: Final = ("error_code", "partition_error_code")
_NAMES: Final = ("name", "topic", "topic_name", "topic_id", "group_id", "key", "resource_type", "resource_name")
_UNKNOWN_OFFSETS: Final = ("base_offset", "low_watermark", "committed_offset", "high_watermark")


def refused_request(api_key: int, version: int, code: ErrorCode) -> Message:
    """An answer whose own error code says it all."""
    answer: Message = entity(api_key, version, False).of_defaults()
    _set_error(answer, code)
    return answer


def refused_items(answer: type[Struct], field_name: str, items: Iterable[Any], code: ErrorCode) -> list[Any]:
    """The entries of an answer's array ``field_name`` for refused ``items`` of the request.

    ``items`` are structs with a name or an id, and perhaps partitions; or names alone.
    """
    struct = _field(answer, field_name).struct
    assert struct is not None, f"{answer.__name__}.{field_name} is an array of structs"
    return [_refused(struct, item, code) for item in items]


def _refused(struct: type[Struct], item: Any, code: ErrorCode) -> Struct:
    answer: Struct = struct.of_defaults()
    _set_error(answer, code)
    for name in _UNKNOWN_OFFSETS:
        if hasattr(answer, name):
            setattr(answer, name, -1)
    if isinstance(item, str):
        setattr(answer, next(name for name in _NAMES if hasattr(answer, name)), item)
        return answer
    for name in _NAMES:
        if hasattr(answer, name):
            setattr(answer, name, getattr(item, name, getattr(answer, name)))
    _refuse_partitions(answer, item, code)
    return answer


def _refuse_partitions(answer: Struct, item: Any, code: ErrorCode) -> None:
    partitions = next((field for field in answer.__fields__ if _is_partitions(field)), None)
    if partitions is None or partitions.struct is None:
        return
    refused = []
    for number in _partition_numbers(item):
        each: Struct = partitions.struct.of_defaults()
        setattr(each, next(name for name in _PARTITION_NAMES if hasattr(each, name)), number)
        _set_error(each, code)
        for name in _UNKNOWN_OFFSETS:
            if hasattr(each, name):
                setattr(each, name, -1)
        refused.append(each)
    setattr(answer, partitions.name, refused)


def _is_partitions(field: Field) -> bool:
    return field.struct is not None and field.kind == "array" and _has(field.struct, _PARTITION_NAMES)


def _partition_numbers(item: Any) -> list[int]:
    """The partitions that a topic of a request names, whatever the request calls them."""
    for name in ("partitions", "partition_data", "partition_indexes"):
        asked = getattr(item, name, None)
        if asked is not None:
            return [each if isinstance(each, int) else _number(each) for each in asked]
    return []


def _number(item: Any) -> int:
    return int(next(getattr(item, name) for name in _PARTITION_NAMES if hasattr(item, name)))


def _set_error(answer: Struct, code: ErrorCode) -> None:
    for name in _ERROR_NAMES:
        if hasattr(answer, name):
            setattr(answer, name, code)
    if hasattr(answer, "error_message"):
        setattr(answer, "error_message", describe(code).message)  # noqa: B010 - not every struct has one


def _has(struct: type[Struct], names: Iterable[str]) -> bool:
    declared = {field.name for field in struct.__fields__}
    return any(name in declared for name in names)


def _field(struct: type[Struct], name: str) -> Field:
    return next(field for field in struct.__fields__ if field.name == name)
