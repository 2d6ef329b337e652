"""A Spark data source that decodes nothing: the same Arrow batches again and again. No Python source can be faster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.record.arrow_decode import decode
from mainstem.record.writer import NewRecord, build_batch
from mainstem.spark.columns import record_ddl

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")


class CeilingSource(DataSource):
    """Options: ``records`` of ``recordBytes`` in ``partitions``, ``batchBytes`` of values in each Arrow batch."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return record_ddl(COLUMNS)

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


def _batch(schema: StructType, records: int, record_bytes: int) -> pa.RecordBatch:
    now_ms = time.time_ns() // 1_000_000
    made = [NewRecord(b"key-%04d" % (n % 10_000), os.urandom(record_bytes), (), now_ms) for n in range(records)]
    decoded = decode(build_batch(made), topic="ceiling", partition=0, start_offset=0, columns=frozenset(COLUMNS))
    columns = [decoded.arrow_batch.column(field.name) for field in schema.fields]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema, timezone="UTC"))
