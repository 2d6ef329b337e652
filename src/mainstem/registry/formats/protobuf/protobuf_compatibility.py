"""Whether one Protobuf schema reads data of another: what the wire format allows, and what keeps the meaning.

Fields are compared by number, and extensions as fields of the message that they extend. Their names may change; fields,
messages and enum values may be added; fields may be removed. A message that data may contain must not be removed. Types
may change within a group that the wire format reads alike: int32, uint32, int64, uint64, bool and enums; sint32 and
sint64; string and bytes; fixed32 and sfixed32; fixed64 and sfixed64. Fields of which data may have several must not
come together in one oneof. Sources: "Updating A Message Type" in the Protobuf language guide; the rules that the Schema
Registry documents. In editions, what counts is the meaning of features: a required field, and a message that is written
as a group.

Contract: pure; each pair of messages is compared once.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_KINDS: Final = {_Field.TYPE_MESSAGE: "message", _Field.TYPE_GROUP: "group"}
_TEXTS: Final = (_Field.TYPE_STRING, _Field.TYPE_BYTES)
_FOUND_MAX: Final = 100

_Pair = tuple[Any, Any]
"""A message (Descriptor) of the reader's, and one of the writer's."""


def incompatibilities_between(reader: Any, writer: Any) -> list[Incompatibility]:
    """Why data of ``writer`` cannot be read by ``reader``, both FileDescriptor; at most a hundred reasons."""
    if reader.package != writer.package:
        text = f"the package changed from {writer.package or 'none'!r} to {reader.package or 'none'!r}"
        return [Incompatibility("PACKAGE_CHANGED", reader.package, text)]
    found = list(_extension_changes(reader, writer))
    unchecked = list(_common_messages(reader.message_types_by_name, writer.message_types_by_name, found))
    seen: set[str] = set()
    while unchecked and len(found) < _FOUND_MAX:
        known, written = unchecked.pop()
        if known.full_name in seen:
            continue
        seen.add(known.full_name)
        found += _oneof_changes(known, written)
        found += _field_changes(known, written)
        unchecked += _common_messages(known.nested_types_by_name, written.nested_types_by_name, found)
        unchecked += _messages_of_fields(known, written)  # messages of other files may have changed, too
    return found[:_FOUND_MAX]


def _extension_changes(reader: Any, writer: Any) -> Iterator[Incompatibility]:
    """Extensions are fields of the message that they extend, with numbers of their own there. One may go away.

    Those of options are never in data.
    """
    known = _extensions(reader)
    for place, before in _extensions(writer).items():
        if place in known and not place[0].startswith("google.protobuf."):
            yield from _field_change(known[place], before, known[place].full_name)


def _extensions(file: Any) -> dict[tuple[str, int], Any]:
    """The extensions that a file defines, by what they extend and their number."""
    scopes = [file, *file.message_types_by_name.values()]
    found: dict[tuple[str, int], Any] = {}
    while scopes:
        scope = scopes.pop()
        for each in scope.extensions_by_name.values():
            found[each.containing_type.full_name, each.number] = each
        if scope is not file:
            scopes += scope.nested_types
    return found


def _common_messages(known: Any, written: Any, found: list[Incompatibility]) -> Iterator[_Pair]:
    """The messages of one scope that both have; those that are gone go to ``found``."""
    for name, message in written.items():
        if message.GetOptions().map_entry:
            continue
        if name in known:
            yield known[name], message
        else:
            text = f"the message {message.full_name} is gone"
            found.append(Incompatibility("MESSAGE_REMOVED", message.full_name, text))


def _messages_of_fields(known: Any, written: Any) -> Iterator[_Pair]:
    """The messages of fields that both have, where they are of one name."""
    for number, field in known.fields_by_number.items():
        before = written.fields_by_number.get(number)
        now, was = _message_of(field), before and _message_of(before)
        if now is not None and was is not None and now.full_name == was.full_name:
            yield now, was


def _message_of(field: Any) -> Any:
    """The message type of a field, of a map's values for a map; None for another type."""
    message = field.message_type
    return message.fields_by_name["value"].message_type if _is_map(message) else message


def _field_changes(known: Any, written: Any) -> Iterator[Incompatibility]:
    for number, field in known.fields_by_number.items():
        before = written.fields_by_number.get(number)
        if before is not None:
            yield from _field_change(field, before, field.full_name)
        elif field.is_required:
            yield Incompatibility("REQUIRED_FIELD_ADDED", field.full_name, f"the required field {number} was added")
    for number, field in written.fields_by_number.items():
        if field.is_required and number not in known.fields_by_number:
            text = f"the required field {number} was removed"
            yield Incompatibility("REQUIRED_FIELD_REMOVED", field.full_name, text)


def _field_change(field: Any, before: Any, place: str) -> Iterator[Incompatibility]:
    changed = f"field {field.number} changed from {_type_name(before)} to {_type_name(field)}"
    kind = _kind(field)
    if kind != _kind(before):
        yield Incompatibility("FIELD_KIND_CHANGED", place, changed)
    elif kind == "map":
        for part in ("key", "value"):
            now, was = (each.message_type.fields_by_name[part] for each in (field, before))
            yield from _field_change(now, was, f"{place}.{part}")
    elif kind != "scalar":
        if field.message_type.full_name != before.message_type.full_name:
            yield Incompatibility("FIELD_NAMED_TYPE_CHANGED", place, changed)
    elif _GROUP_OF.get(field.type, field.type) != _GROUP_OF.get(before.type, before.type):
        yield Incompatibility("FIELD_SCALAR_KIND_CHANGED", place, changed)
    elif field.is_repeated != before.is_repeated and field.type not in _TEXTS:
        text = f"field {field.number} changed between one number and many"
        yield Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", place, text)
    if field.is_required and not before.is_required:
        yield Incompatibility("REQUIRED_FIELD_ADDED", place, f"field {field.number} became required")


def _is_map(message: Any) -> bool:
    return message is not None and bool(message.GetOptions().map_entry)


def _kind(field: Any) -> str:
    return "map" if field.is_repeated and _is_map(field.message_type) else _KINDS.get(field.type, "scalar")


def _type_name(field: Any) -> str:
    if _kind(field) == "map":
        return f"map<{', '.join(_type_name(each) for each in field.message_type.fields)}>"
    named = field.message_type or field.enum_type
    if field.type == _Field.TYPE_GROUP:
        return f"group {named.full_name}"
    return str(named.full_name) if named else _Field.Type.Name(field.type).removeprefix("TYPE_").lower()


def _oneof_changes(known: Any, written: Any) -> Iterator[Incompatibility]:
    before = {field.number: oneof for oneof in written.oneofs for field in oneof.fields}
    for oneof in known.oneofs:
        earlier = [field.number for field in oneof.fields if field.number in written.fields_by_number]
        # a oneof of one field, as protoc makes for a proto3 field that is optional, excludes nothing
        shared = {before[each].name for each in earlier if each in before and len(before[each].fields) > 1}
        alone = [each for each in earlier if each not in before or before[each].name not in shared]
        if len(shared) + len(alone) > 1:
            is_new = not shared and oneof.name not in written.oneofs_by_name
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if is_new else "FIELD_MOVED_TO_EXISTING_ONEOF"
            text = f"data may have several of the fields {sorted(earlier)}, which are in one oneof now"
            yield Incompatibility(kind, oneof.full_name, text)
    for oneof in filter(_is_written, written.oneofs):
        gone = sorted(field.number for field in oneof.fields if field.number not in known.fields_by_number)
        if gone and (len(gone) < len(oneof.fields) or oneof.name in known.oneofs_by_name):
            text = f"the fields {gone} were removed from the oneof"
            yield Incompatibility("ONEOF_FIELD_REMOVED", oneof.full_name, text)


def _is_written(oneof: Any) -> bool:
    """False for the oneof that protoc makes for a proto3 field that is ``optional``."""
    return len(oneof.fields) > 1 or oneof.name.lstrip("X") != f"_{oneof.fields[0].name}"
