"""Parquet files as encoded rows, a few row groups' worth of memory at a time.

The file has its own types. Times become RFC 3339 in UTC, nested columns nested JSON. It is read twice: first every
value of it, to find what is damaged, null in a key or without a JSON form. One thread uses one reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet

from mainstem.connectors.schema_check import require_fit
from mainstem.connectors.tables import EncodedRows, Wanted, check_batch, encode_batch, with_derived
from mainstem.errors import InputError, SchemaError

_BATCH_ROWS = 32_768


class _RowsAsBytes(NamedTuple):
    """Progress of a file that is read by row groups: its size, in proportion to the rows read."""

    bytes_read: int
    total_bytes: int


@dataclass
class ParquetFile:
    """A Parquet file; ``columns`` are known after ``check``."""

    path: Path
    columns: tuple[str, ...] = ()

    def check(self, wanted: Wanted) -> None:
        """Read the file once. Raises SchemaError when it is no Parquet, damaged, or a row does not fit."""
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)
            wanted.check_names(self.path, self.columns)
            for rows, batch in self._batches(file):
                try:
                    check_batch(batch, wanted.key, wanted.derived, first_row=rows + 1)
                    complete = with_derived(batch, wanted.derived, rows + 1)
                except SchemaError as error:
                    raise SchemaError(f"{self.path}: {error}") from error
                first_row = rows + 1
                require_fit(wanted.schema, complete, lambda at, first=first_row: f"{self.path}: row {first + at}")  # type: ignore[misc]

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All rows in the file's order."""
        size = self.path.stat().st_size
        with self._open() as file:
            total_rows = max(file.metadata.num_rows, 1)
            for rows, batch in self._batches(file):
                done = _RowsAsBytes(size * (rows + batch.num_rows) // total_rows, size)
                yield encode_batch(batch, done, key, derived, first_row=rows + 1)

    def _batches(self, file: pa.parquet.ParquetFile) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each run of rows, with the number of those before it."""
        rows = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield rows, batch
                rows += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise SchemaError(f"{self.path}: damaged after row {rows}: {error}") from error

    def _open(self) -> pa.parquet.ParquetFile:
        try:
            return pa.parquet.ParquetFile(self.path)
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: no such file") from error
        except PermissionError as error:
            raise InputError(f"{self.path}: not readable by this user") from error
        except (pa.ArrowException, OSError) as error:
            raise SchemaError(f"{self.path} is not a Parquet file: {str(error).splitlines()[0]}") from error
