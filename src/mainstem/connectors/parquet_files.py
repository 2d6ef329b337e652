"""Parquet files as encoded rows, a few row groups' worth of memory at a time.

The file brings its own types. Times become RFC 3339 in UTC, nested columns nested JSON. One thread uses one reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet

from mainstem.connectors.tables import EncodedRows, encode_batch
from mainstem.errors import InputError, SchemaError
from mainstem.schema.types import TopicSchema

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

    def check(self, schema: TopicSchema | None) -> None:
        """Read the footer. Raises SchemaError when the file is no Parquet."""
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All rows in the file's order."""
        size = self.path.stat().st_size
        rows = 0
        with self._open() as file:
            total_rows = max(file.metadata.num_rows, 1)
            try:
                for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                    done = _RowsAsBytes(size * (rows + batch.num_rows) // total_rows, size)
                    yield encode_batch(batch, done, key, derived, first_row=rows + 1)
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
