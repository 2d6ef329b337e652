"""CSV: types over the whole file, nulls, and one clear error for each way in which a file can be broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mainstem.connectors import csv_files, csv_quotes
from mainstem.connectors.csv_files import CsvFile
from mainstem.connectors.tables import Wanted
from mainstem.errors import InputError, SchemaError
from mainstem.schema.infer import schema_of


def written(tmp_path: Path, data: str | bytes, name: str = "file.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def rows_of(path: Path, schema: str | None = None, key: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    file = CsvFile(path)
    file.check(Wanted(schema_of(schema) if schema else None, key))
    return [json.loads(value) for rows in file.encoded(key, {}) for value in rows.values.to_pylist()]


def test_types_are_found(tmp_path: Path) -> None:
    path = written(tmp_path, "i,d,b,s,t\n1,1.5,true,x,2013-01-01T10:00:00Z\n-2,2,false,y,2013-01-01T11:00:00Z\n")
    assert rows_of(path) == [
        {"i": 1, "d": 1.5, "b": True, "s": "x", "t": "2013-01-01T10:00:00Z"},
        {"i": -2, "d": 2.0, "b": False, "s": "y", "t": "2013-01-01T11:00:00Z"},
    ]


@pytest.mark.parametrize("text", ["007", "+5", "0x1F", "1e999", "12345678901234567890", " 5", "NaN"])
def test_what_is_no_plain_number_stays_text(tmp_path: Path, text: str) -> None:
    assert rows_of(written(tmp_path, f"x\n1\n{text}\n"))[1] == {"x": text}


def test_null_tokens_are_null_in_every_column(tmp_path: Path) -> None:
    assert rows_of(written(tmp_path, 'a,b\n1,NA\n,x\nNA,""\n')) == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
        {"a": None, "b": None},
    ]


def test_a_column_gets_its_type_from_the_whole_file_and_not_from_its_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 64)
    path = written(tmp_path, "x,y\n" + "NA,1\n" * 100 + "7,2\n" + "1.5,3\n")
    rows = rows_of(path)
    assert len(rows) == 102
    assert rows[-2:] == [{"x": 7.0, "y": 2}, {"x": 1.5, "y": 3}]


def test_quotes_newlines_and_other_scripts_survive(tmp_path: Path) -> None:
    path = written(tmp_path, 'x\n"a ""quoted"" \\ word"\n"two\nlines"\n日本\n')
    assert [row["x"] for row in rows_of(path)] == ['a "quoted" \\ word', "two\nlines", "日本"]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert rows_of(written(tmp_path, b"\xef\xbb\xbfx\n1\n")) == [{"x": 1}]


def test_utf_16_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="the text is UTF-16; save it as UTF-8"):
        rows_of(written(tmp_path, "x,y\n1,2\n".encode("utf-16")))


def test_a_header_alone_is_no_rows(tmp_path: Path) -> None:
    assert rows_of(written(tmp_path, "a,b\n")) == []


def test_the_schema_decides_the_type(tmp_path: Path) -> None:
    path = written(tmp_path, "zip,n,when\n01234,5,2013-01-01T10:00:00Z\n")
    rows = rows_of(path, "zip STRING, n DOUBLE, when TIMESTAMP")
    assert rows == [{"zip": "01234", "n": 5.0, "when": "2013-01-01T10:00:00Z"}]


def test_a_value_that_does_not_fit_the_schema_names_row_and_column(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"row 3: column 'n': 'many' is not INT"):
        rows_of(written(tmp_path, "n\n1\nmany\n"), "n INT")


def test_a_row_with_too_few_columns_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"row 3: [Ee]xpected 2 columns, got 1"):
        rows_of(written(tmp_path, "a,b\n1,2\n3\n4,5\n"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"a,a\n1,2\n", "names column 'a' twice"),
        (b"a,\n1,2\n", "a column without a name"),
        (b"a\n\xff\n", "not UTF-8"),
        (b"a\xff\n1\n", "not UTF-8"),
    ],
    ids=["empty", "name twice", "name missing", "bytes in a value", "bytes in the header"],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        rows_of(written(tmp_path, data))


def test_a_row_longer_than_a_block_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 64)
    with pytest.raises(SchemaError, match="a row is longer than"):
        rows_of(written(tmp_path, "a\n" + "x" * 500 + "\n"))


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        rows_of(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("data", "wanted", "reason"),
    [
        ("id,n\na,1\n,2\n", Wanted(None, ("id",)), "row 3: key column 'id' is null"),
        ("a,b\nx,1\ny,\n", Wanted(None, ("id",), {"id": "{a}-{b}"}), "row 3: column 'b' is null; a derived column"),
        ("a\n1\n", Wanted(None, (), {"a": "{a}"}), "has a column 'a' already"),
    ],
    ids=["key", "derived", "twice"],
)
def test_the_first_pass_finds_what_the_second_would(tmp_path: Path, data: str, wanted: Wanted, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        CsvFile(written(tmp_path, data)).check(wanted)


def quoted(count: int, *strays: tuple[int, str]) -> str:
    rows = dict(strays)
    return "id,size\n" + "".join(f"{row},{rows.get(row, '5 inch')}\n" for row in range(2, count + 2))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            quoted(5000, (100, '"5 inch'), (2000, '"7 inch')),
            "line 100: the quote .* closes in line 2000",
        ),
        (quoted(5000, (4900, '"5 inch')), "line 4900: the quote that begins a value is not closed"),
        ('a\n"x"y\n', "line 2: the quote that begins a value closes in line 2, and text follows"),
        ('\ufeff"a"b\n1\n', "line 1: the quote"),
    ],
    ids=["two", "one", "text behind", "header"],
)
def test_a_stray_quote_swallows_no_rows_and_is_named(tmp_path: Path, data: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        rows_of(written(tmp_path, data))


@pytest.mark.parametrize("block_bytes", [3, 1 << 20])
def test_quotes_that_are_whole_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    path = written(tmp_path, '\ufeff"a",b\r\n"5"" pipe","x\ny"\r\n5 " z,""\r\n"",q"')
    checker = csv_quotes.QuoteChecker(path.open("rb"), path, ",")
    while checker.read(block_bytes):
        pass
    assert rows_of(path) == [{"a": '5" pipe', "b": "x\ny"}, {"a": '5 " z', "b": None}, {"a": None, "b": 'q"'}]


def test_a_null_key_says_the_file_and_what_stands_for_null(tmp_path: Path) -> None:
    path = written(tmp_path, "iso\nDE\nNA\n")
    with pytest.raises(SchemaError, match=rf"{re.escape(str(path))}: row 3: key column 'iso' is null.*--null \"\""):
        rows_of(path, key=("iso",))
