"""The lines of a file become records, and the first wrong line is named."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.console.records.record_files import BATCH_RECORDS, FileError, FileForm, batches

COLUMNS = {"id": "STRING", "n": "INT", "x": "DOUBLE", "ok": "BOOLEAN", "at": "TIMESTAMP", "list": "ARRAY<INT>"}


def read(written: str, *key: str, is_csv: bool = False, is_records: bool = False) -> list[tuple[int, Any]]:
    form = FileForm(is_csv, is_records, key, COLUMNS)
    return [each for batch in batches(written, form) for each in zip(batch.lines, batch.records, strict=True)]


def test_values_of_json_lines_get_the_key_that_their_fields_make() -> None:
    written = '{"id": "a", "n": 1}\n\n{"id": "b", "n": 2}\r\n'
    assert read(written, "id") == [
        (1, {"key": "a", "value": {"id": "a", "n": 1}}),
        (3, {"key": "b", "value": {"id": "b", "n": 2}}),
    ]
    assert [record["key"] for _, record in read(written, "id", "n")] == ['["a",1]', '["b",2]']
    assert read("5\n") == [(1, {"value": 5})]


def test_records_are_taken_as_reads_show_them() -> None:
    shown = '{"partition": 1, "offset": 7, "key": "k", "value": null, "headers": [{"name": "h", "value": "v"}]}'
    assert read(shown, is_records=True) == [
        (1, {"key": "k", "value": None, "headers": {"h": "v"}, "partition": 1}),
    ]


def test_cells_of_csv_become_what_their_columns_are() -> None:
    written = '\ufeffid,n,x,ok,at,list,more\n"a ""b"", c",7,1.5,True,2013-01-01,[1],\nb,seven,,,,,z\n'
    first, second = (record["value"] for _, record in read(written, is_csv=True))
    assert first == {"id": 'a "b", c', "n": 7, "x": 1.5, "ok": True, "at": "2013-01-01", "list": [1], "more": None}
    assert (second["n"], second["x"], second["more"]) == ("seven", None, "z")


@pytest.mark.parametrize(
    ("written", "options", "said"),
    [
        ('{"id": "a"}\n{"id": ', {}, "line 2 is not JSON"),
        ('{"key": "a"}', {"is_records": True}, "line 1 is not a record"),
        ("", {"is_csv": True}, "the file is empty"),
        ("id,n\na,1\nb\n", {"is_csv": True}, "line 3 has 1 values"),
        ('id,n\na,"1', {"is_csv": True}, "line 2 is not CSV"),
    ],
)
def test_a_wrong_line_is_named(written: str, options: dict[str, bool], said: str) -> None:
    with pytest.raises(FileError, match=said):
        read(written, **options)


def test_a_line_without_its_key_is_named() -> None:
    with pytest.raises(FileError, match="line 2 has no 'id'"):
        read('{"id": "a"}\n{"n": 1}\n', "id")


def test_batches_are_bounded() -> None:
    form = FileForm(is_csv=False, is_records=False, key=(), columns={})
    sizes = [len(batch.records) for batch in batches("1\n" * (BATCH_RECORDS + 1), form)]
    assert sizes == [BATCH_RECORDS, 1]
    assert len(list(batches(f'"{"x" * 300_000}"\n' * 3, form))) == 3
