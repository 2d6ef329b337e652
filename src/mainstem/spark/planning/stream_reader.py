"""A stream's planning: which offsets each micro-batch reads. Lives in one driver-side process as long as its query.

Spark asks ``latestOffset`` before each micro-batch, so all of it is latency. It answers, step by step:
1. The offsets of ``start`` are processed: they are committed to the consumer group, in a thread of its own
   (``consumer_group_offsets``).
2. The subscribed partitions, as of a few seconds ago (``subscription``). New partitions begin at their log start.
3. One Fetch for each broker gives their ends, and waits for records if there are none (``micro_batch_offsets``,
   ``latest_offsets``).
4. Offsets that the log has removed are lost (``losses``): that is an error, or it is noted and the partition goes on
   after them.
5. With AvailableNow the ends are those at the query's start. The limits cut the range (``limits``).
6. The ends of the tables that the query joins are added. All of this is the micro-batch's end, which Spark writes to
   its checkpoint.

Invariants: the end offsets (with ``StreamOffsets.starts``) alone decide which records the micro-batch reads, so a
repeated one reads the same; ends are last stable offsets; ``start`` itself comes back when there is nothing to do.
Owned by Spark's one thread there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mainstem.client.wire.cluster.cluster import LATEST, WireClient
from mainstem.model import Position, TopicPartition
from mainstem.spark.checkpoints.offsets import StreamOffsets, initial_position, require_subscribed
from mainstem.spark.clients import borrowed
from mainstem.spark.features import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning.consumer_group_offsets import ConsumerGroupOffsets
from mainstem.spark.planning.latest_offsets import look
from mainstem.spark.planning.limits import backlog, limited, limited_by_bytes
from mainstem.spark.planning.micro_batch_offsets import MicroBatchOffsets, OffsetRangePlanner
from mainstem.spark.planning.sizes import bytes_per_offset
from mainstem.spark.planning.splits import split_by
from mainstem.spark.planning.subscription import METADATA_AGE_S_MAX, subscribed
from mainstem.spark.tasks import losses
from mainstem.spark.tasks.ranges import ScanPartition, plan

# How long a stream waits for news before it tells Spark that there is none: the idle query's only work.
_NEWS_WAIT_MS = 250
_FLUSH_S = 2.0
_ADVICE = (
    "Start the query with a new checkpoint, or set failOnDataLoss=false: then this is noted in the progress topic, and "
    "the query goes on after it"
)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one stream."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        options.require_stream()
        self._options = options
        self._schema = schema
        self._planner = OffsetRangePlanner(options)
        self._target: StreamOffsets | None = None
        self._commits: ConsumerGroupOffsets | None = None
        self._reported: dict[str, Any] | None = None
        self._read_at_s: float | None = None
        self._tables: tuple[list[TopicPartition], float] = ([], 0.0)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with borrowed(self._options.log) as client:
            found = subscribed(client, self._options)
            start = initial_position(client, found.partitions, self._options)
        stream = uuid.uuid4().hex[:12]
        return StreamOffsets(start, found.topic_ids, Position(), stream=stream, is_initial=True).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark hands it back to ``latestOffset``, or ReadAllAvailable for a trigger that takes all at once."""
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The steps are the module's."""
        since = StreamOffsets.from_checkpoint(start)
        require_subscribed(since, self._options)
        group = self._group(since)
        self._reached(group, since.position)  # 1
        with borrowed(self._options.log) as client:
            wait_ms = _NEWS_WAIT_MS if self._target is None else 0
            planned = self._planner.find(client, since, group, wait_ms)  # 2, 3
            self._check_losses(planned)  # 4
            ends = self._within_target(planned, since)  # 5
            end = self._limited(client, planned, ends, limit)
            self._report(planned, end)
            if end == since.position and not planned.losses:
                self._finish()
                return start
            if self._is_too_few(planned, ends, limit):
                look(client, planned.ends, self._options.isolation, _NEWS_WAIT_MS)
                return start
            self._read_at_s = time.monotonic()
            starts = {
                tp: planned.begins[tp] for tp in end if since.is_initial or planned.begins[tp] != since.position.get(tp)
            }
            tables = self._table_ends(client)  # 6
        return StreamOffsets(end, planned.topic_ids, tables, Position(starts), since.stream).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with borrowed(self._options.log) as client:
            found = subscribed(client, self._options)
            ends = Position(client.list_offsets(found.partitions, LATEST, self._options.isolation))
        self._target = StreamOffsets(ends, found.topic_ids, Position())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """As last seen: Spark asks right after ``latestOffset``, so that asking the log again would only cost time."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = StreamOffsets.from_checkpoint(start), StreamOffsets.from_checkpoint(end)
        splits = self._options.splits
        if splits.partitions_min is None and splits.bytes_max is None:
            tasks = plan(last.begin(first), last.position, splits)
        else:
            with borrowed(self._options.log) as client:
                tasks = split_by(client, last.begin(first), last.position, self._options, splits)
        return [ScanPartition(task.ranges, self._group(last), last.topic_ids) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from mainstem.spark.tasks.task_reads import (
            read_partition,
        )  # its decoders are for tasks: planners are short-lived

        return read_partition(partition, self._options, self._schema)

    def stop(self) -> None:
        if self._commits is not None:
            self._commits.stop()

    # ---- the steps

    def _group(self, since: StreamOffsets) -> str:
        """The consumer group, which is also the reader's name in records of losses."""
        named = self._options.group
        if named.name is not None:
            return named.name
        return f"{named.prefix}-{since.stream}" if since.stream else named.prefix

    def _reached(self, group: str, position: Position) -> None:
        if not self._options.group.commits:
            return
        if self._commits is None:
            self._commits = ConsumerGroupOffsets(self._options.log, group)
        self._commits.reached(position)

    def _check_losses(self, planned: MicroBatchOffsets) -> None:
        if not planned.losses:
            return
        if self._options.fail_on_data_loss:
            raise losses.lost_error(planned.losses, _ADVICE)
        losses.note(self._options.log, planned.losses)

    def _within_target(self, planned: MicroBatchOffsets, since: StreamOffsets) -> Position:
        """The ends; with AvailableNow, of those partitions that were there at the query's start, as they were then."""
        target = self._target
        if target is None:
            return planned.ends
        ends: dict[TopicPartition, int] = {}
        for tp, end in planned.ends.items():
            begin = planned.begins[tp]
            if tp in target.position and target.topic_ids[tp.topic] == planned.topic_ids[tp.topic]:
                ends[tp] = max(begin, min(end, target.position[tp]))
            elif tp in since.position:
                ends[tp] = begin
        return Position(ends)

    def _limited(self, client: WireClient, planned: MicroBatchOffsets, ends: Position, limit: ReadLimit) -> Position:
        limits, begins = self._options.limits, planned.begins
        if isinstance(limit, ReadAllAvailable):
            return ends
        asked = [limit.max_rows] if isinstance(limit, ReadMaxRows) else []
        offsets_max = min([*asked, *([limits.offsets_max] if limits.offsets_max is not None else [])], default=None)
        if offsets_max is not None:
            ends = limited(begins, ends, offsets_max)
        if limits.bytes_max is not None:
            behind = {tp: begins[tp] for tp, count in backlog(begins, ends).items() if count}
            sizes = bytes_per_offset(client, behind, self._options.isolation) if behind else {}
            ends = limited_by_bytes(begins, ends, limits.bytes_max, sizes)
        return ends

    def _is_too_few(self, planned: MicroBatchOffsets, ends: Position, limit: ReadLimit) -> bool:
        """Whether to wait until there is more, as ``minOffsetsPerTrigger`` asks; never with AvailableNow."""
        limits = self._options.limits
        if limits.offsets_min is None or isinstance(limit, ReadAllAvailable) or self._target is not None:
            return False
        if self._read_at_s is None or planned.losses:
            return False
        is_due = time.monotonic() - self._read_at_s >= limits.delay_s_max
        return not is_due and sum(backlog(planned.begins, ends).values()) < limits.offsets_min

    def _table_ends(self, client: WireClient) -> Position:
        """Where the tables end that the query joins: decided here, once for each micro-batch, and checkpointed."""
        if not self._options.tables:
            return Position()
        partitions, until_s = self._tables
        if time.monotonic() >= until_s:
            found = client.metadata(self._options.tables, wait=True)
            partitions = [TopicPartition(name, number) for name in found for number in found[name].partitions]
            self._tables = partitions, time.monotonic() + METADATA_AGE_S_MAX
        return Position(client.list_offsets(partitions, LATEST, self._options.isolation))

    def _report(self, planned: MicroBatchOffsets, end: Position) -> None:
        """Set ``latestOffset`` of the query's progress in Spark: the ends, and the backlog after ``end``."""
        behind = {tp: count for tp, count in backlog(end, planned.ends).items() if count}
        self._reported = {
            "position": planned.ends.to_json(),
            "backlog": sum(behind.values()),
            "backlogs": {str(tp): count for tp, count in behind.items()},
        }

    def _finish(self) -> None:
        """Commit to the group before Spark ends the query and this process: with AvailableNow, at the last record."""
        if self._target is not None and self._commits is not None:
            self._commits.flush(_FLUSH_S)
