"""Protobuf descriptors as .proto text: one text for one descriptor, and protoc reads the same descriptor from it.

Comments and layout are not in a descriptor, so they are not in the text. Types have their full names with a dot in
front. Custom options are written if the files that define them are given.

Contract: pure. Made for descriptors that protoc wrote or accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    getattr(_Field, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_MESSAGE_MAX: Final = 1 << 29
_ENUM_MAX: Final = (1 << 31) - 1
_EDITION: Final = "EDITION_"
_FEATURES: Final = "features"


def file_text(files: Iterable[Any], name: str, *, is_sorted: bool = False) -> str:
    """The text of the file ``name``, one of ``files`` (FileDescriptorProto); the others are what it imports.

    ``is_sorted``: with imports in the order of their names.
    """
    pool = descriptor_pool.DescriptorPool()
    by_name = {each.name: each for each in files}
    descriptor_pb2.DESCRIPTOR.CopyToProto(own := descriptor_pb2.FileDescriptorProto())
    by_name.setdefault(own.name, own)
    for each in by_name.values():
        pool.Add(each)
    known = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    for each in by_name:
        pool.FindFileByName(each)  # builds it, so that its options are known to the classes
    file = known.FromString(by_name[name].SerializeToString())
    return "\n".join(_Writer(file).lines(is_sorted=is_sorted)) + "\n"


class _Writer:
    """Writes one file. Each method yields lines."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._syntax = file.syntax or "proto2"

    def lines(self, *, is_sorted: bool) -> Iterator[str]:
        file = self._file
        if self._syntax == "editions":
            yield f'edition = "{descriptor_pb2.Edition.Name(file.edition).removeprefix(_EDITION)}";'
        else:
            yield f'syntax = "{self._syntax}";'
        if file.package:
            yield f"package {file.package};"
        kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
        imports = [f'import {kinds.get(nth, "")}"{name}";' for nth, name in enumerate(file.dependency)]
        imports += [f'import option "{name}";' for name in file.option_dependency]
        yield from sorted(imports) if is_sorted else imports
        yield from _statements(file.options)
        groups = self._groups(file.extension)
        for message in file.message_type:
            if message.name not in groups:
                yield from self._message(message)
        for enum in file.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(file.extension, file.message_type)
        for service in file.service:
            yield from self._service(service)

    def _message(self, message: Any) -> Iterator[str]:
        yield f"{_visibility(message)}message {message.name} {{"
        yield from _indented(self._message_body(message))
        yield "}"

    def _message_body(self, message: Any) -> Iterator[str]:
        yield from _statements(message.options)
        yield from _reserved(message, _MESSAGE_MAX, 1)
        for span in message.extension_range:
            yield f"extensions {_span(span.start, span.end - 1, _MESSAGE_MAX - 1)}{_bracketed(span.options)};"
        groups = self._groups((*message.field, *message.extension))
        written: set[int] = set()
        for field in message.field:
            index = field.oneof_index
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message.nested_type)
            elif index not in written:
                written.add(index)
                yield from self._oneof(message, index)
        for nested in message.nested_type:
            if not nested.options.map_entry and nested.name not in groups:
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(message.extension, message.nested_type)

    def _oneof(self, message: Any, index: int) -> Iterator[str]:
        oneof = message.oneof_decl[index]
        yield f"oneof {oneof.name} {{"
        yield from _indented(_statements(oneof.options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield from _indented(self._field(field, message.nested_type, label=""))
        yield "}"

    def _field(self, field: Any, nested: Any, label: str | None = None) -> Iterator[str]:
        entry = _map_entry(field, nested)
        options = _bracketed(field.options, _own_options(field))
        if entry is not None:
            key, value = entry.field
            yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{options};"
            return
        label = self._label(field) if label is None else label
        if not self._is_group(field):
            yield f"{label}{_type(field)} {field.name} = {field.number}{options};"
            return
        group = next(each for each in nested if each.name == _last(field.type_name))
        yield f"{label}group {group.name} = {field.number}{options} {{"
        yield from _indented(self._message_body(group))
        yield "}"

    def _label(self, field: Any) -> str:
        if field.label == _Field.LABEL_REPEATED:
            return "repeated "
        if self._syntax == "proto2":
            return "required " if field.label == _Field.LABEL_REQUIRED else "optional "
        return "optional " if field.proto3_optional else ""

    def _groups(self, fields: Iterable[Any]) -> set[str]:
        """The names of messages that are written within a field."""
        return {_last(field.type_name) for field in fields if self._is_group(field)}

    def _is_group(self, field: Any) -> bool:
        return bool(field.type == _Field.TYPE_GROUP and self._syntax == "proto2")

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"{_visibility(enum)}enum {enum.name} {{"
        yield from _indented(_statements(enum.options))
        for value in enum.value:
            yield f"  {value.name} = {value.number}{_bracketed(value.options)};"
        yield from _indented(_reserved(enum, _ENUM_MAX, 0))
        yield "}"

    def _extensions(self, fields: Any, nested: Any) -> Iterator[str]:
        for extendee in dict.fromkeys(field.extendee for field in fields):
            yield f"extend {extendee} {{"
            for field in fields:
                if field.extendee == extendee:
                    yield from _indented(self._field(field, nested))
            yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(_statements(service.options))
        for method in service.method:
            taken = f"{'stream ' * method.client_streaming}{method.input_type}"
            given = f"{'stream ' * method.server_streaming}{method.output_type}"
            options = list(_statements(method.options))
            yield f"  rpc {method.name} ({taken}) returns ({given}){' {' if options else ';'}"
            if options:
                yield from _indented(_indented(options))
                yield "  }"
        yield "}"


def _visibility(holder: Any) -> str:
    """Whether other files may use a type, where that is said (edition 2024)."""
    words: dict[int, str] = {descriptor_pb2.VISIBILITY_LOCAL: "local ", descriptor_pb2.VISIBILITY_EXPORT: "export "}
    return words.get(holder.visibility, "")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return ("  " + line for line in lines)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _type(field: Any) -> str:
    return _SCALARS.get(field.type) or str(field.type_name)


def _map_entry(field: Any, nested: Any) -> Any:
    """The entry type of a map field; None for another field."""
    if field.type != _Field.TYPE_MESSAGE or field.label != _Field.LABEL_REPEATED:
        return None
    name = _last(field.type_name)
    return next((each for each in nested if each.name == name and each.options.map_entry), None)


def _reserved(holder: Any, most: int, beyond: int) -> Iterator[str]:
    """Reserved numbers and names. ``beyond``: how much further than the last number a span ends."""
    for span in holder.reserved_range:
        yield f"reserved {_span(span.start, span.end - beyond, most - beyond)};"
    if holder.reserved_name:
        yield "reserved " + ", ".join(f'"{name}"' for name in holder.reserved_name) + ";"


def _span(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == most else last}"


def _own_options(field: Any) -> Iterator[str]:
    """Entries among a field's options that are not options: its default, and a JSON name that is not derived."""
    if field.HasField("default_value"):
        yield f"default = {_default(field)}"
    if field.HasField("json_name") and field.json_name != _derived_json_name(field.name) and not field.extendee:
        yield f"json_name = {_quoted(field.json_name)}"


def _default(field: Any) -> str:
    if field.type == _Field.TYPE_BYTES:
        return f'"{field.default_value}"'  # escaped as C does already
    return _quoted(field.default_value) if field.type == _Field.TYPE_STRING else str(field.default_value)


def _derived_json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _quoted(text: str) -> str:
    return _escaped(text.encode())


def _escaped(data: bytes) -> str:
    return f'"{text_format.text_encoding.CEscape(data, as_utf8=False)}"'


def _statements(options: Any) -> Iterator[str]:
    return (f"option {each};" for each in _options(options))


def _bracketed(options: Any, own: Iterable[str] = ()) -> str:
    parts = [*own, *_options(options)]
    return f" [{', '.join(parts)}]" if parts else ""


def _options(options: Any, prefix: str = "") -> Iterator[str]:
    """Options as ``name = value``. Features are written one by one, because they may not be written as one value."""
    for field, value in options.ListFields():
        name = prefix + (f"({field.full_name})" if field.is_extension else field.name)
        if name == "map_entry":
            continue
        if (name == _FEATURES or prefix) and field.message_type is not None:
            yield from _options(value, name + ".")
            continue
        for each in value if field.is_repeated else [value]:
            yield f"{name} = {_value(field, each)}"


def _value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return _escaped(value)
    return _quoted(value) if isinstance(value, str) else str(value)
