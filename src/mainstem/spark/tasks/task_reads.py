"""The read of one input partition by a task: scan ranges or a table, raw or typed. Runs in Spark's workers.

Typed columns load their decoders with their first use: without a fork server each worker imports what it needs itself,
and the JSON kernels are most of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mainstem.spark.checkpoints import nulled_values
from mainstem.spark.checkpoints.checkpoint import current_batch_id, read_offsets
from mainstem.spark.clients import borrowed
from mainstem.spark.features import arrow_schema
from mainstem.spark.options.columns import decoded_name
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.tasks.local_segments import may_be_read
from mainstem.spark.tasks.ranges import OffsetRange, ScanPartition, TableRead
from mainstem.spark.tasks.scan import ScanOptions, read_range

if TYPE_CHECKING:
    from mainstem.spark.tasks.typed_scan import KeyTextReader, TypedOptions, ValueDecoder


def read_partition(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[Any]:
    """Arrow record batches of exactly ``schema``."""
    wanted = arrow_schema(schema)
    if isinstance(partition, TableRead):
        return _table(partition, options, wanted)
    assert isinstance(partition, ScanPartition)
    return _ranges(partition, options, wanted)


def _ranges(partition: ScanPartition, options: ReadOptions, wanted: pa.Schema) -> Iterator[Any]:
    with borrowed(options.log) as client:
        for part in partition.ranges:
            if options.value_schema is not None:
                from mainstem.spark.tasks.typed_scan import read_rows

                nulled = yield from read_rows(client, part, _typed(options, wanted, partition))
                if nulled and options.checkpoint is not None:
                    nulled_values.write(options.checkpoint, part.topic_partition, part.start, nulled)
                continue
            names = [decoded_name(name) for name in wanted.names]
            keys = _key_reader(options) if "key" in names else None
            read = frozenset(names) if keys is None else frozenset({*names, "headers"})
            for records in read_range(client, part, _scan(options, read, partition)):
                if keys is not None:
                    records = keys.with_texts(records)
                columns = [records.column(name).cast(field.type) for name, field in zip(names, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _table(partition: TableRead, options: ReadOptions, wanted: pa.Schema) -> Iterator[Any]:
    from mainstem.spark.tasks.typed_scan import read_table

    end = _table_end(partition, options) if partition.end is None else partition.end
    part = OffsetRange(partition.topic_partition, 0, end)
    with borrowed(options.log) as client:
        yield from read_table(client, partition.topic_id, part, _typed(options, wanted, partition))


def _table_end(partition: TableRead, options: ReadOptions) -> int:
    """The end that the stream chose for this micro-batch, so that running it again joins the same rows."""
    assert options.checkpoint is not None
    offsets = read_offsets(options.checkpoint, current_batch_id())
    return offsets.tables.get(partition.topic_partition, 0)


def _scan(options: ReadOptions, columns: frozenset[str], partition: InputPartition) -> ScanOptions:
    reads_files = options.reads_files and may_be_read(options.log.security)
    scan = ScanOptions(
        columns,
        options.fail_on_data_loss,
        options.isolation,
        reads_files,
        options.log,
        is_table=options.as_table,
        skips_damaged=options.skips_damaged,
    )
    if not isinstance(partition, ScanPartition):
        return scan
    return replace(scan, reader=partition.reader, topic_ids=partition.topic_ids)


def _typed(options: ReadOptions, wanted: pa.Schema, partition: InputPartition) -> TypedOptions:
    from mainstem.schema.json_rows import JsonDecoder
    from mainstem.spark.tasks.typed_scan import TypedOptions

    values = options.values
    mode = options.mode if values.dead_letter_topic is None else "DROPMALFORMED"
    decoder: ValueDecoder = JsonDecoder()
    if values.avro_schema is not None:
        from mainstem.schema.avro_decode import AvroDecoder  # compiles its kernel, which others need not wait for

        decoder = AvroDecoder(values.avro_schema, values.registry)
    elif values.encoding is not None:
        from mainstem.spark.tasks.encoded_decode import EncodedDecoder  # as above

        decoder = EncodedDecoder(options.log)
    scan = _scan(options, frozenset(), partition)
    keys = _key_reader(options)
    return TypedOptions(wanted, mode, scan, values.corrupt_column, values.dead_letter_topic, decoder, keys)


def _key_reader(options: ReadOptions) -> KeyTextReader | None:
    """The reader of encoded keys; None where keys are text."""
    if not options.values.has_encoded_keys:
        return None
    from mainstem.spark.tasks.encoded_decode import EncodedKeys  # as above

    return EncodedKeys(options.log)
