"""Parquet: the file's own types, its nulls, its damages."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from mainstem.connectors.parquet_files import ParquetFile
from mainstem.errors import InputError, SchemaError


def test_rows_keep_their_types(tmp_path: Path) -> None:
    time = datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC)
    table = pa.table({"k": ["a", "b"], "n": pa.array([1, None], pa.int32()), "t": [time, None]})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    file = ParquetFile(tmp_path / "x.parquet")
    file.check(None)
    (rows,) = file.encoded(("k",), {})
    assert file.columns == ("k", "n", "t")
    assert rows.keys.to_pylist() == ["a", "b"]
    assert rows.values.to_pylist() == ['{"k":"a","n":1,"t":"2013-01-01T10:00:00Z"}', '{"k":"b","n":null,"t":null}']
    assert rows.bytes_read == rows.bytes_total


def test_what_is_no_parquet_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match="is not a Parquet file"):
        ParquetFile(tmp_path / "x.parquet").check(None)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        ParquetFile(tmp_path / "x.parquet").check(None)
