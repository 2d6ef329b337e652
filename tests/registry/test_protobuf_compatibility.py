"""Compatibility of Protobuf schemas, where names, oneofs, groups and features decide; the table is in test_protobuf."""

from __future__ import annotations

import pytest

from mainstem.registry.formats.protobuf.protobuf_format import FORMAT

PROTO2 = 'syntax = "proto2"; package p; '
PROTO3 = 'syntax = "proto3"; package p; '
EDITION = 'edition = "2023"; package p; '


def kinds(before: str, after: str) -> list[str]:
    """Kinds of what is wrong when ``after`` reads data of ``before``."""
    old, new = FORMAT.parse(before, {}), FORMAT.parse(after, {})
    assert FORMAT.incompatibilities(new, new) == []
    return [each.kind for each in FORMAT.incompatibilities(new, old)]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("map<string, int32> a = 1;", "map<string, int64> b = 1;", []),
        ("map<int32, M> a = 1;", "map<int64, M> a = 1;", []),
        ("map<int32, M> a = 1;", "map<int32, N> a = 1;", ["FIELD_NAMED_TYPE_CHANGED"]),
        ("map<int32, M> a = 1;", "map<sint32, float> a = 1;", ["FIELD_SCALAR_KIND_CHANGED", "FIELD_KIND_CHANGED"]),
        ("map<int32, M> a = 1;", "repeated M a = 1;", ["FIELD_KIND_CHANGED"]),
        ("int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("M a = 1;", "repeated M a = 1;", []),
        ("optional int32 a = 1;", "optional int32 a = 2;", []),
        ("int32 a = 1;", "optional int32 a = 1;", []),
        ("int32 a = 1;", "oneof o { int32 a = 1; int32 b = 2; }", []),
        (
            "optional int32 a = 1; optional int32 b = 2;",
            "oneof o { int32 a = 1; int32 b = 2; }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
    ],
)
def test_fields_of_proto3(before: str, after: str, found: list[str]) -> None:
    old, new = (f"{PROTO3} message M {{ {each} }} message N {{}}" for each in (before, after))
    assert kinds(old, new) == found


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof z { int32 a = 1; int32 b = 2; }", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; oneof o { int32 b = 2; }", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; } oneof z { int32 b = 2; }", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof z { int32 a = 1; }", ["ONEOF_FIELD_REMOVED"]),
        ("oneof o { int32 a = 1; }", "oneof o { int32 b = 2; }", ["ONEOF_FIELD_REMOVED"]),
        (
            "oneof o { int32 a = 1; int32 b = 2; } oneof z { int32 c = 3; int32 d = 4; }",
            "oneof y { int32 a = 1; int32 b = 2; int32 c = 3; int32 d = 4; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (
            "oneof o { int32 a = 1; int32 b = 2; } int32 c = 3;",
            "oneof z { int32 a = 1; int32 b = 2; int32 c = 3; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
    ],
)
def test_fields_of_which_data_may_have_several_do_not_come_together(before: str, after: str, found: list[str]) -> None:
    assert kinds(f"{PROTO3} message M {{ {before} }}", f"{PROTO3} message M {{ {after} }}") == found


@pytest.mark.parametrize(
    ("syntax", "before", "after", "found"),
    [
        (PROTO2, "optional group G = 1 {}", "optional G g = 1; message G {}", ["FIELD_KIND_CHANGED"]),
        (EDITION, "M m = 1;", "M m = 1 [features.message_encoding = DELIMITED];", ["FIELD_KIND_CHANGED"]),
        (EDITION, "", "int32 r = 1 [features.field_presence = LEGACY_REQUIRED];", ["REQUIRED_FIELD_ADDED"]),
        (EDITION, "int32 r = 1 [features.field_presence = LEGACY_REQUIRED];", "", ["REQUIRED_FIELD_REMOVED"]),
        (PROTO2, "optional string a = 1;", "required string a = 1;", ["REQUIRED_FIELD_ADDED"]),
        (PROTO2, "required string a = 1;", "optional string a = 1;", []),
    ],
)
def test_what_a_field_means_is_compared_and_not_how_it_is_written(
    syntax: str, before: str, after: str, found: list[str]
) -> None:
    assert kinds(f"{syntax} message M {{ {before} }}", f"{syntax} message M {{ {after} }}") == found


def test_proto3_and_an_edition_that_mean_the_same_are_compatible() -> None:
    edition = EDITION + "option features.field_presence = IMPLICIT; message M { int32 a = 1; repeated int32 b = 2; }"
    proto3 = PROTO3 + "message M { int32 a = 1; repeated int32 b = 2; }"
    assert kinds(proto3, edition) == kinds(edition, proto3) == []


def test_messages_that_contain_each_other_are_compared_once() -> None:
    text = (
        PROTO2 + "message M { optional N n = 1; } message N { optional M m = 1; repeated N ns = 2; optional %s x = 3; }"
    )
    assert kinds(text % "int32", text % "string") == ["FIELD_SCALAR_KIND_CHANGED"]


def test_many_changes_are_reported_up_to_a_hundred() -> None:
    text = PROTO3 + "".join(f"message M{n} {{ %s x = 1; }}" for n in range(150))
    assert len(kinds(text.replace("%s", "int32"), text.replace("%s", "string"))) == 100


def test_a_message_of_another_file_is_compared_where_data_has_it() -> None:
    outer = PROTO3 + 'import "i.proto"; message M { map<string, I> i = 1; }'
    old = FORMAT.parse(outer, {"i.proto": PROTO3 + "message I { int32 a = 1; message K {} }"})
    new = FORMAT.parse(outer, {"i.proto": PROTO3 + "message I { float a = 1; }"})
    found = FORMAT.incompatibilities(new, old)
    assert sorted((each.kind, each.path) for each in found) == [
        ("FIELD_SCALAR_KIND_CHANGED", "p.I.a"),
        ("MESSAGE_REMOVED", "p.I.K"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("extend M { optional int32 a = 100; }", "extend M { optional int64 b = 100; }", []),
        (
            "extend M { optional int32 a = 100; }",
            "extend M { optional string a = 100; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        (
            "extend M { optional int32 a = 100; }",
            "message S { extend M { optional N a = 100; } }",
            ["FIELD_KIND_CHANGED"],
        ),
        ("extend M { optional N a = 100; }", "extend M { optional M a = 100; }", ["FIELD_NAMED_TYPE_CHANGED"]),
        ("extend M { optional int32 a = 100; }", "extend M { optional string b = 101; }", []),
        ("extend M { optional int32 a = 100; }", "extend N { optional string a = 100; }", []),
        ("extend M { optional int32 a = 100; }", "", []),
        (
            "extend google.protobuf.FieldOptions { optional int32 a = 5000; }",
            "extend google.protobuf.FieldOptions { optional string a = 5000; }",
            [],
        ),
    ],
)
def test_extensions_are_fields_of_what_they_extend(before: str, after: str, found: list[str]) -> None:
    head = f'{PROTO2} import "google/protobuf/descriptor.proto"; '
    messages = "message M { extensions 100 to 200; } message N { extensions 100 to 200; } "
    assert kinds(head + messages + before, head + messages + after) == found
