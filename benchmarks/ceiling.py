"""A Spark data source and sink that do nothing of their own: no Python source or sink can be faster.

A scan gives the same Arrow batches again and again. A stream has a record in each partition for each micro-batch, and
its writer throws the rows away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.spark.options.columns import record_ddl

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")


class CeilingSource(DataSource):
    """Options: ``records`` of ``recordBytes`` in ``partitions``, ``batchBytes`` of values in each Arrow batch."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return record_ddl(COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _StreamReader(schema, int(self.options["partitions"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return _StreamWriter()

    def reader(self, schema: StructType) -> DataSourceReader:
        wanted = ("records", "recordBytes", "partitions", "batchBytes")
        return _Reader(schema, *(int(self.options[name]) for name in wanted))


class _Part(InputPartition):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Reader(DataSourceReader):
    def __init__(self, schema: StructType, records: int, record_bytes: int, partitions: int, batch_bytes: int) -> None:
        self._schema = schema
        self._records = records // partitions
        self._record_bytes = record_bytes
        self._partitions = partitions
        self._batch_records = batch_bytes // record_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Part)
        batch = _batch(self._schema, min(self._batch_records, self._records), self._record_bytes)
        left = self._records
        while left:
            count = min(left, batch.num_rows)
            yield batch.slice(0, count)
            left -= count


class _StreamReader(DataSourceStreamReader):
    def __init__(self, schema: StructType, partitions: int) -> None:
        self._schema = schema
        self._partitions = partitions
        self._next = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"record": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        self._next += 1
        return {"record": self._next}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Part(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield _batch(self._schema, 1, 100)


class _StreamWriter(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def _batch(schema: StructType, count: int, record_bytes: int) -> pa.RecordBatch:
    """Made of whole buffers: what it takes must not count."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = {
        "key": _repeated(pa.binary(), b"key-0000" * count, 8, count),
        "value": _repeated(pa.binary(), os.urandom(count * record_bytes), record_bytes, count),
        "topic": _repeated(pa.string(), b"ceiling" * count, 7, count),
        "partition": pa.array(np.zeros(count, np.int32)),
        "offset": pa.array(np.arange(count, dtype=np.int64)),
        "timestamp": pa.array(np.full(count, time.time_ns() // 1000, np.int64)).view(wanted.field("timestamp").type),
        "timestamp_type": pa.array(np.zeros(count, np.int32)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in wanted.names], schema=wanted)


def _repeated(arrow_type: pa.DataType, data: bytes, size: int, count: int) -> pa.Array:
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(arrow_type, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
