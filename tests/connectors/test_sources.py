"""Opening files: compression, progress, damage."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from mainstem.connectors.sources import inner_suffix, open_source
from mainstem.errors import InputError, SchemaError

DATA = b"line\n" * 1000


def zipped(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, DATA)
    return path


def content(path: Path) -> bytes:
    with open_source(path) as source:
        data: bytes = source.stream.read()
        assert source.bytes_read == source.total_bytes
        return data


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(DATA)
    assert content(tmp_path / "x.csv") == DATA


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(DATA))
    assert content(tmp_path / "x.csv.gz") == DATA


def test_zstandard_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x.csv.zst").write_bytes(pa.compress(DATA, "zstd", asbytes=True))
    assert content(tmp_path / "x.csv.zst") == DATA


def test_the_one_file_of_a_zip_is_unpacked(tmp_path: Path) -> None:
    assert content(zipped(tmp_path / "x.csv.zip", "x.csv")) == DATA


def test_a_zip_of_several_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="holds 2 files"):
        content(zipped(tmp_path / "x.zip", "a.csv", "b.csv"))


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zip", "x.csv.zst"])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, name: str) -> None:
    packed = {
        "gz": gzip.compress(DATA),
        "zip": zipped(tmp_path / "whole.zip", "x").read_bytes(),
        "zst": pa.compress(DATA, "zstd", asbytes=True),
    }
    whole = packed[name.rpartition(".")[2]]
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SchemaError, match="damaged, cut short"):
        content(tmp_path / name)


def test_a_directory_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        content(tmp_path)


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.csv", ".csv"), ("a.CSV.zip", ".csv"), ("a.b.jsonl.gz", ".jsonl"), ("a", "")]
)
def test_the_suffix_inside_tells_the_format(name: str, suffix: str) -> None:
    assert inner_suffix(Path(name)) == suffix
