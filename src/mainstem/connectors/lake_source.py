"""``load`` from a lake: its records into a topic as they were, with keys, values, headers, timestamps and order.

A topic with as many partitions as the lake's gets each record in its own; one with another number gets records by their
keys, as every writer sends them, and those without a key by their old partition. Offsets are new. The topic's time is
the record's own, unless the topic is set to the log's (``message.timestamp.type``).

**Exactly once**: each partition of the lake is a load of its own (`load_progress`), whose rows are its records in the
order of their offsets. That order does not change when the lake grows or its files are merged; so a load that was cut
short goes on, and one that is run again later appends what the lake has got since. One thread runs one load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.connectors.bulk import RecordFields
from mainstem.connectors.load_progress import ResumableLoad, load_name
from mainstem.connectors.loads import Loaded, LoadOptions, LoadProgress
from mainstem.errors import InputError
from mainstem.lake.columns import HEADERS, KEY, OFFSET, RECORD, TIMESTAMP, VALUE
from mainstem.lake.reading import LakeFiles, read_lake
from mainstem.model import Position
from mainstem.record.arrow_partition import partitions_for

if TYPE_CHECKING:
    from mainstem.client.log import Log, TopicInfo

_COLUMNS = (KEY, VALUE, HEADERS, TIMESTAMP)
_APPEND_ROWS = 8_192


def load_lake(
    log: Log, path: Path, topic: str, options: LoadOptions, on_progress: Callable[[LoadProgress], None] | None = None
) -> Loaded:
    """Append every record of the lake in ``path`` to ``topic``, each exactly once.

    Raises InputError for a directory that is not a lake, and for options that only files have; StorageError for a lake
    that cannot be read; ProducerFencedError when another run of the same load takes over.
    """
    if options.key or options.derived:
        raise InputError("a lake's records have their keys: leave out the key and derived columns")
    lake = read_lake(path)
    started_s = time.monotonic()
    # Old records keep their times, and a topic that keeps a week of them would lose what was just loaded.
    configs = {"cleanup.policy": "compact"} if options.compacted else {"retention.ms": "-1"}
    count = options.partitions or len(lake.partitions)
    info = log.create_topic(topic, partitions=count, configs=configs, exist_ok=True)
    done, before, position = 0, 0, Position()
    for partition in lake.partitions:
        with ResumableLoad(log, topic, _identity(lake, partition, info), again=options.again) as target:
            skipped = target.progress.rows
            before += skipped
            for rows in _rows_after(lake.records(partition, _COLUMNS), skipped):
                target.append(*_record_columns(rows, _targets(rows, partition, lake, info.partitions)))
                done += len(rows)
                if on_progress is not None:
                    on_progress(_progress(lake, before + done, done / max(time.monotonic() - started_s, 1e-6)))
            position |= target.finish().position
    return Loaded(topic, done, position, time.monotonic() - started_s, before)


def _identity(lake: LakeFiles, partition: int, target: TopicInfo) -> str:
    """The load of one partition: of both topics as they are now, from the first record that the lake has of it."""
    first = next(lake.records(partition, (OFFSET,)), None)
    offset = None if first is None else first.column(OFFSET)[0].as_py()
    return load_name(["lake", lake.topic, lake.topic_id, partition, offset, target.name, target.topic_id])


def _rows_after(parts: Iterator[pa.Table], skipped: int) -> Iterator[pa.Table]:
    """The rows after the first ``skipped``, a few thousand at a time."""
    for part in parts:
        for first in range(min(skipped, len(part)), len(part), _APPEND_ROWS):
            yield part.slice(first, _APPEND_ROWS)
        skipped = max(0, skipped - len(part))


def _record_columns(rows: pa.Table, targets: Any) -> tuple[pa.Array, pa.Array, RecordFields]:
    one = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    times_ms = pc.divide(one[TIMESTAMP].cast(pa.timestamp("us")).cast(pa.int64()), 1000)
    headers = one[HEADERS].cast(RECORD.field(HEADERS).type)
    return one[KEY].cast(pa.binary()), one[VALUE].cast(pa.binary()), RecordFields(times_ms, headers, targets)


def _targets(rows: pa.Table, partition: int, lake: LakeFiles, partitions: int) -> Any:
    """The partition of the topic for each row."""
    if partitions == len(lake.partitions):
        return np.full(len(rows), partition, np.int32)
    assigned = partitions_for(rows.column(KEY).combine_chunks().cast(pa.binary()), partitions)
    return np.where(assigned < 0, partition % partitions, assigned)


def _progress(lake: LakeFiles, rows: int, rate: float) -> LoadProgress:
    size = sum(file.size_bytes for file in lake.files)
    return LoadProgress(rows, size * rows // max(lake.rows, 1), size, rate)
