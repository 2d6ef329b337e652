"""JSON lines: kept as they stand, or one clear error that names the line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mainstem.connectors import json_lines
from mainstem.connectors.json_lines import JsonLinesFile
from mainstem.connectors.tables import Wanted
from mainstem.errors import SchemaError
from mainstem.schema.infer import schema_of


def written(tmp_path: Path, data: str | bytes) -> JsonLinesFile:
    path = tmp_path / "file.jsonl"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return JsonLinesFile(path)


def test_a_line_is_kept_as_it_stands(tmp_path: Path) -> None:
    file = written(tmp_path, '{"a":  1.10,"b":[1,{"c":null}]}\n\n{"a": "é"}')
    (rows,) = file.encoded(("a",), {})
    assert rows.values.to_pylist() == [b'{"a":  1.10,"b":[1,{"c":null}]}', '{"a": "é"}'.encode()]
    assert rows.keys.to_pylist() == [b"1.1", "é".encode()]


def test_a_derived_column_is_added_to_the_text_as_it_stands(tmp_path: Path) -> None:
    (rows,) = written(tmp_path, '{"a": 1, "b": "{a}", "c": 1.50 }').encoded(("id",), {"id": "{a}-{b}"})
    assert rows.values.to_pylist() == [b'{"a": 1, "b": "{a}", "c": 1.50,"id":"1-{a}"}']
    assert rows.keys.to_pylist() == [b"1-{a}"]


@pytest.mark.parametrize(
    "line",
    ['{"a": ', "[1]", "1", '{"a": NaN}', b'{"a": "\xff"}', "[" * 100_000],
    ids=["cut", "array", "number", "NaN", "bytes", "deep"],
)
def test_a_line_that_is_no_json_object_is_named(tmp_path: Path, line: str | bytes) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(SchemaError, match=r"line 2 is not"):
        written(tmp_path, b'{"a": 1}\n' + data + b"\n").check(Wanted())


def test_a_line_without_a_column_that_must_be_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="line 2: column 'id' is null or missing, and the schema says NOT NULL"):
        written(tmp_path, '{"id": 1}\n{"id": null}\n').check(Wanted(schema_of("id BIGINT NOT NULL")))


@pytest.mark.parametrize("lines", [['{"a":1,"b":2}', '{"b":3}'], ['{"b":3}', '{"a":1,"b":2}']], ids=["last", "first"])
def test_a_column_may_be_missing_in_any_row_but_not_in_all(tmp_path: Path, lines: list[str]) -> None:
    file = written(tmp_path, "\n".join(lines))
    file.check(Wanted(schema_of("a INT, b INT")))
    assert sorted(file.columns) == ["a", "b"]
    with pytest.raises(SchemaError, match="has no column 'c', which the topic's schema asks for; it has"):
        file.check(Wanted(schema_of("a INT, c INT")))
    with pytest.raises(SchemaError, match="has a column 'a' already"):
        file.check(Wanted(None, (), {"a": "{b}"}))


def test_a_line_without_its_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="line 1: key column 'id' is missing"):
        list(written(tmp_path, '{"a": 1}\n').encoded(("id",), {}))


@pytest.mark.parametrize(
    ("line", "wanted", "reason"),
    [
        ('{"a": null}', Wanted(None, ("a",)), "line 2: key column 'a' is null"),
        ('{"a": null}', Wanted(None, ("b",), {"b": "x{a}"}), "line 2: column 'a', which 'x{a}' needs, is null"),
        ('{"a": "\\ud800"}', Wanted(None, ("a",)), "line 2: a value is not text that UTF-8 can hold"),
    ],
    ids=["key", "derived", "half a pair"],
)
def test_the_first_pass_finds_what_the_second_would(tmp_path: Path, line: str, wanted: Wanted, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        written(tmp_path, '{"a": 1}\n' + line + "\n").check(wanted)


def all_rows(file: JsonLinesFile, schema: str | None = None) -> list[bytes]:
    file.check(Wanted(schema_of(schema) if schema else None))
    return [value for rows in file.encoded((), {}) for value in rows.values.to_pylist()]


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    assert all_rows(written(tmp_path, b'\xef\xbb\xbf{"a":1}\n{"a":2}\n')) == [b'{"a":1}', b'{"a":2}']


def test_utf_16_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="the text is UTF-16; save it as UTF-8"):
        all_rows(written(tmp_path, '{"a":1}\n'.encode("utf-16")))


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="line 2 is not JSON: it has a lone surrogate"):
        all_rows(written(tmp_path, '{"a":1}\n{"a":"\\ud800"}\n'))


def test_what_readers_would_take_for_null_or_poison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"file.jsonl: line 3: column 'd': \"2020-02-31\" is not DATE"):
        all_rows(written(tmp_path, '{"d":"2020-02-29"}\n\n{"d":"2020-02-31"}\n'), "d DATE")


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_an_array_is_its_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(json_lines, "_READ_BYTES", block_bytes)
    data = '\ufeff [\n {"a":  1.10, "b": "é]"} ,{"a": [{}]}\n]\n'
    assert all_rows(written(tmp_path, data)) == ['{"a":  1.10, "b": "é]"}'.encode(), b'{"a": [{}]}']
    assert all_rows(written(tmp_path, "[ ]")) == []


def test_what_is_read_of_an_array_is_not_copied_for_each_object(tmp_path: Path) -> None:
    objects = [f'{{"a":{number}}}' for number in range(100_000)]
    seconds = []
    for text in ("\n".join(objects), f"[{','.join(objects)}]"):
        file = written(tmp_path, text)
        begun_s = time.process_time()
        assert sum(len(rows.values) for rows in file.encoded((), {})) == len(objects)
        seconds.append(time.process_time() - begun_s)
    lines_s, array_s = seconds
    assert array_s < 8 * lines_s


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('[\n{"a":1},\n7]', "line 3 is not a JSON object: 7"),
        ('[{"a":1}', "line 1: the array is cut short, or a comma is missing"),
        ('[{"a":1}\n{"a":2}]', "line 2: the array is cut short, or a comma is missing"),
        ('[{"a":1},]', "line 1 is not JSON"),
        ('[{"a":1},\n{"b" 2}]', "line 2 is not JSON: expecting ':' delimiter at character 6"),
        ('[{"a":', "line 1 is not JSON"),
        ('[{"a":1}] {}', "line 1: there is text after the array"),
        (b'[{"a":"\xff"}]', "the array is not UTF-8 text"),
    ],
)
def test_an_array_that_is_broken_is_said(tmp_path: Path, data: str | bytes, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        all_rows(written(tmp_path, data))
