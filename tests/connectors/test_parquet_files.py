"""Parquet: the file's own types, its nulls, its damages."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from mainstem.connectors.parquet_files import ParquetFile
from mainstem.connectors.tables import Wanted
from mainstem.errors import InputError, SchemaError
from mainstem.schema.infer import schema_of


def test_rows_keep_their_types(tmp_path: Path) -> None:
    time = datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC)
    table = pa.table({"k": ["a", "b"], "n": pa.array([1, None], pa.int32()), "t": [time, None]})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    file = ParquetFile(tmp_path / "x.parquet")
    file.check(Wanted())
    (rows,) = file.encoded(("k",), {})
    assert file.columns == ("k", "n", "t")
    assert rows.keys.to_pylist() == ["a", "b"]
    assert rows.values.to_pylist() == ['{"k":"a","n":1,"t":"2013-01-01T10:00:00Z"}', '{"k":"b","n":null,"t":null}']
    assert rows.bytes_read == rows.bytes_total


def test_what_is_no_parquet_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match="is not a Parquet file"):
        ParquetFile(tmp_path / "x.parquet").check(Wanted())


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        ParquetFile(tmp_path / "x.parquet").check(Wanted())


@pytest.mark.parametrize(
    ("last", "wanted", "reason"),
    [
        ({"k": None}, Wanted(None, ("k",)), "x.parquet: row 40000: key column 'k' is null"),
        ({"k": None}, Wanted(None, (), {"id": "{k}"}), "row 40000: column 'k' is null; a derived column"),
        ({"f": float("inf")}, Wanted(), "x.parquet: row 40000: column 'f': .* inf is not a JSON number"),
        ({"f": float("nan")}, Wanted(), "x.parquet: row 40000: column 'f': .* nan is not a JSON number"),
        ({"took": datetime.timedelta(1)}, Wanted(), "x.parquet: row 40000: column 'took': .* has no JSON form"),
        ({"f": 1.5}, Wanted(schema_of("f INT")), "x.parquet: row 40000: column 'f': 1.5 is not INT"),
        ({"k": "soon"}, Wanted(schema_of("k TIMESTAMP")), "x.parquet: row 1: column 'k': \"a\" is not TIMESTAMP"),
    ],
    ids=["key", "derived", "infinity", "NaN", "duration", "type", "time"],
)
def test_a_row_that_does_not_fit_is_found_before_any_is_encoded(
    tmp_path: Path, last: dict[str, object], wanted: Wanted, reason: str
) -> None:
    row = {"k": "a", "f": 1.0, "took": None}
    table = pa.Table.from_pylist([row] * 39_999 + [{**row, **last}])
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match=reason):
        ParquetFile(tmp_path / "x.parquet").check(wanted)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_a_time_beyond_the_years_that_a_type_takes_is_refused(tmp_path: Path, kind: pa.DataType) -> None:
    name = {"date32[day]": "DATE", "timestamp[us]": "TIMESTAMP_NTZ"}.get(str(kind), "TIMESTAMP")
    last, size = (2_932_896, pa.int32()) if name == "DATE" else (253_402_300_799_999_999, pa.int64())
    for beyond in (last + 1, -last):
        table = pa.table({"t": pa.array([0, last, beyond], size).cast(kind)})
        pa.parquet.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(SchemaError, match=f"row 3: column 't': .* is not {name}"):
            ParquetFile(tmp_path / "x.parquet").check(Wanted(schema_of(f"t {name}")))


def test_damage_in_a_later_part_is_found_before_any_row_is_encoded(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"k": [str(number) for number in range(10_000)]})
    pa.parquet.write_table(table, path, row_group_size=5_000, use_dictionary=False, write_page_checksum=True)
    at = pa.parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset + 100
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 64)
    with pytest.raises(SchemaError, match="damaged after row"):
        ParquetFile(path).check(Wanted())
