"""The text of Protobuf schemas: protoc reads from it the descriptor that it was printed from, in the same order."""

from __future__ import annotations

import base64
from itertools import count
from typing import Any

import pytest
from confluent_kafka.schema_registry.protobuf import _create_index_array
from google.protobuf import descriptor_pb2
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mainstem.registry.formats.protobuf.protobuf_compiler import MAIN
from mainstem.registry.formats.protobuf.protobuf_format import FORMAT
from mainstem.registry.formats.schema_format import InvalidSchemaError

Field = descriptor_pb2.FieldDescriptorProto
PROTO2 = 'syntax = "proto2"; '
PROTO3 = 'syntax = "proto3"; '
EDITION = 'edition = "2023"; '
OPTIONS = 'import "google/protobuf/descriptor.proto"; extend google.protobuf.MessageOptions '

TEXTS = {
    "a map after a nested message": PROTO3 + "message M { message L {} map<string, L> m = 1; message K {} }",
    "a map before a nested message": PROTO3 + "message M { map<string, L> m = 1; message L {} }",
    "maps against the order of numbers": PROTO3 + "message M { map<int32, M> b = 2; map<int32, M> a = 1; }",
    "groups among nested messages": PROTO2
    + "message M { message L {} optional group G = 1 {} message K {} oneof o { group H = 2 {} group I = 3 {} } }",
    "groups and maps against the order of numbers": PROTO2
    + "message M { map<int32, M> a = 9; optional group B = 2 {} oneof o { group C = 8 {} group D = 7 {} } "
    "extensions 20 to 29; extend M { optional group E = 22 {} optional group F = 21 {} } message G {} }",
    "extensions of several messages": PROTO2 + "message A { extensions 1 to max; } message B { extensions 1 to max; }"
    "extend A { optional int32 a = 1; } extend B { optional int32 b = 1; } extend A { optional int32 c = 2; }",
    "a group as an extension, before a message": PROTO2
    + "message A { extensions 1 to max; } extend A { optional group G = 1 {} } message Z {}",
    "a group as an extension, among nested messages": PROTO2
    + "message A { extensions 1 to 9; message X {} extend A { optional group G = 1 {} } message Y {} }",
    "names reserved in an edition": EDITION + "message M { reserved foo, bar; } enum E { A = 0; reserved b; }",
    "a message set": PROTO2 + "message M { option message_set_wire_format = true; extensions 4 to max; }",
    "a message set up to the last number of others": PROTO2
    + "message M { option message_set_wire_format = true; extensions 4 to 536870911; }",
    "a package that hides an option's": PROTO3 + 'package foo.confluent; import "confluent/meta.proto";'
    'message M { int32 a = 1 [(.confluent.field_meta).doc = "d"]; }',
    "a field that hides an option": PROTO2
    + OPTIONS
    + "{ optional int32 a = 50000; } message M { optional int32 a = 1; option (.a) = 5; }",
    "groups in an edition": EDITION
    + "option features.message_encoding = DELIMITED; message M { M m = 1; oneof o { M n = 3; } map<string, M> k = 4; }",
    "a required field in an edition": EDITION
    + "message M { int32 r = 2 [features.field_presence = LEGACY_REQUIRED]; }",
    "features of a language": EDITION
    + 'import "google/protobuf/cpp_features.proto"; option features.(pb.cpp).string_type = VIEW;'
    "message M { string s = 1 [features.(pb.cpp).string_type = CORD, features.utf8_validation = NONE]; }",
    "edition 2024": 'edition = "2024"; import public "google/protobuf/any.proto"; '
    'import option "google/protobuf/cpp_features.proto"; option features.(pb.cpp).enum_name_uses_string_view = true;'
    "local message M { string s = 1; } export enum E { Z = 0; }",
    "words of the language as names": PROTO2
    + "message message { optional int32 optional = 1; optional message group = 3; enum enum { X = 0; }"
    "repeated enum rpc = 4; oneof oneof { string inf = 6; } } service service { rpc rpc (message) returns (message); }",
    "options of all types": PROTO2
    + OPTIONS
    + "{ optional float f = 50000; optional double g = 50001; repeated E e = 50003; optional bytes b = 50004;"
    "optional O o = 50005; optional uint64 u = 50006; optional group Grp = 50007 { optional int32 a = 1; } }"
    "enum E { X = -1; Y = 1; } message O { optional double d = 2; repeated O o = 3; extensions 100; }"
    "extend O { optional string s = 100; } message M { option (f) = 0.1; option (g) = -inf; option (e) = X;"
    'option (e) = Y; option (b) = "\\377\\000"; option (o) = { d: -1e300 o { d: 1 } o {} [s]: "q" };'
    "option (u) = 18446744073709551615; option (grp).a = 2; }",
    "declared extensions": PROTO2
    + 'message M { extensions 4 to 10 [declaration = { number: 4 full_name: ".a.b" type: ".c" },'
    "declaration = { number: 5 reserved: true }, verification = DECLARATION]; extensions 20, 30; }",
    "defaults": PROTO2 + "message M { optional float a = 1 [default = nan]; optional double b = 2 [default = -inf];"
    "optional uint64 u = 6 [default = 18446744073709551615]; optional double z = 8 [default = -0.0];"
    "optional int64 i = 7 [default = -9223372036854775808]; optional string e = 9 [default = '']; }",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_text_has_the_descriptor_that_it_was_printed_from(text: str) -> None:
    original = FORMAT.parse(text, {})
    again = FORMAT.parse(original.canonical, {})
    assert again.files[-1] == original.files[-1]
    assert again.canonical == original.canonical
    normalized = FORMAT.parse(original.normalized(), {})
    assert normalized.normalized() == original.normalized()
    assert nested_names(normalized.files[-1].message_type) == nested_names(original.files[-1].message_type)


def nested_names(types: Any) -> list[Any]:
    """Names of messages as clients number them; entries of maps, which normalizing may exchange, as their number."""
    return [("entry" if each.options.map_entry else each.name, nested_names(each.nested_type)) for each in types]


def test_the_client_numbers_nested_messages_alike_before_and_after() -> None:
    text = PROTO3 + "message M { message Line {} map<string, Line> lines = 1; }"
    original = FORMAT.parse(text, {})
    for schema in (original, FORMAT.parse(original.canonical, {}), FORMAT.parse(original.normalized(), {})):
        assert _create_index_array(schema.pool.FindMessageTypeByName("M.Line")) == [0, 0]


def test_a_known_option_is_written_without_a_dot() -> None:
    text = (
        PROTO3 + 'package shop; import "confluent/meta.proto"; message M { option (confluent.message_meta).doc = "d"; }'
    )
    assert 'option (confluent.message_meta) = { doc: "d" };' in FORMAT.parse(text, {}).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("message M { int32 a = 1; string b = 2; }", "message M { string b = 2; int32 a = 1; }"),
        (
            "message M { map<int32, M> a = 1; oneof o { int32 b = 2; int32 d = 4; } int32 c = 3; }",
            "message M { int32 c = 3; oneof o { int32 d = 4; int32 b = 2; } map<int32, M> a = 1; }",
        ),
        (
            "message M { map<int32, M> a = 1; map<int32, M> b = 2; }",
            "message M { map<int32, M> b = 2; map<int32, M> a = 1; }",
        ),
        (
            'message M { reserved 3; reserved 5 to 7; reserved "x", "y"; }',
            'message M { reserved 5 to 7, 3; reserved "y"; reserved "x"; }',
        ),
        ("enum E { A = 0; B = 1; C = 2; }", "enum E { A = 0; C = 2; B = 1; }"),
        (
            'import "google/protobuf/any.proto"; import "google/protobuf/type.proto";',
            'import "google/protobuf/type.proto"; import "google/protobuf/any.proto";',
        ),
    ],
)
def test_order_that_means_nothing_is_normalized(one: str, other: str) -> None:
    assert FORMAT.parse(PROTO3 + one, {}).normalized() == FORMAT.parse(PROTO3 + other, {}).normalized()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("message M {} message N {}", "message N {} message M {}"),
        ("message M { message L {} map<int32, L> a = 1; }", "message M { map<int32, L> a = 1; message L {} }"),
        ("enum E { A = 0; B = 1; }", "enum E { B = 1; A = 0; }"),
    ],
)
def test_order_that_means_something_is_kept(one: str, other: str) -> None:
    assert FORMAT.parse(PROTO2 + one, {}).normalized() != FORMAT.parse(PROTO2 + other, {}).normalized()


@pytest.mark.parametrize(
    ("text", "references", "words"),
    [
        ("// \ud800", {}, "UTF-8"),
        (PROTO3, {"a.proto": "\ud800"}, "UTF-8"),
        (PROTO3, {"a": PROTO3, "a/b": PROTO3}, "directory"),
        (PROTO3, {"a/b": PROTO3, "a": PROTO3}, "directory"),
        (PROTO3, {"x" * 300: PROTO3}, "invalid import name"),
        (PROTO2 + "message M { optional float a = 1 [default = 1e-40]; }", {}, "Invalid default"),
        (PROTO3 + f"message M {{ {''.join(f'int32 f{n} = {n};' for n in range(1, 18_000))} }}", {}, "size exceeded"),
    ],
)
def test_what_cannot_be_held_is_refused_when_it_is_read(text: str, references: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words) as refused:
        FORMAT.parse(text, references)
    assert "\n" not in str(refused.value)


def test_an_import_may_be_called_schema() -> None:
    text = PROTO3 + 'import "schema.proto"; message M { N n = 1; }'
    assert ".N n = 1;" in FORMAT.parse(text, {"schema.proto": PROTO3 + "message N {}"}).canonical


SCALARS = [number for number in range(1, 19) if number not in {Field.TYPE_GROUP, Field.TYPE_MESSAGE, Field.TYPE_ENUM}]


@st.composite
def files(draw: st.DrawFn) -> Any:
    """A file as protoc would describe it, with names that are all different."""
    parts = draw(st.sampled_from([{}, {"syntax": "proto3"}])) | draw(st.sampled_from([{}, {"package": "a.b"}]))
    file = descriptor_pb2.FileDescriptorProto(name=MAIN, **parts)
    scope = f".{file.package}" if file.package else ""
    names = count()
    for _ in range(draw(st.integers(1, 3))):
        fill(draw, file.message_type.add(name=f"M{next(names)}"), scope, names, file.syntax, 0)
    return file


def fill(draw: st.DrawFn, message: Any, scope: str, names: Any, syntax: str, depth: int) -> None:
    """Parts of a message, one after the other, as their source would have them."""
    own = f"{scope}.{message.name}"
    numbers = iter(draw(st.lists(st.integers(1, 900), min_size=24, max_size=24, unique=True)))
    parts = ["plain", "repeated", "map", "oneof", "self", "enum", "reserved"]
    parts += ["optional"] if syntax else ["required", "group", "default", "extensions"]
    parts += ["message"] if depth < 2 else []
    optional = []
    for nth, part in enumerate(draw(st.lists(st.sampled_from(parts), max_size=6))):
        name = f"f{next(names)}"
        if part == "message":
            fill(draw, message.nested_type.add(name=name.upper()), own, names, syntax, depth + 1)
        elif part == "enum":
            message.enum_type.add(name=name.upper()).value.add(name=f"V{name}", number=0)
        elif part == "reserved":
            message.reserved_range.add(start=1000 + 10 * nth, end=1002 + 10 * nth + draw(st.integers(0, 5)))
            message.reserved_name.append(name)
        elif part == "extensions":
            message.extension_range.add(start=2000 + 10 * nth, end=2001 + 10 * nth)
        elif part == "oneof":
            message.oneof_decl.add(name=name)
            for _ in range(draw(st.integers(1, 3))):
                field = scalar(draw, message, f"f{next(names)}", next(numbers))
                field.oneof_index = len(message.oneof_decl) - 1
        elif part == "map":
            field = scalar(draw, message, name, next(numbers), Field.TYPE_MESSAGE, Field.LABEL_REPEATED)
            field.type_name = f"{own}.{name.upper()}Entry"
            entry = message.nested_type.add(name=f"{name.upper()}Entry")
            scalar(draw, entry, "key", 1, Field.TYPE_STRING)
            scalar(draw, entry, "value", 2)
            entry.options.map_entry = True
        elif part == "group":
            field = scalar(draw, message, name, next(numbers), Field.TYPE_GROUP)
            field.type_name = f"{own}.{name.upper()}"
            fill(draw, message.nested_type.add(name=name.upper()), own, names, syntax, depth + 2)
        elif part == "self":
            scalar(draw, message, name, next(numbers), Field.TYPE_MESSAGE).type_name = own
        else:
            field = scalar(draw, message, name, next(numbers))
            decorate(draw, field, part)
            optional += [field] if part == "optional" else []
    for field in optional:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def scalar(draw: st.DrawFn, message: Any, name: str, number: int, kind: int = 0, label: int = 1) -> Any:
    kind = kind or draw(st.sampled_from(SCALARS))
    return message.field.add(name=name, number=number, type=kind, label=label, json_name=name)


def decorate(draw: st.DrawFn, field: Any, part: str) -> None:
    if part == "repeated":
        field.label = Field.LABEL_REPEATED
    elif part == "required":
        field.label = Field.LABEL_REQUIRED
    elif part == "optional":
        field.proto3_optional = True
    elif part == "default":
        field.type = Field.TYPE_STRING
        field.default_value = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
    if draw(st.booleans()):
        field.options.deprecated = draw(st.booleans())
    if draw(st.booleans()):
        field.json_name = f'x{field.name}é"\\'


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # to make a failure smaller takes minutes, because each try runs the compiler
    suppress_health_check=[HealthCheck.too_slow],
)
@given(files())
def test_any_descriptor_is_printed_as_it_is(file: Any) -> None:
    parsed = FORMAT.parse(base64.b64encode(file.SerializeToString()).decode(), {})
    assert parsed.files[-1] == file
    again = FORMAT.parse(parsed.normalized(), {})
    assert again.normalized() == parsed.normalized()
    assert nested_names(again.files[-1].message_type) == nested_names(file.message_type)
