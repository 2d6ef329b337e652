"""Which small files of a lake become one, and their records in its order. Pure, but for reading the files.

Files are merged in tiers: eight neighbors of one tier or below become one file of the next. Files of 4 MB or more stay
as they are, because the applier waits for a merge: a merge rewrites little more than ``TARGET_BYTES``. So a record is
rewritten once or twice in each tier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem.lake.columns import PARTITION
from mainstem.lake.table import ROW_GROUP_BYTES, ROW_GROUP_ROWS, LakeFile

TARGET_BYTES: Final = 32 << 20
_TIERS: Final = (512 << 10, 4 << 20)
_FAN_IN: Final = 8
_FAN_IN_MAX: Final = 64


def choose(files: Sequence[LakeFile]) -> Sequence[LakeFile]:
    """Neighbors that shall become one file; none when there is nothing to do."""
    for limit in _TIERS:
        run: list[LakeFile] = []
        for file in (*files, None):
            fits = file is not None and file.size_bytes < limit and file.schema_id == files[0].schema_id
            if fits and len(run) < _FAN_IN_MAX and sum(each.size_bytes for each in run) < TARGET_BYTES:
                assert file is not None
                run.append(file)
            elif len(run) >= _FAN_IN:
                return run
            else:
                run = [file] if fits and file is not None else []
    return ()


def merged(files: Sequence[LakeFile]) -> Iterator[pa.Table]:
    """The records of neighbors in the order of partition and offset, a row group's worth at a time.

    Every file has its partitions one after the other, and its offsets follow on those of the file before it. In memory
    are a row group of a file and what is gathered for one of the new file, by its rows or its bytes.
    """
    waiting: list[pa.Table] = []
    for partition in sorted({number for file in files for number in _partitions(file.path)}):
        for file in files:
            for part in of_partition(file.path, partition):
                waiting.append(part)
                if _fill_a_group(waiting):
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _fill_a_group(parts: Sequence[pa.Table]) -> bool:
    return sum(map(len, parts)) >= ROW_GROUP_ROWS or sum(part.nbytes for part in parts) >= ROW_GROUP_BYTES


def of_partition(path: Path, partition: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The records of one partition in a file, a row group at a time. Raises what Arrow raises."""
    chosen = None if columns is None else [*dict.fromkeys([*columns, PARTITION])]
    with pq.ParquetFile(path) as file:
        for number in range(file.metadata.num_row_groups):
            bounds = _bounds(file, number)
            if bounds is None or not bounds.min <= partition <= bounds.max:
                continue
            group = file.read_row_group(number, columns=chosen)
            part = group.filter(pc.equal(group.column(PARTITION), partition))
            if len(part):
                yield part if columns is None else part.select(columns)


def _partitions(path: Path) -> set[int]:
    """The partitions in a file; few row groups have more than one or two."""
    found: set[int] = set()
    with pq.ParquetFile(path) as file:
        for number in range(file.metadata.num_row_groups):
            bounds = _bounds(file, number)
            if bounds is not None and bounds.min == bounds.max:
                found.add(int(bounds.min))
            elif bounds is not None:
                found |= set(pc.unique(file.read_row_group(number, columns=[PARTITION]).column(0)).to_pylist())
    return found


def _bounds(file: pq.ParquetFile, row_group: int) -> pq.Statistics | None:
    group = file.metadata.row_group(row_group)
    columns = (group.column(number) for number in range(group.num_columns))
    return next((column.statistics for column in columns if column.path_in_schema == PARTITION), None)
