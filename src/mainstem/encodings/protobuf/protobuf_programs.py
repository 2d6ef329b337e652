"""Programs for the native decoder: the fields of a message, and which parts of it columns ask for.

Natively read are messages of proto3, of any nesting. A column that asks for what no column natively takes from such a
field (a map as text, for example) makes that the whole message is read by Protobuf's own library. Pure; kept by message
and columns.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mainstem.encodings.protobuf.protobuf_json import Wanted, is_map, is_plain
from mainstem.record.native import native_protobuf as native

_KINDS: Final = {
    1: (native.BITS64, native.FIXED64),  # double
    2: (native.UNSIGNED32, native.FIXED32),  # float
    3: (native.BITS64, native.VARINT),  # int64
    4: (native.BITS64, native.VARINT),  # uint64
    5: (native.SIGNED32, native.VARINT),  # int32
    6: (native.BITS64, native.FIXED64),  # fixed64
    7: (native.UNSIGNED32, native.FIXED32),  # fixed32
    8: (native.BOOLEAN, native.VARINT),
    9: (native.TEXT, native.LENGTH),
    11: (native.MESSAGE, native.LENGTH),
    12: (native.BYTES_KIND, native.LENGTH),
    13: (native.UNSIGNED32, native.VARINT),  # uint32
    14: (native.SIGNED32, native.VARINT),  # enum
    15: (native.SIGNED32, native.FIXED32),  # sfixed32
    16: (native.BITS64, native.FIXED64),  # sfixed64
    17: (native.ZIGZAG32, native.VARINT),
    18: (native.ZIGZAG64, native.VARINT),
}
"""The kind and the wire type of each type of a field, by its number in descriptors. Groups have none."""
_MESSAGE: Final = 11
STRING: Final = 9
"""The type of a field, by its number in descriptors."""
_INTEGERS: Final = frozenset({3, 4, 5, 6, 7, 13, 15, 16, 17, 18})


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A field that is noted: for a column (its number), or, with None, to see whether its messages are well-formed."""

    field: Any
    place: int
    column: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A message's program for the native decoder, and what it notes of single and of repeated fields."""

    rows: Any
    singles: tuple[FieldPart, ...]
    single_rows: int
    repeated: tuple[FieldPart, ...]


@functools.lru_cache(maxsize=1024)
def program_of(message: Any, wanted: Wanted) -> Program:
    """The program of a message (its descriptor) for these columns."""
    numbers = {name: number for number, (name, _) in enumerate(wanted)}
    fields = sorted(message.fields, key=lambda each: each.number)
    rows = np.full((len(fields), native.PROGRAM_COLUMNS), -1, np.int64)
    singles: list[FieldPart] = []
    repeated: list[FieldPart] = []
    single_rows = 0
    for row, field in zip(rows, fields, strict=True):
        row[native.NUMBER] = field.number
        row[native.KIND], row[native.WIRE] = _KINDS[field.type]
        row[native.REPEATED] = field.is_repeated
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            row[native.ONEOF] = oneof.index
        column = numbers.get(field.name)
        is_noted = column is not None or field.type == _MESSAGE
        if field.is_repeated and is_noted:
            row[native.PLACE] = len(repeated)
            repeated.append(FieldPart(field, len(repeated), column))
        elif is_noted or row[native.ONEOF] >= 0:
            row[native.PLACE] = single_rows
            if is_noted:
                singles.append(FieldPart(field, single_rows, column))
            single_rows += 1
    return Program(rows, tuple(singles), single_rows, tuple(repeated))


@functools.lru_cache(maxsize=1024)
def is_native(message: Any, wanted: Wanted) -> bool:
    """Whether a message (its descriptor) is read natively into these columns."""
    return _is_proto3(message, set()) and _takes(message, wanted)


def _is_proto3(message: Any, seen: set[str]) -> bool:
    """Whether all that may stand in a message is declared in proto3: no closed enums, groups or required fields."""
    from google.protobuf import descriptor_pb2  # an extra's library

    if message.full_name in seen:
        return True
    seen.add(message.full_name)
    message.file.CopyToProto(file := descriptor_pb2.FileDescriptorProto())
    if file.syntax != "proto3":
        return False
    enums = [each.enum_type for each in message.fields if each.enum_type is not None]
    inner = [each.message_type for each in message.fields if each.message_type is not None]
    return not any(each.is_closed for each in enums) and all(_is_proto3(each, seen) for each in inner)


def _takes(message: Any, wanted: Wanted) -> bool:
    named = ((message.fields_by_name.get(name), kind) for name, kind in wanted)
    return all(field is None or _takes_field(field, kind) for field, kind in named)


def _takes_field(field: Any, kind: pa.DataType) -> bool:
    if not field.is_repeated:
        return _takes_one(field, kind)
    if not is_map(field):
        return bool(pa.types.is_list(kind)) and _takes_one(field, kind.value_type)
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    if not pa.types.is_map(kind) or not _takes_one(value, kind.item_type):
        return False
    if key.type == STRING:
        return True
    return key.type in _INTEGERS and bool(pa.types.is_string(kind.key_type) or pa.types.is_integer(kind.key_type))


def _takes_one(field: Any, kind: pa.DataType) -> bool:
    if field.message_type is None or not is_plain(field.message_type) or not pa.types.is_struct(kind):
        return True
    return _takes(field.message_type, wanted_of(kind))


def wanted_of(kind: pa.DataType) -> Wanted:
    """The fields of a STRUCT as columns that are wanted."""
    return tuple((each.name, each.type) for each in kind)
