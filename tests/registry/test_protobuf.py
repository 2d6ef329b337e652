"""Protobuf schemas: the printed text means what the descriptor says, whatever is in it."""

from __future__ import annotations

import base64
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import google.api
import google.protobuf
import google.type
import grpc_tools
import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from google.protobuf import descriptor_pb2

from mainstem.registry.formats.protobuf.protobuf_format import FORMAT
from mainstem.registry.formats.schema_format import InvalidSchemaError

KNOWN = Path(grpc_tools.__file__).parent / "_proto"
PROTO2 = r"""
syntax = "proto2";
package shop.v1;
import public "google/protobuf/any.proto";
import "google/protobuf/descriptor.proto";
option java_package = "org.shop\"x\n\303\244";
option optimize_for = SPEED;
extend google.protobuf.FieldOptions { optional Note note = 50001; repeated string tag = 50002; }
message Note { optional string text = 1; repeated int32 marks = 2; }
message Order {
  option deprecated = true;
  reserved 100, 200 to 300, 900 to max;
  reserved "old", "older";
  extensions 400 to 450, 500;
  required int64 id = 1 [(note) = { text: "key \"k\"", marks: [1, 2] }, (tag) = "a", (tag) = "b"];
  optional string name = 2 [default = "a\"b\\ \n\t", json_name = "NAME", deprecated = true];
  optional bytes raw = 3 [default = "\001\377x"];
  repeated int32 counts = 4 [packed = true];
  optional Kind kind = 5 [default = LARGE];
  optional double ratio = 6 [default = -inf];
  optional bool ok = 7 [default = true];
  map<string, Line> lines = 8;
  optional group Extra = 9 { optional string more = 1; repeated group Deep = 2 { optional int32 x = 1; } }
  oneof choice { string left = 10; Line right = 11; group Both = 12 { optional int32 y = 1; } }
  message Line { optional google.protobuf.Any any = 1; enum Kind { ZERO = 0; } optional Kind kind = 2; }
  enum Kind { option allow_alias = true; SMALL = 0; LARGE = 5; BIG = 5 [deprecated = true]; reserved 7 to max; }
  extend Order { optional string inner = 401; }
}
extend Order { optional group Outer = 402 { optional int32 z = 1; } }
service Shop {
  option deprecated = true;
  rpc Buy (Order) returns (stream Order);
  rpc Chat (stream Order) returns (stream shop.v1.Order) { option idempotency_level = IDEMPOTENT; }
}
"""
PROTO3 = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/money.proto";
message M {
  optional int32 maybe = 1;
  oneof one { string a = 2; int32 b = 3; }
  map<int32, M> more = 4 [(confluent.field_meta) = { doc: "d", tags: ["PII"], params: [{ key: "k", value: "v" }] }];
  repeated double xs = 5 [packed = false];
  confluent.type.Decimal price = 6;
  google.type.Money money = 7;
  fixed64 f = 8; sfixed32 g = 9; sint64 h = 10; bytes i = 11; uint32 j_k_2l = 12; bool _x = 13;
}
enum E { E0 = 0; E_MINUS = -1; reserved -5 to -3; reserved "E9"; }
"""
EDITION = """
edition = "2023";
option features.field_presence = IMPLICIT;
message M {
  int32 plain = 1;
  int32 explicit = 2 [features.field_presence = EXPLICIT];
  M child = 3 [features.message_encoding = DELIMITED];
  repeated int32 many = 4 [features.repeated_field_encoding = EXPANDED];
}
enum E { option features.enum_type = CLOSED; A = 1; }
"""


def of_packages() -> list[Any]:
    """The descriptors of the files that come with Protobuf, googleapis and Confluent's client."""
    modules = [
        importlib.import_module(f"{package.__name__}.{each.name}")
        for package in (google.protobuf, google.type, google.api)
        for each in pkgutil.iter_modules(package.__path__)
        if each.name.endswith("_pb2") and "unittest" not in each.name
    ]
    return [module.DESCRIPTOR for module in (*modules, meta_pb2, decimal_pb2, variant_pb2)]


def comparable(file: Any) -> Any:
    """A descriptor without what a text cannot say: its name, and names that protoc derives."""
    copy = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    copy.name = ""
    copy.ClearField("source_code_info")
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    for message in _all_messages(copy):
        for field in (*message.field, *message.extension):
            field.ClearField("json_name")
    for field in copy.extension:
        field.ClearField("json_name")
    return copy


def _all_messages(holder: Any) -> Any:
    for message in getattr(holder, "message_type", None) or getattr(holder, "nested_type", ()):
        yield message
        yield from _all_messages(message)


@pytest.mark.parametrize("text", [PROTO2, PROTO3, EDITION], ids=["proto2", "proto3", "editions"])
def test_the_printed_text_has_the_same_descriptor(text: str) -> None:
    original = FORMAT.parse(text, {})
    again = FORMAT.parse(original.canonical, {})
    assert again.files[-1] == original.files[-1]
    assert again.canonical == original.canonical
    by_descriptor = FORMAT.parse(original.serialized(), {})
    assert by_descriptor.canonical == original.canonical
    assert FORMAT.parse(original.normalized(), {}).normalized() == original.normalized()


def test_every_file_of_the_packages_is_printed_as_it_is() -> None:
    files = of_packages()
    assert len(files) > 50
    for file in files:
        if file.name == "google/protobuf/descriptor.proto":
            continue  # every file has its names
        original = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(original)
        references = {each.name: _base64(each) for each in _imported(file)}
        text = base64.b64encode(original.SerializeToString()).decode()
        printed = FORMAT.parse(text, references)
        assert comparable(printed.files[-1]) == comparable(original), file.name


def _imported(file: Any) -> list[Any]:
    """What a file imports, the imports of imports first; without what comes with the compiler."""
    found: dict[str, Any] = {}
    for each in file.dependencies:
        found.update({inner.name: inner for inner in _imported(each)})
        is_known = (KNOWN / each.name).exists() or each.name.startswith("confluent/")
        if not is_known:
            found[each.name] = each
    return list(found.values())


def _base64(file: Any) -> str:
    copy = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(copy)
    return base64.b64encode(copy.SerializeToString()).decode()


def test_comments_and_layout_mean_nothing() -> None:
    compact = 'syntax="proto3";package a;message M{int32 x=1;}'
    spacious = '// of M\nsyntax = "proto3";\n\npackage a;\n/* m */ message M {\n  int32 x = 0x1; // one\n}\n'
    assert FORMAT.parse(compact, {}).canonical == FORMAT.parse(spacious, {}).canonical
    assert FORMAT.parse(compact, {}).canonical == ('syntax = "proto3";\npackage a;\nmessage M {\n  int32 x = 1;\n}\n')


def test_references_are_imports_in_either_form() -> None:
    inner = 'syntax = "proto3"; package b; import "c/deep.proto"; message Inner { c.Deep deep = 1; }'
    deep = 'syntax = "proto3"; package c; message Deep {}'
    outer = 'syntax = "proto3"; package a; import "b/inner.proto"; message Outer { b.Inner inner = 1; }'
    references = {"c/deep.proto": deep, "b/inner.proto": inner}
    parsed = FORMAT.parse(outer, references)
    assert ".b.Inner inner = 1;" in parsed.canonical
    as_descriptors = {
        "c/deep.proto": FORMAT.parse(deep, {}).serialized(),
        "b/inner.proto": FORMAT.parse(inner, {"c/deep.proto": deep}).serialized(),
    }
    assert FORMAT.parse(parsed.serialized(), as_descriptors).canonical == parsed.canonical


@pytest.mark.parametrize(
    ("text", "references", "words"),
    [
        ("message", {}, "^1:8: "),
        ('syntax = "proto3"; message M { Missing m = 1; }', {}, '"Missing" is not defined'),
        ('syntax = "proto3"; import "none.proto";', {}, "none.proto"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', {}, "1"),
        ('syntax = "proto3";', {"../x.proto": ""}, "invalid import name"),
        ('syntax = "proto3";', {"/etc/passwd": ""}, "invalid import name"),
        ('syntax = "proto3"; import "../../etc/passwd";', {}, "."),
        ("message M { " * 3_000, {}, "."),
        (base64.b64encode(b'\x0a\x01a"\x00').decode(), {}, "."),
    ],
)
def test_what_is_wrong_is_one_line(text: str, references: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words) as refused:
        FORMAT.parse(text, references)
    assert "\n" not in str(refused.value)
    assert "/tmp" not in str(refused.value)


def proto(body: str) -> str:
    return f'syntax = "proto2"; package p; {body}'


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("message M { optional int32 a = 1; }", "message M { optional int64 b = 1; optional int32 c = 2; }", []),
        ("message M { optional int32 a = 1; }", "message M {} message N {}", []),
        ("message M { optional string a = 1; }", "message M { repeated bytes a = 1; }", []),
        (
            "message M { optional int32 a = 1; } enum E { A = 0; }",
            "message M { optional E a = 1; } enum E { A = 0; }",
            [],
        ),
        ("enum E { A = 0; B = 1; }", "enum E { A = 0; }", []),
        ("message M { optional int32 a = 1; }", "message M { oneof o { int32 a = 1; } }", []),
        ("message M { map<string, int32> m = 1; }", "message M {}", []),
        ("message M {} message N {}", "message M {}", ["MESSAGE_REMOVED"]),
        ("message M { message N {} }", "message M {}", ["MESSAGE_REMOVED"]),
        ("message M { optional int32 a = 1; }", "message M { optional sint32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message M { optional fixed32 a = 1; }", "message M { optional float a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("message M { optional int32 a = 1; }", "message M { repeated int32 a = 1; }", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("message M { optional M a = 1; }", "message M { optional bytes a = 1; }", ["FIELD_KIND_CHANGED"]),
        (
            "message M { optional M a = 1; } message N {}",
            "message M { optional N a = 1; } message N {}",
            ["FIELD_NAMED_TYPE_CHANGED"],
        ),
        ("message M {}", "message M { required int32 a = 1; }", ["REQUIRED_FIELD_ADDED"]),
        ("message M { required int32 a = 1; }", "message M {}", ["REQUIRED_FIELD_REMOVED"]),
        (
            "message M { optional int32 a = 1; optional int32 b = 2; }",
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (
            "message M { optional int32 a = 1; oneof o { int32 b = 2; } }",
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            "message M { oneof o { int32 a = 1; } }",
            ["ONEOF_FIELD_REMOVED"],
        ),
        (
            "message M { map<string, int32> m = 1; }",
            "message M { map<string, float> m = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
    ],
)
def test_each_change_is_judged_by_what_the_wire_allows(before: str, after: str, kinds: list[str]) -> None:
    old, new = FORMAT.parse(proto(before), {}), FORMAT.parse(proto(after), {})
    assert [each.kind for each in FORMAT.incompatibilities(new, old)] == kinds
    assert FORMAT.incompatibilities(new, new) == []


def test_a_message_of_an_imported_file_is_compared_too() -> None:
    outer = 'syntax = "proto3"; import "i.proto"; message M { I i = 1; }'
    old = FORMAT.parse(outer, {"i.proto": 'syntax = "proto3"; message I { int32 a = 1; }'})
    new = FORMAT.parse(outer, {"i.proto": 'syntax = "proto3"; message I { string a = 1; }'})
    assert [each.kind for each in FORMAT.incompatibilities(new, old)] == ["FIELD_SCALAR_KIND_CHANGED"]


def test_another_package_is_another_schema() -> None:
    old, new = FORMAT.parse('syntax = "proto3"; package a;', {}), FORMAT.parse('syntax = "proto3"; package b;', {})
    assert [each.kind for each in FORMAT.incompatibilities(new, old)] == ["PACKAGE_CHANGED"]
