"""Protobuf descriptors as .proto text: one text for one descriptor, and protoc reads the same descriptor from it.

Comments and layout are not in a descriptor, so they are not in the text. Types have their full names with a dot in
front. Custom options are written if the files that define them are given.

The order of nested types is kept: serializers number a message by its place among them, and the types that protoc
derives from map fields and groups count. So such a field is written where its type stands among the others.

Contract: pure. Made for descriptors that protoc wrote or accepted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from mainstem.registry.formats.schema_format import InvalidSchemaError

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    getattr(_Field, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_MESSAGE_MAX: Final = 1 << 29
_INT_MAX: Final = (1 << 31) - 1
_EDITION: Final = "EDITION_"
_FEATURES: Final = "features"


def pool_of(files: Iterable[Any]) -> Any:
    """The DescriptorPool of files (FileDescriptorProto), imports first. Raises InvalidSchemaError."""
    pool = descriptor_pool.DescriptorPool()
    by_name = {each.name: each for each in files}
    descriptor_pb2.DESCRIPTOR.CopyToProto(own := descriptor_pb2.FileDescriptorProto())
    by_name.setdefault(own.name, own)
    try:
        for each in by_name.values():
            pool.Add(each)
        for each in by_name:
            pool.FindFileByName(each)  # builds it, so that its options are known to the classes
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidSchemaError(f"the descriptor cannot be read: {' '.join(str(error).split())[:300]}") from error
    return pool


def file_text(files: Sequence[Any], pool: Any, *, is_sorted: bool = False) -> str:
    """The text of the last of ``files`` (FileDescriptorProto), of which ``pool`` is made; it imports the others.

    ``is_sorted``: with imports and reserved names in the order of names; fields, extensions, reserved numbers and
    values of enums in the order of numbers. An enum's first value stays first, because it is the default. Raises
    InvalidSchemaError.
    """
    known = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    file = known.FromString(files[-1].SerializeToString())
    return "\n".join(_Writer(file, files, is_sorted=is_sorted).lines()) + "\n"


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that define fields, and the nested types that they define by the way, such as the entry of a map."""

    lines: list[str]
    types: list[str]


class _Writer:
    """Writes one file. Each method yields lines."""

    def __init__(self, file: Any, files: Sequence[Any], *, is_sorted: bool) -> None:
        self._file = file
        self._files = files
        self._syntax = file.syntax or "proto2"
        self._is_sorted = is_sorted

    def lines(self) -> Iterator[str]:
        file = self._file
        if self._syntax == "editions":
            yield f'edition = "{descriptor_pb2.Edition.Name(file.edition).removeprefix(_EDITION)}";'
        else:
            yield f'syntax = "{self._syntax}";'
        if file.package:
            yield f"package {file.package};"
        kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
        imports = [f'import {kinds.get(nth, "")}"{name}";' for nth, name in enumerate(file.dependency)]
        yield from self._ordered(imports)
        yield from self._ordered([f'import option "{name}";' for name in file.option_dependency])
        yield from self._statements(file.options)
        yield from self._in_order(file.message_type, *self._extensions(file.extension, file.message_type))
        for enum in file.enum_type:
            yield from self._enum(enum)
        for service in file.service:
            yield from self._service(service)

    def _ordered(self, values: Iterable[Any], key: Any = None) -> list[Any]:
        return sorted(values, key=key) if self._is_sorted else list(values)

    def _in_order(self, types: Iterable[Any], *lists: Iterable[_Block]) -> Iterator[str]:
        """Types and blocks, so that protoc meets the types in their order."""
        queues = [deque(blocks) for blocks in lists]
        owners = {name: queue for queue in queues for block in queue for name in block.types}
        met = dict.fromkeys(map(id, queues), 0)
        for each in types:
            queue = owners.get(each.name)
            if queue is None:
                yield from self._message(each)
                continue
            while queue and not met[id(queue)]:
                block = queue.popleft()
                met[id(queue)] += len(block.types)
                yield from block.lines
            met[id(queue)] -= 1
        for queue in queues:
            for block in queue:
                yield from block.lines

    def _message(self, message: Any) -> Iterator[str]:
        yield f"{_visibility(message)}message {message.name} {{"
        yield from _indented(self._message_body(message))
        yield "}"

    def _message_body(self, message: Any) -> Iterator[str]:
        is_set = message.options.message_set_wire_format
        yield from self._statements(message.options)
        yield from self._reserved(message, _MESSAGE_MAX, 1)
        for span in self._ordered(message.extension_range, _start):
            most = _INT_MAX if is_set else _MESSAGE_MAX
            yield f"extensions {_span(span.start, span.end - 1, most - 1)}{self._bracketed(span.options)};"
        extensions = self._extensions(message.extension, message.nested_type)
        fields = [self._fields(each, message) for each in self._lists(message.field, _number)]
        yield from self._in_order(message.nested_type, *fields, *extensions)
        for enum in message.enum_type:
            yield from self._enum(enum)

    def _lists(self, fields: Any, key: Any) -> list[list[Any]]:
        """The fields in order; sorted, those that define groups keep theirs and follow, as groups are messages."""
        if not self._is_sorted:
            return [list(fields)]
        oneofs = {_oneof_of(each) for each in fields if each.type == _Field.TYPE_GROUP} - {None}
        lists: list[list[Any]] = [[], []]
        for each in fields:
            lists[each.type == _Field.TYPE_GROUP or _oneof_of(each) in oneofs].append(each)
        lists[0].sort(key=key)
        return lists

    def _fields(self, fields: list[Any], message: Any) -> Iterator[_Block]:
        written: set[int] = set()
        for field in fields:
            index = field.oneof_index
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield self._field(field, message.nested_type)
            elif index not in written:
                written.add(index)
                choices = [each for each in fields if each.HasField("oneof_index") and each.oneof_index == index]
                blocks = [self._field(each, message.nested_type, label="") for each in choices]
                yield self._oneof(message.oneof_decl[index], blocks)

    def _oneof(self, oneof: Any, fields: Iterable[_Block]) -> _Block:
        head = [f"oneof {oneof.name} {{", *_indented(self._statements(oneof.options))]
        return _joined(head, fields)

    def _field(self, field: Any, nested: Any, label: str | None = None) -> _Block:
        entry = _map_entry(field, nested)
        options = self._bracketed(field.options, _own_options(field))
        if entry is not None:
            key, value = entry.field
            line = f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{options};"
            return _Block([line], [entry.name])
        label = self._label(field) if label is None else label
        if field.type != _Field.TYPE_GROUP:
            return _Block([f"{label}{_type(field)} {field.name} = {field.number}{options};"], [])
        group = next((each for each in nested if each.name == _last(field.type_name)), None)
        if group is None:
            raise InvalidSchemaError(f"the group of the field {field.name!r} is not beside it")
        head = f"{label}group {group.name} = {field.number}{options} {{"
        return _Block([head, *_indented(self._message_body(group)), "}"], [group.name])

    def _label(self, field: Any) -> str:
        if field.label == _Field.LABEL_REPEATED:
            return "repeated "
        if self._syntax == "proto2":
            return "required " if field.label == _Field.LABEL_REQUIRED else "optional "
        return "optional " if field.proto3_optional else ""

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"{_visibility(enum)}enum {enum.name} {{"
        yield from _indented(self._statements(enum.options))
        for value in (*enum.value[:1], *self._ordered(enum.value[1:], _number)):
            yield f"  {value.name} = {value.number}{self._bracketed(value.options)};"
        yield from _indented(self._reserved(enum, _INT_MAX, 0))
        yield "}"

    def _extensions(self, fields: Any, nested: Any) -> Iterator[list[_Block]]:
        for each in self._lists(fields, _extended):
            yield [
                _joined([f"extend {extendee} {{"], [self._field(field, nested) for field in run])
                for extendee, run in groupby(each, lambda field: field.extendee)
            ]

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(self._statements(service.options))
        for method in service.method:
            taken = f"{'stream ' * method.client_streaming}{method.input_type}"
            given = f"{'stream ' * method.server_streaming}{method.output_type}"
            options = list(self._statements(method.options))
            yield f"  rpc {method.name} ({taken}) returns ({given}){' {' if options else ';'}"
            if options:
                yield from _indented(_indented(options))
                yield "  }"
        yield "}"

    def _reserved(self, holder: Any, most: int, beyond: int) -> Iterator[str]:
        """Reserved numbers and names. ``beyond``: how much further than the last number a span ends."""
        for span in self._ordered(holder.reserved_range, _start):
            yield f"reserved {_span(span.start, span.end - beyond, most - beyond)};"
        if holder.reserved_name:
            names = self._ordered(holder.reserved_name)
            yield f"reserved {', '.join(names if self._syntax == 'editions' else map(_quoted, names))};"

    def _statements(self, options: Any) -> Iterator[str]:
        return (f"option {each};" for each in self._options(options))

    def _bracketed(self, options: Any, own: Iterable[str] = ()) -> str:
        parts = [*own, *self._options(options)]
        return f" [{', '.join(parts)}]" if parts else ""

    def _options(self, options: Any, prefix: str = "") -> Iterator[str]:
        """Options as ``name = value``. Features are written one by one, because they may not be one value."""
        for field, value in options.ListFields():
            name = prefix + (f"({self._option_name(field.full_name)})" if field.is_extension else field.name)
            if name == "map_entry":
                continue
            if (name == _FEATURES or prefix) and field.message_type is not None:
                yield from self._options(value, name + ".")
                continue
            for each in value if field.is_repeated else [value]:
                yield f"{name} = {_value(field, each)}"

    def _option_name(self, name: str) -> str:
        """A custom option's name: with a dot in front only where protoc may take its first part for another name.

        Other programs look for names such as ``confluent.field_meta`` without a dot.
        """
        return f".{name}" if name.partition(".")[0] in self._inner_names else name

    @cached_property
    def _inner_names(self) -> set[str]:
        """The names in all the files, without the packages' and those of types outside packages."""
        names: set[str] = set()
        for file in self._files:
            names.update(file.package.split(".")[1:])
            held = [each.name for each in (*_held(file), *file.service)]
            names.update(held if file.package else ())
            names.update(method.name for service in file.service for method in service.method)
            unvisited = list(file.message_type)
            while unvisited:
                message = unvisited.pop()
                names.update(each.name for each in (*_held(message), *message.field, *message.oneof_decl))
                unvisited += message.nested_type
        return names


def _held(scope: Any) -> Iterator[Any]:
    """The types, values of enums and extensions of a file or a message."""
    yield from scope.message_type if hasattr(scope, "message_type") else scope.nested_type
    yield from scope.extension
    for enum in scope.enum_type:
        yield enum
        yield from enum.value


def _joined(head: list[str], blocks: Iterable[_Block]) -> _Block:
    """Blocks within braces."""
    blocks = list(blocks)
    lines = _indented(line for block in blocks for line in block.lines)
    return _Block([*head, *lines, "}"], [name for block in blocks for name in block.types])


def _oneof_of(field: Any) -> int | None:
    return int(field.oneof_index) if field.HasField("oneof_index") else None


def _start(span: Any) -> int:
    return int(span.start)


def _number(holder: Any) -> int:
    return int(holder.number)


def _extended(field: Any) -> tuple[str, int]:
    return field.extendee, field.number


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
