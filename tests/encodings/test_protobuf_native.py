"""Natively and by Protobuf's own library: the same columns of any bytes, and the same bytes of any columns."""

from __future__ import annotations

import datetime
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.client.values import time_text
from mainstem.encodings.avro_columns import arrow_schema
from mainstem.encodings.encoders import schema_text
from mainstem.encodings.protobuf import protobuf_decode
from mainstem.encodings.protobuf.protobuf_encode import encode_messages
from mainstem.encodings.protobuf.protobuf_messages import message_class
from mainstem.encodings.protobuf.protobuf_programs import is_native, wanted_of
from mainstem.registry.parsing import format_of
from mainstem.schema.infer import schema_of
from mainstem.schema.json_rows import DecodedRows

SOURCE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";
import "confluent/type/decimal.proto";
enum Size { SMALL = 0; LARGE = 2; }
message Row {
  message Part { optional sint32 a = 1; string b = 2; repeated int32 n = 3; Row deeper = 4; }
  double f_double = 1; float f_float = 2; int64 f_int64 = 3; uint64 f_uint64 = 4; int32 f_int32 = 5;
  fixed64 f_fixed64 = 6; fixed32 f_fixed32 = 7; bool f_bool = 8; string f_string = 9; bytes f_bytes = 12;
  uint32 f_uint32 = 13; Size f_enum = 14; sfixed32 f_sfixed32 = 15; sfixed64 f_sfixed64 = 16; sint32 f_sint32 = 17;
  sint64 f_sint64 = 18;
  optional int32 o_int32 = 21; optional string o_string = 22; optional Size o_enum = 23; optional bytes o_bytes = 24;
  google.protobuf.Timestamp at = 31; google.protobuf.Int64Value wrapped = 32; google.protobuf.StringValue text = 33;
  google.protobuf.Duration took = 34; confluent.type.Decimal price = 35; Part part = 36;
  oneof choice { int32 c_int32 = 41; string c_string = 42; Part c_part = 43; }
  repeated int32 r_int32 = 51; repeated sint64 r_sint64 = 52 [packed = false]; repeated double r_double = 53;
  repeated fixed32 r_fixed32 = 54; repeated bool r_bool = 55; repeated string r_string = 56; repeated Part r_part = 57;
  repeated Size r_enum = 58; repeated google.protobuf.Timestamp r_at = 59; repeated bytes r_bytes = 60;
  map<string, int32> m_int32 = 71; map<int32, Part> m_part = 72; map<string, google.protobuf.Timestamp> m_at = 73;
}
"""
TEXT = format_of("PROTOBUF").parse(SOURCE, {}).portable()
ROW = message_class(TEXT)
SCALARS = (
    "STRING", "BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ", "BINARY",
)  # fmt: skip
PART = "STRUCT<a: INT, b: STRING, n: ARRAY<INT>, none: INT>"
OTHERS = {
    "f_string": ("DECIMAL(5,1)", "DATE"),
    "part": (PART, "STRUCT<b: DATE, deeper: STRUCT<f_int32: TINYINT, part: STRUCT<a: INT>>>"),
    "c_part": (PART,),
    "r_int32": ("ARRAY<INT>", "ARRAY<TINYINT>", "ARRAY<STRING>"),
    "r_sint64": ("ARRAY<BIGINT>", "ARRAY<SMALLINT>"),
    "r_double": ("ARRAY<DOUBLE>", "ARRAY<FLOAT>"),
    "r_fixed32": ("ARRAY<BIGINT>", "ARRAY<INT>"),
    "r_bool": ("ARRAY<BOOLEAN>",),
    "r_string": ("ARRAY<STRING>", "ARRAY<TIMESTAMP>"),
    "r_part": (f"ARRAY<{PART}>", "ARRAY<STRUCT<b: DATE>>", "ARRAY<STRING>"),
    "r_enum": ("ARRAY<STRING>",),
    "r_at": ("ARRAY<TIMESTAMP>", "ARRAY<TIMESTAMP_NTZ>"),
    "r_bytes": ("ARRAY<BINARY>",),
    "m_int32": ("MAP<STRING, INT>", "MAP<STRING, TINYINT>", "MAP<STRING, STRING>"),
    "m_part": (f"MAP<INT, {PART}>", "MAP<TINYINT, STRUCT<a: INT>>", f"MAP<STRING, {PART}>"),
    "m_at": ("MAP<STRING, TIMESTAMP>", "MAP<INT, TIMESTAMP>", "MAP<DATE, TIMESTAMP>", "MAP<BOOLEAN, TIMESTAMP>"),
}
NAMES = [field.name for field in ROW.DESCRIPTOR.fields]
REGULAR = (
    "f_double DOUBLE, f_float FLOAT, f_int64 BIGINT, f_int32 INT, f_bool BOOLEAN, f_string STRING, f_bytes BINARY, "
    "f_enum STRING, o_int32 INT, o_string STRING, at TIMESTAMP, wrapped BIGINT, text STRING, c_int32 INT, "
    f"c_string STRING, part {PART}, r_int32 ARRAY<INT>, r_sint64 ARRAY<BIGINT>, r_string ARRAY<STRING>, "
    f"r_part ARRAY<{PART}>, m_int32 MAP<STRING, INT>"
)
INTEGERS = {3: 64, 5: 32, 15: 32, 16: 64, 17: 32, 18: 64}
UNSIGNED = {4: 64, 6: 64, 7: 32, 13: 32}


def scalars_of(field: Any) -> st.SearchStrategy[Any]:
    """Values of a scalar field."""
    if field.type in INTEGERS:
        most = 2 ** (INTEGERS[field.type] - 1)
        return st.integers(-most, most - 1) | st.integers(-200, 200)
    if field.type in UNSIGNED:
        return st.integers(0, 2 ** UNSIGNED[field.type] - 1)
    if field.enum_type is not None:
        return st.sampled_from([0, 2, 1, -1, 2**31 - 1])
    texts = st.text(max_size=4) | st.sampled_from(["2024-02-29", "1.5", "2024-02-29T10:00:00Z", "AAE="])
    return {
        1: st.floats(),
        2: st.floats(width=32),
        8: st.booleans(),
        9: texts,
        12: st.binary(max_size=4),
    }[field.type]


@st.composite
def messages(draw: st.DrawFn, kind: Any = ROW, depth: int = 0) -> Any:
    """A message of a type, some of its fields set."""
    message = kind()
    fields = [each for each in kind.DESCRIPTOR.fields if depth < 2 or each.message_type is None]
    for field in (
        draw(st.lists(st.sampled_from(fields), max_size=6, unique_by=lambda each: each.name)) if fields else []
    ):
        fill(draw, message, field, depth)
    return message


def fill(draw: st.DrawFn, message: Any, field: Any, depth: int) -> None:
    """Set one field."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        keys = (
            (st.text(max_size=2) | st.sampled_from(["1", "-70000", "true", "2024-02-29"]))
            if field.message_type.fields_by_name["key"].type == 9
            else st.integers(-200, 200)
        )
        target = getattr(message, field.name)
        for key in draw(st.lists(keys, max_size=2)):
            value = field.message_type.fields_by_name["value"]
            if value.message_type is None:
                target[key] = draw(scalars_of(value))
            else:
                target[key].MergeFrom(draw(messages(type(target[key]), depth + 1)))
    elif field.message_type is not None:
        for _ in range(draw(st.integers(0, 2)) if field.is_repeated else 1):
            inside = getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)
            inside.SetInParent()
            inside.MergeFrom(draw(messages(type(inside), depth + 1)))
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(scalars_of(field), max_size=3)))
    else:
        setattr(message, field.name, draw(scalars_of(field)))


def varint(number: int) -> bytes:
    """A plain varint."""
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


@st.composite
def wire_fields(draw: st.DrawFn) -> bytes:
    """One field as it stands in a message: of any number and any wire type, with content that may be wrong for it."""
    number = draw(st.sampled_from([*(field.number for field in ROW.DESCRIPTOR.fields), 0, 99, 2**29 - 1]))
    wire = draw(st.integers(0, 7))
    content = {
        0: st.integers(0, 2**64 - 1).map(varint) | st.just(b"\xff" * 10) | st.just(b"\x80\x00"),
        1: st.binary(min_size=8, max_size=8),
        2: st.binary(max_size=8).map(lambda data: varint(len(data)) + data)
        | st.just(b"\xff\xff\xff\xff\x0f")
        | st.lists(st.integers(0, 2**64 - 1).map(varint), max_size=3).map(
            lambda parts: varint(len(b"".join(parts))) + b"".join(parts)
        ),
        5: st.binary(min_size=4, max_size=4),
    }.get(wire, st.just(b""))
    return varint(number << 3 | wire) + draw(content)


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """The bytes of a message: whole ones, two in a row (they are merged), with odd fields, damaged ones."""
    parts = draw(st.lists(messages().map(lambda each: each.SerializeToString()) | wire_fields(), max_size=3))
    data = b"".join(parts)
    if data and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data) - 1))
        data = draw(st.sampled_from([data[:at], data[:at] + data[at + 1 :], data[:at] + b"\xff" + data[at + 1 :]]))
    return data


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    """Columns of some fields, each of a type that may not go with its field."""
    names = draw(st.lists(st.sampled_from([*NAMES, "missing"]), max_size=8, unique=True))
    kinds = {name: OTHERS.get(name, ()) + SCALARS[: None if not name.startswith(("r_", "m_")) else 1] for name in names}
    return arrow_schema(
        schema_of(", ".join(f"{name} {draw(st.sampled_from(kinds[name]))}" for name in names) or "missing INT")
    )


def plain_rows(found: DecodedRows) -> list[Any]:
    """The rows with maps as dicts, whether each is an object, and whether it fits."""
    count = found.arrow_batch.num_rows
    masks = [[True] * count if mask is None else mask.to_pylist() for mask in (found.is_object, found.fits)]
    return list(zip(map(repr, map(without_order, found.arrow_batch.to_pylist())), *masks, strict=True))


def without_order(value: Any) -> Any:
    """The value with lists of pairs sorted: maps have no order."""
    if isinstance(value, dict):
        return {name: without_order(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [without_order(each) for each in value]
        return sorted(found, key=repr) if found and isinstance(found[0], tuple) else found
    return value


def read_both(data: list[bytes], schema: pa.Schema, opening: bytes = b"\x00") -> tuple[DecodedRows, DecodedRows]:
    """The values as the product reads them, and as it reads them by Protobuf's library alone."""
    array = pa.array([b"12345" + opening + each for each in data], pa.binary())
    return (
        protobuf_decode.decode_messages(array, 5, TEXT, schema),
        protobuf_decode._plainly(array, 5, TEXT, schema),
    )


@given(st.lists(values(), max_size=4), schemas())
@example([b"\x9a\x02\x00" * 2], arrow_schema(schema_of("took STRING")))
@example([b"\xf8\xff\xff\xff\x80\x00\x0b"], arrow_schema(schema_of("missing INT")))
@example([b"\x4a\x81\x80\x80\x80\x80\x00\x0b"], arrow_schema(schema_of("f_string STRING")))
@example([b"\x48\x01", b"\x4a\x02\xed\xa0"], arrow_schema(schema_of("f_string STRING")))
@example([b"\xaa\x03\x08" + struct.pack("<d", math.inf)], arrow_schema(schema_of("r_double ARRAY<DOUBLE>")))
@example([b"\x09" + struct.pack("<d", math.nan)], arrow_schema(schema_of("f_double STRING")))
def test_any_bytes_are_read_as_protobufs_library_reads_them(data: list[bytes], schema: pa.Schema) -> None:
    natively, plainly = read_both(data, schema)
    assert plain_rows(natively) == plain_rows(plainly)
    assert dict(natively.misfits) == {name: n for name, n in plainly.misfits.items() if n}


@given(st.lists(messages(), min_size=1, max_size=4))
def test_ordinary_messages_are_read_natively(rows: list[Any]) -> None:
    data = [b"\x00" + each.SerializeToString() for each in rows]
    schema = arrow_schema(schema_of(REGULAR))
    ends = np.cumsum([len(each) for each in data])
    source = np.frombuffer(b"".join(data), np.uint8)
    located = protobuf_decode.Messages.of(source, ends - [len(each) - 1 for each in data], ends)
    level = protobuf_decode._natively(located, b"\x00", TEXT, wanted_of(schema))
    assert level is not None
    assert level.good.all()


@pytest.mark.parametrize("size", range(40))
def test_a_value_that_is_cut_short_never_reads_its_neighbors(size: int) -> None:
    message = ROW(f_string="neighbor", r_int32=[1, 300, 70000], f_double=1.5)
    message.part.b = "inside"
    data = message.SerializeToString()
    natively, plainly = read_both([data[:size], data], arrow_schema(schema_of(REGULAR)))
    assert plain_rows(natively) == plain_rows(plainly)


def test_packed_and_unpacked_are_the_same_and_the_last_occurrence_counts() -> None:
    packed = varint(51 << 3 | 2) + b"\x03\x01\x02\x03"
    unpacked = b"".join(varint(51 << 3) + bytes([n]) for n in (1, 2, 3))
    both = varint(52 << 3 | 2) + b"\x02\x01\x02" + varint(52 << 3) + b"\x03"
    name = varint(9 << 3 | 2)
    data = [packed, unpacked, both, name + b"\x01a" + name + b"\x02bc"]
    schema = arrow_schema(schema_of("r_int32 ARRAY<INT>, r_sint64 ARRAY<BIGINT>, f_string STRING"))
    natively, plainly = read_both(data, schema)
    assert plain_rows(natively) == plain_rows(plainly)
    assert natively.arrow_batch.to_pydict() == {
        "r_int32": [[1, 2, 3], [1, 2, 3], [], []],
        "r_sint64": [[], [], [-1, 1, -2], []],
        "f_string": ["", "", "", "bc"],
    }


def test_messages_that_are_nested_too_deep_are_refused() -> None:
    data = b""
    for _ in range(60):
        data = varint(4 << 3 | 2) + varint(len(data)) + data
        data = varint(36 << 3 | 2) + varint(len(data)) + data
    natively, plainly = read_both([data], arrow_schema(schema_of("f_int32 INT")))
    assert plain_rows(natively) == plain_rows(plainly)
    assert natively.is_object is not None
    assert natively.is_object.to_pylist() == [False]


def test_a_message_of_very_many_messages_is_left_to_protobufs_library() -> None:
    def nested(depth: int) -> Any:
        part = ROW.Part(a=depth)
        if depth:
            part.deeper.part.MergeFrom(nested(depth - 1))
            part.deeper.c_part.MergeFrom(part.deeper.part)
        return part

    data = ROW(part=nested(9)).SerializeToString()
    natively, plainly = read_both([data], arrow_schema(schema_of(f"part {PART}")))
    assert plain_rows(natively) == plain_rows(plainly)
    assert natively.arrow_batch.to_pylist()[0]["part"]["a"] == 9


def test_messages_of_several_types_in_one_column_are_read() -> None:
    part = b"\x04\x00\x00" + ROW.Part(b="x").SerializeToString()
    array = pa.array([b"12345" + each for each in (b"\x00" + ROW(f_int32=1).SerializeToString(), part, b"\x06")])
    found = protobuf_decode.decode_messages(array, 5, TEXT, arrow_schema(schema_of("f_int32 INT, b STRING")))
    assert found.arrow_batch.to_pylist() == [
        {"f_int32": 1, "b": None},
        {"f_int32": None, "b": "x"},
        {"f_int32": None, "b": None},
    ]
    assert found.is_object is not None
    assert found.is_object.to_pylist() == [True, True, False]


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_messages_of_proto2_are_left_to_protobufs_library(syntax: str) -> None:
    text = format_of("PROTOBUF").parse(f'syntax = "{syntax}"; message M {{ optional int32 a = 1; }}', {}).portable()
    assert is_native(message_class(text).DESCRIPTOR, (("a", pa.int32()),)) == (syntax == "proto3")
    array = pa.array([b"12345\x00\x08\x07"], pa.binary())
    schema = arrow_schema(schema_of("a INT"))
    assert protobuf_decode.decode_messages(array, 5, text, schema).arrow_batch.to_pylist() == [{"a": 7}]


# ---- columns into values

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=5),
    "BINARY": st.binary(max_size=5),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(timezones=st.just(datetime.UTC)),
    "TIMESTAMP_NTZ": st.datetimes(),
    "DECIMAL(38,9)": st.decimals(-(10**28), 10**28, places=9),
    "ARRAY<BIGINT>": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "ARRAY<DOUBLE>": st.lists(st.floats(allow_nan=False), max_size=3),
    "ARRAY<STRING>": st.lists(st.text(max_size=3), max_size=3),
    "ARRAY<TIMESTAMP>": st.lists(st.datetimes(timezones=st.just(datetime.UTC)), max_size=2),
    "STRUCT<a: INT, b: ARRAY<DATE>>": st.fixed_dictionaries(
        {"a": st.none() | st.integers(-5, 5), "b": st.lists(st.dates(), max_size=2)}
    ),
    "ARRAY<STRUCT<a: INT, b: STRUCT<c: STRING>>>": st.lists(
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(-5, 5), "b": st.none() | st.fixed_dictionaries({"c": st.text(max_size=3)})}
        ),
        max_size=2,
    ),
}
WRITTEN = schema_of(", ".join(f"c{number} {kind}" for number, kind in enumerate(COLUMNS)))
WRITTEN_TEXT = schema_text("orders", WRITTEN, "protobuf")
ROWS = st.lists(
    st.fixed_dictionaries({f"c{n}": st.none() | values for n, values in enumerate(COLUMNS.values())}), max_size=4
)


def put(message: Any, row: dict[str, Any]) -> None:
    """Fill a message as a program that uses Protobuf's library does."""
    for name, value in row.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        for each in value if field.is_repeated else [value]:
            if field.message_type is None:
                shown = each.isoformat() if type(each) is datetime.date else each
                shown = time_text(each) if isinstance(each, datetime.datetime) else shown
                shown = format(each, "f") if type(each).__name__ == "Decimal" else shown
                if field.is_repeated:
                    getattr(message, name).append(shown)
                else:
                    setattr(message, name, shown)
                continue
            inside = getattr(message, name).add() if field.is_repeated else getattr(message, name)
            inside.SetInParent()
            if isinstance(each, datetime.datetime):
                inside.FromDatetime(each)
            else:
                put(inside, each)


@given(ROWS)
def test_columns_are_the_bytes_that_protobufs_library_writes(rows: list[dict[str, Any]]) -> None:
    schema = arrow_schema(WRITTEN)
    arrow_batch = pa.RecordBatch.from_pylist([{}, *rows, {}], schema).slice(1, len(rows))
    natively = encode_messages(arrow_batch, WRITTEN_TEXT, b"\x00abcd\x00")
    new = message_class(WRITTEN_TEXT)
    expected = []
    for row in rows:
        put(message := new(), row)
        expected.append(b"\x00abcd\x00" + message.SerializeToString())
    assert natively.to_pylist() == expected
    found = protobuf_decode.decode_messages(natively, 5, WRITTEN_TEXT, schema)
    lists = [name for name in schema.names if pa.types.is_list(schema.field(name).type)]
    assert found.arrow_batch.to_pylist() == [
        {**row, **{name: [] for name in lists if row[name] is None}, **without_null_lists(row)} for row in rows
    ]


def without_null_lists(row: dict[str, Any]) -> dict[str, Any]:
    """The infinities, which are read as null, as such."""
    inf = (float("inf"), float("-inf"))
    found = {name: None for name, value in row.items() if isinstance(value, float) and value in inf}
    if row["c13"] is not None:
        found["c13"] = [None if each in inf else each for each in row["c13"]]
    return found


def test_maps_are_read_as_they_were_written() -> None:
    columns = schema_of("m MAP<STRING, INT>, n MAP<INT, STRUCT<a: INT, at: TIMESTAMP>>, o MAP<STRING, STRING>")
    schema, text = arrow_schema(columns), schema_text("t", columns, "protobuf")
    moment = datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC)
    row = {
        "m": [("b", 0), ("a", -1), ("", 2**31 - 1)],
        "n": [(-5, {"a": None, "at": moment}), (7, {"a": 1, "at": None})],
        "o": [],
    }
    rows = [row, {"m": [], "n": [], "o": [("x", "")]}]
    encoded = encode_messages(pa.RecordBatch.from_pylist(rows, schema), text, b"\x00")
    assert protobuf_decode.decode_messages(encoded, 0, text, schema).arrow_batch.to_pylist() == rows
    message = message_class(text).FromString(encoded[0].as_py()[1:])
    assert dict(message.m) == dict(row["m"])
    assert {name: each.a for name, each in message.n.items()} == {"-5": 0, "7": 1}


def test_a_schema_of_no_columns_and_no_values_are_read() -> None:
    assert read_both([], arrow_schema(schema_of(REGULAR)))[0].arrow_batch.num_rows == 0
    assert (
        protobuf_decode.decode_messages(pa.array([b"\x00"], pa.binary()), 0, TEXT, pa.schema([])).arrow_batch.num_rows
        == 1
    )
