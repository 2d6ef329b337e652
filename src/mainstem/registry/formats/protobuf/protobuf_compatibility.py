"""Whether one Protobuf schema reads data of another: what the wire format allows, and what keeps the meaning.

Fields are compared by number. Their names may change; fields, messages and enum values may be added; fields may be
removed. A message that data may contain must not be removed. Types may change within a group that the wire format reads
alike: int32, uint32, int64, uint64, bool and enums; sint32 and sint64; string and bytes; fixed32 and sfixed32; fixed64
and sfixed64. Sources: "Updating A Message Type" in the Protobuf language guide; the rules that the Schema Registry
documents.

Contract: pure; each pair of messages is compared once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2

from mainstem.registry.formats.schema_format import Incompatibility

_Field = descriptor_pb2.FieldDescriptorProto
_GROUPS: Final = (
    ("INT32", "UINT32", "INT64", "UINT64", "BOOL", "ENUM"),
    ("SINT32", "SINT64"),
    ("STRING", "BYTES"),
    ("FIXED32", "SFIXED32"),
    ("FIXED64", "SFIXED64"),
)
_GROUP_OF: Final = {getattr(_Field, f"TYPE_{name}"): group[0] for group in _GROUPS for name in group}
_MESSAGES: Final = (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP)
_TEXTS: Final = (_Field.TYPE_STRING, _Field.TYPE_BYTES)
_FOUND_MAX: Final = 100

_Pair = tuple[Any, Any, str]
"""A message of the reader's, one of the writer's, and the full name of the reader's."""


def incompatibilities_between(reader: Sequence[Any], writer: Sequence[Any]) -> list[Incompatibility]:
    """Why data of ``writer`` cannot be read by ``reader``; at most a hundred reasons.

    Both are descriptors of files: of what is imported, then the schema's own.
    """
    if reader[-1].package != writer[-1].package:
        text = f"the package changed from {writer[-1].package or 'none'!r} to {reader[-1].package or 'none'!r}"
        return [Incompatibility("PACKAGE_CHANGED", reader[-1].package, text)]
    found: list[Incompatibility] = []
    known, written = _messages(reader), _messages(writer)
    unchecked = list(_message_pairs(reader[-1].message_type, writer[-1].message_type, reader[-1].package, found))
    seen: set[str] = set()
    while unchecked and len(found) < _FOUND_MAX:
        to_message, from_message, name = unchecked.pop()
        if name in seen:
            continue
        seen.add(name)
        found += _oneof_changes(to_message, from_message, name)
        found += _field_changes(to_message, from_message, name)
        unchecked += _message_pairs(to_message.nested_type, from_message.nested_type, name, found)
        for field in to_message.field:  # messages of other files may have changed, too
            other = field.type_name.removeprefix(".")
            if field.type in _MESSAGES and other in known and other in written:
                unchecked.append((known[other], written[other], other))
    return found[:_FOUND_MAX]


def _messages(files: Sequence[Any]) -> Mapping[str, Any]:
    """All messages of the files by full name."""
    found: dict[str, Any] = {}
    unvisited = [(file.package, message) for file in files for message in file.message_type]
    while unvisited:
        scope, message = unvisited.pop()
        name = _joined(scope, message.name)
        found[name] = message
        unvisited += [(name, nested) for nested in message.nested_type]
    return found


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _message_pairs(known: Any, written: Any, scope: str, found: list[Incompatibility]) -> Iterator[_Pair]:
    """The messages of one scope that both have; those that are gone go to ``found``."""
    by_name = {each.name: each for each in known}
    for message in written:
        name = _joined(scope, message.name)
        if message.name in by_name:
            yield by_name[message.name], message, name
        elif not message.options.map_entry:
            found.append(Incompatibility("MESSAGE_REMOVED", name, f"the message {name} is gone"))


def _field_changes(known: Any, written: Any, name: str) -> Iterator[Incompatibility]:
    fields = {field.number: field for field in written.field}
    for field in known.field:
        place = f"{name}.{field.name}"
        if field.number in fields:
            yield from _field_change(field, fields[field.number], place)
        elif field.label == _Field.LABEL_REQUIRED:
            yield Incompatibility("REQUIRED_FIELD_ADDED", place, f"the required field {field.number} was added")
    numbers = {field.number for field in known.field}
    for field in written.field:
        if field.label == _Field.LABEL_REQUIRED and field.number not in numbers:
            text = f"the required field {field.number} was removed"
            yield Incompatibility("REQUIRED_FIELD_REMOVED", f"{name}.{field.name}", text)


def _field_change(field: Any, before: Any, place: str) -> Iterator[Incompatibility]:
    was, now = _type_name(before), _type_name(field)
    if (field.type in _MESSAGES) != (before.type in _MESSAGES):
        yield Incompatibility("FIELD_KIND_CHANGED", place, f"field {field.number} changed from {was} to {now}")
    elif field.type in _MESSAGES:
        if field.type_name != before.type_name:
            text = f"field {field.number} changed from {was} to {now}"
            yield Incompatibility("FIELD_NAMED_TYPE_CHANGED", place, text)
    elif _GROUP_OF.get(field.type, field.type) != _GROUP_OF.get(before.type, before.type):
        text = f"field {field.number} changed from {was} to {now}"
        yield Incompatibility("FIELD_SCALAR_KIND_CHANGED", place, text)
    elif (field.label == _Field.LABEL_REPEATED) != (before.label == _Field.LABEL_REPEATED) and (
        field.type not in _TEXTS
    ):
        text = f"field {field.number} changed between one number and many"
        yield Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", place, text)


def _type_name(field: Any) -> str:
    return str(field.type_name.removeprefix(".") or _Field.Type.Name(field.type).removeprefix("TYPE_").lower())


def _oneof_changes(known: Any, written: Any, name: str) -> Iterator[Incompatibility]:
    before, after = _oneofs(written), _oneofs(known)
    outside = {field.number for field in written.field} - {number for group in before.values() for number in group}
    for oneof, numbers in after.items():
        place, earlier = f"{name}.{oneof}", before.get(oneof)
        moved = sorted(numbers & outside)
        if earlier is None and len(moved) > 1:
            text = f"the fields {moved} moved into one oneof: data may have several of them"
            yield Incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", place, text)
        if earlier is not None and moved:
            text = f"the fields {moved} moved into a oneof that was there"
            yield Incompatibility("FIELD_MOVED_TO_EXISTING_ONEOF", place, text)
        if earlier is not None and earlier - numbers:
            text = f"the fields {sorted(earlier - numbers)} were removed from the oneof"
            yield Incompatibility("ONEOF_FIELD_REMOVED", place, text)


def _oneofs(message: Any) -> dict[str, set[int]]:
    """The numbers of the fields of each oneof that was written as one."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found
