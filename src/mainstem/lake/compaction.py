"""Which small files of a lake become one, and their records in its order. Pure, but for reading the files.

Files grow by tiers: eight neighbors of a tier or below make one of the next, until a file has ``TARGET_BYTES``. So a
record is rewritten once a tier, and a lake of n bytes has about n / ``TARGET_BYTES`` files and a few small ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem.lake.columns import PARTITION
from mainstem.lake.table import ROW_GROUP_ROWS, LakeFile

TARGET_BYTES: Final = 64 << 20
_TIERS: Final = (1 << 20, 8 << 20, TARGET_BYTES // 2)
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

    Every file has its partitions one after the other, and its offsets follow on those of the file before it.
    """
    opened = [pq.ParquetFile(file.path) for file in files]
    try:
        partitions = sorted({number for file in opened for number in _partitions(file)})
        waiting: list[pa.Table] = []
        for partition in partitions:
            for file in opened:
                for part in _of_partition(file, partition):
                    waiting.append(part)
                    if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                        yield pa.concat_tables(waiting)
                        waiting = []
        if waiting:
            yield pa.concat_tables(waiting)
    finally:
        for file in opened:
            file.close()


def _partitions(file: pq.ParquetFile) -> set[int]:
    return {int(n) for batch in file.iter_batches(columns=[PARTITION]) for n in pc.unique(batch.column(0)).to_pylist()}


def _of_partition(file: pq.ParquetFile, partition: int) -> Iterator[pa.Table]:
    column = file.schema_arrow.get_field_index(PARTITION)
    for number in range(file.metadata.num_row_groups):
        statistics = _column_statistics(file, number, column)
        if not statistics.min <= partition <= statistics.max:
            continue
        group = file.read_row_group(number)
        part = group.filter(pc.equal(group.column(PARTITION), partition))
        if len(part):
            yield part


def _column_statistics(file: pq.ParquetFile, row_group: int, column: int) -> pq.Statistics:
    group = file.metadata.row_group(row_group)
    path = file.schema_arrow.field(column).name
    return next(entry.statistics for n in range(group.num_columns) if (entry := group.column(n)).path_in_schema == path)
