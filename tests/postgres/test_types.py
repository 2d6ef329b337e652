"""Every type of PostgreSQL by value, in a snapshot and in the stream: what the record says, and its column's type."""

from __future__ import annotations

import json

import pytest

from mainstem.schema.topic_schemas import lookup
from tests.postgres.conftest import Shop

VALUES = {
    # type: (column type, {PostgreSQL's text: value of the record; None with the text kept beside it})
    "boolean": ("BOOLEAN", {"t": True, "f": False}),
    "smallint": ("SMALLINT", {"-32768": -32768}),
    "integer": ("INT", {"2147483647": 2147483647}),
    "bigint": ("BIGINT", {"-9223372036854775808": -9223372036854775808}),
    "oid": ("BIGINT", {"4294967295": 4294967295}),
    "real": ("FLOAT", {"1.5": 1.5, "1e+20": 1e20, "NaN": None, "Infinity": None}),
    "double precision": ("DOUBLE", {"0.1": 0.1, "5e-324": 5e-324, "-Infinity": None}),
    "numeric(10,2)": ("DECIMAL(10,2)", {"12345678.90": "12345678.90", "-0.01": "-0.01", "NaN": None}),
    "numeric": ("STRING", {"123456789012345678901234567890.5": "123456789012345678901234567890.5", "NaN": "NaN"}),
    "numeric(50,3)": ("STRING", {"1.500": "1.500"}),
    "numeric(3,-2)": ("STRING", {"12300": "12300"}),
    "money": ("STRING", {"$1,234.50": "$1,234.50"}),
    "text": ("STRING", {"": "", 'a\tb\n\\N "é" \u2028': 'a\tb\n\\N "é" \u2028', "NULL": "NULL"}),
    "varchar(3)": ("STRING", {"abc": "abc"}),
    "char(4)": ("STRING", {"ab  ": "ab  "}),
    "bytea": ("BINARY", {"\\x00ff5c": "AP9c", "\\x": ""}),
    "date": ("DATE", {"2024-02-29": "2024-02-29", "0044-03-15 BC": None, "infinity": None, "10000-01-01": None}),
    "timestamp": (
        "TIMESTAMP_NTZ",
        {"2024-01-31 10:00:00.123456": "2024-01-31T10:00:00.123456", "infinity": None, "0044-03-15 10:00:00 BC": None},
    ),
    "timestamptz": (
        "TIMESTAMP",
        {
            "2024-01-31 10:00:00+00": "2024-01-31T10:00:00Z",
            "-infinity": None,
            "0001-01-01 00:00:00+00": "0001-01-01T00:00:00Z",
        },
    ),
    "time": ("STRING", {"10:00:00.5": "10:00:00.5"}),
    "timetz": ("STRING", {"10:00:00+02": "10:00:00+02"}),
    "interval": ("STRING", {"P1Y2M3DT4H5M6.7S": "P1Y2M3DT4H5M6.7S"}),
    "uuid": ("STRING", {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    "json": ("STRING", {'{"b": 1, "a": [1.50, null]}': {"b": 1, "a": [1.50, None]}, '"x"': "x"}),
    "jsonb": ("STRING", {'{"a": "\\u0001"}': {"a": "\u0001"}, "[]": []}),
    "inet": ("STRING", {"10.0.0.1/8": "10.0.0.1/8"}),
    "xml": ("STRING", {"<a>é</a>": "<a>é</a>"}),
    "bit(3)": ("STRING", {"101": "101"}),
    "tsvector": ("STRING", {"'a' 'b'": "'a' 'b'"}),
    "point": ("STRING", {"(1.5,2)": "(1.5,2)"}),
    "int4range": ("STRING", {"[1,5)": "[1,5)", "empty": "empty"}),
    "int4multirange": ("STRING", {"{[1,5),[7,9)}": "{[1,5),[7,9)}"}),
    "integer[]": ("ARRAY<INT>", {"{1,NULL,3}": [1, None, 3], "{}": [], "[0:1]={5,6}": [5, 6], "{{1,2},{3,4}}": None}),
    "integer[][]": ("ARRAY<ARRAY<INT>>", {"{{1,2},{3,4}}": [[1, 2], [3, 4]], "{}": []}),
    "text[]": ("ARRAY<STRING>", {'{"a,b","q\\"",NULL,"NULL",é}': ["a,b", 'q"', None, "NULL", "é"]}),
    "numeric(5,1)[]": ("ARRAY<DECIMAL(5,1)>", {"{1.5,NULL}": ["1.5", None], "{NaN}": None}),
    "date[]": ("ARRAY<DATE>", {"{2024-01-01}": ["2024-01-01"], "{infinity}": None}),
    "jsonb[]": ("ARRAY<STRING>", {'{"{\\"a\\": 1}"}': [{"a": 1}]}),
    "box[]": ("STRING", {"{(2,2),(1,1)}": "{(2,2),(1,1)}"}),
    "mood": ("STRING", {"good": "good"}),
    "mood[]": ("ARRAY<STRING>", {"{good,bad}": ["good", "bad"]}),
    "pair": ("STRING", {"(1,x)": "(1,x)"}),
    "cents": ("DECIMAL(8,2)", {"1.25": "1.25"}),
    "points": ("ARRAY<INT>", {"{1,2}": [1, 2]}),
}


@pytest.fixture
def typed(shop: Shop) -> Shop:
    shop.execute("CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (a int, b text)")
    shop.execute("CREATE DOMAIN cents AS numeric(8,2) CHECK (VALUE >= 0); CREATE DOMAIN points AS int[]")
    return shop


def test_every_type_in_the_snapshot_and_in_the_stream(typed: Shop) -> None:
    columns = ", ".join(f'"c{n}" {name}' for n, name in enumerate(VALUES))
    typed.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {columns})")
    rows = max(len(values) for _, values in VALUES.values())
    names = ", ".join(f'"c{n}"' for n in range(len(VALUES)))
    for first in (0, 100):
        if first:
            capture = typed.capture()
            capture.__enter__()
            capture.caught_up(typed.database)
        for row in range(rows):
            texts = [[*values][row] if row < len(values) else None for _, values in VALUES.values()]
            typed.execute(f"INSERT INTO orders (id, {names}) VALUES (%s{', %s' * len(texts)})", (first + row, *texts))
    typed.execute("INSERT INTO orders (id) VALUES (999)")
    capture.caught_up(typed.database)
    capture.stop()
    fold = typed.fold()
    registered = lookup(typed.log, f"{typed.name}.orders")
    assert registered is not None
    for n, (name, (column, values)) in enumerate(VALUES.items()):
        assert registered.schema.column(f"c{n}").type == column, name
        for row, (text, value) in enumerate(values.items()):
            for record in (fold[str(row)], fold[str(100 + row)]):
                assert record[f"c{n}"] == value, (name, text)
                assert record.get("_postgres", {}).get(f"c{n}") == (text if value is None else None), (name, text)
    assert set(fold["999"].values()) == {999, None}


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("bigint", "17", "17"),
        ("text", 'a "b"', 'a "b"'),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("char(3)", "ab ", "ab "),
        ("numeric(5,2)", "1.50", "1.50"),
        ("boolean", "t", "true"),
        ("timestamptz", "2024-01-31 10:00:00+00", "2024-01-31T10:00:00Z"),
        ("bytea", "\\x00ff", "AP8="),
        ("mood", "good", "good"),
        ("date", "infinity", "infinity"),
    ],
)
def test_a_key_of_each_type_is_the_text_of_its_value(typed: Shop, name: str, text: str, key: str) -> None:
    typed.execute(f"CREATE TABLE orders (id {name} PRIMARY KEY, n int)")
    typed.execute("INSERT INTO orders VALUES (%s, 1)", (text,))
    with typed.capture() as capture:
        capture.caught_up(typed.database)
        typed.execute("UPDATE orders SET n = 2")
        capture.caught_up(typed.database)
        typed.execute("DELETE FROM orders")
        capture.caught_up(typed.database)
    assert [(found, value and value["n"]) for found, value in typed.records()] == [(key, 1), (key, 2), (key, None)]


def test_a_value_beyond_every_readers_depth_is_text(typed: Shop) -> None:
    typed.execute("CREATE TABLE orders (id int PRIMARY KEY, tags json)")
    deep, fits = "[" * 399 + "]" * 399, "[" * 396 + "]" * 396
    typed.execute("INSERT INTO orders VALUES (1, %s), (2, %s)", (deep, fits))
    with typed.capture() as capture:
        capture.caught_up(typed.database)
    assert typed.fold()["1"]["tags"] == deep
    assert typed.fold()["2"]["tags"] == json.loads(fits)
