"""A topic's columns as a Protobuf message: the one that its writers register. Pure functions.

A field keeps its number while its column has that name: ``former`` is the message that was registered before. The
number of a column that is gone is reserved. Scalars are ``optional``, because every column may be null. Times with a
zone are ``google.protobuf.Timestamp``; dates, times without a zone and decimals are text, as in the product's JSON
(docs/reference/types.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from mainstem.errors import DefinitionError
from mainstem.schema.arrow import value_type
from mainstem.schema.types import TopicSchema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_SCALARS: Final = (
    (pa.types.is_boolean, "bool"),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width <= 32, "int32"),
    (pa.types.is_integer, "int64"),
    (pa.types.is_float32, "float"),
    (pa.types.is_floating, "double"),
    (pa.types.is_binary, "bytes"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, _TIMESTAMP),
)


def protobuf_schema_of(topic: str, schema: TopicSchema, former: Any = None) -> str:
    """The .proto source of a topic's columns; ``former`` is a message's descriptor (google.protobuf), or None.

    Raises DefinitionError for a name that Protobuf does not take, and for a type that it has no form of.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    message = name if _NAME.fullmatch(name) else f"_{name}"
    fields = [(column.name, value_type(column.type)) for column in schema.columns]
    lines = list(_message(message, fields, former, topic))
    imported = ['import "google/protobuf/timestamp.proto";'] if any(_TIMESTAMP in line for line in lines) else []
    return "\n".join(['syntax = "proto3";', *imported, *lines, ""])


def _message(name: str, fields: list[tuple[str, pa.DataType]], former: Any, topic: str) -> Iterable[str]:
    known = {} if former is None else {each.name: each for each in former.fields}
    reserved = _reserved(former)
    last = max([*(end - 1 for _, end in reserved), *(each.number for each in known.values())], default=0)
    numbers = (known[field].number for field in known.keys() - dict(fields).keys())
    gone = sorted([*reserved, *((number, number + 1) for number in numbers)])
    yield f"message {name} {{"
    if gone:
        yield f"  reserved {', '.join(f'{start} to {end - 1}' for start, end in gone)};"
    for field, kind in fields:
        if not _NAME.fullmatch(field):
            raise DefinitionError(
                f"topic {topic}: column {field!r} cannot be a field in Protobuf: use letters, digits and '_' only"
            )
        before = known.get(field)
        number = before.number if before is not None else (last := last + 1)
        yield from _field(field, kind, number, None if before is None else before.message_type, topic)
    yield "}"


def _reserved(former: Any) -> list[tuple[int, int]]:
    """The reserved numbers of a message: from, and up to but not including."""
    if former is None:
        return []
    from google.protobuf import descriptor_pb2  # an extra's library

    former.CopyToProto(copied := descriptor_pb2.DescriptorProto())
    return [(each.start, each.end) for each in copied.reserved_range]


def _field(name: str, kind: pa.DataType, number: int, former: Any, topic: str) -> Iterable[str]:
    label, element = "optional ", kind
    if pa.types.is_list(kind):
        label, element = "repeated ", kind.value_type
    elif pa.types.is_map(kind):
        label, element = "", kind.item_type
        former = None if former is None else former.fields_by_name["value"].message_type
    if pa.types.is_list(element) or pa.types.is_map(element):
        raise DefinitionError(
            f"topic {topic}: column {name!r}: Protobuf has no arrays or maps directly inside of arrays or maps; put a "
            "STRUCT between them, or choose another encoding"
        )
    if pa.types.is_struct(element):
        word = f"{name}_message"
        lines = _message(word, [(each.name, each.type) for each in element], former, topic)
        yield from (f"  {line}" for line in lines)
    else:
        word = next((proto for is_kind, proto in _SCALARS if is_kind(element)), "string")
    if pa.types.is_map(kind):
        word = f"map<string, {word}>"
    yield f"  {label}{word} {name} = {number};"
