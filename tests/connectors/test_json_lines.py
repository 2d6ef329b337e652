"""JSON lines: kept as they stand, or one clear error that names the line."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_a_derived_column_is_added(tmp_path: Path) -> None:
    (rows,) = written(tmp_path, '{"a": 1, "b": "{a}"}').encoded(("id",), {"id": "{a}-{b}"})
    assert rows.values.to_pylist() == [b'{"a":1,"b":"{a}","id":"1-{a}"}']
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
    with pytest.raises(SchemaError, match="line 2 has no 'id'"):
        written(tmp_path, '{"id": 1}\n{"id": null}\n').check(Wanted(schema_of("id BIGINT NOT NULL")))


def test_a_line_without_its_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="line 1: key column 'id' is missing"):
        list(written(tmp_path, '{"a": 1}\n').encoded(("id",), {}))


@pytest.mark.parametrize(
    ("line", "wanted", "reason"),
    [
        ('{"a": null}', Wanted(None, ("a",)), "line 2: key column 'a' is null"),
        ('{"a": null}', Wanted(None, ("b",), {"b": "x{a}"}), "line 2: column 'a', which 'x{a}' needs, is null"),
        ('{"a": "\\ud800"}', Wanted(None, ("a",)), "line 2: a value is not text that UTF-8 can hold"),
        ('{"a": 1, "c": 1e999}', Wanted(None, (), {"b": "x{a}"}), "line 2: the value has no JSON form"),
    ],
    ids=["key", "derived", "half a pair", "infinity"],
)
def test_the_first_pass_finds_what_the_second_would(tmp_path: Path, line: str, wanted: Wanted, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        written(tmp_path, '{"a": 1}\n' + line + "\n").check(wanted)
