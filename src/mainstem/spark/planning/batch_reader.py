"""A batch read's planning: where it starts and ends, what filters leave of that, and how it is cut into tasks.

Its range is fixed when Spark plans it, except for a pipeline's table: that ends where the checkpoint of the current
micro-batch says. Made in a short-lived planner process, sent to the tasks pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, WireClient
from mainstem.model import Position
from mainstem.spark.checkpoints.offsets import require_within, resolve
from mainstem.spark.clients import borrowed
from mainstem.spark.features import HAS_FILTERS
from mainstem.spark.options.columns import PLACE_COLUMNS, RECORD_COLUMNS
from mainstem.spark.options.read_options import At, ByOffset, ReadOptions
from mainstem.spark.planning.filters import Narrowing, narrowed, narrowing
from mainstem.spark.planning.splits import split
from mainstem.spark.planning.subscription import Subscribed, subscribed
from mainstem.spark.tasks import losses
from mainstem.spark.tasks.ranges import ScanPartition, TableRead

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_ADVICE = (
    "Start at earliest, or set failOnDataLoss=false: then this is noted in the progress topic, and the read goes on"
)


class LogReader(DataSourceReader):
    """A batch scan of topics."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        options.require_batch()
        self._options = options
        self._schema = schema
        self._narrowing = Narrowing()
        if HAS_FILTERS and not options.as_table:  # of a table's key, the latest record counts, whatever the filter
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def narrow(self, filters: Iterable[Filter]) -> None:
        """Narrow the read by these filters."""
        is_typed = self._options.value_schema is not None
        columns = PLACE_COLUMNS if is_typed else {name: name for name in RECORD_COLUMNS}
        self._narrowing = narrowing(filters, columns)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with borrowed(options.log) as client:
            found = subscribed(client, options)
            if options.as_table:
                return _table_partitions(client, options, found)
            start, end = _bounds(client, options, found)
            start, end = narrowed(client, start, end, self._narrowing, options.isolation)
            tasks = split(client, start, end, options) or [ScanPartition(())]
        return [ScanPartition(task.ranges, _reader(options), found.topic_ids) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from mainstem.spark.tasks.task_reads import (
            read_partition,
        )  # its decoders are for tasks: planners are short-lived

        return read_partition(partition, self._options, self._schema)


class _PushFilters:
    """``pushFilters`` of a reader, as an attribute. While pushdown is switched off, Spark refuses a reader whose class
    defines that method. Spark recognizes it by ``__func__``, which is the base class's method here.
    """

    def __init__(self, reader: LogReader) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrows the read, and leaves all of them to Spark as well."""
        self._reader.narrow(filters)
        return filters


def _bounds(client: WireClient, options: ReadOptions, found: Subscribed) -> tuple[Position, Position]:
    """Raises ConfigError for an offset after the end, OffsetOutOfRangeError for one before the log start."""
    partitions = found.partitions
    ends, end = _ends(client, options, found)
    bound = options.starting or At("startingOffsets", EARLIEST)
    start = resolve(
        client,
        partitions,
        bound,
        options.isolation,
        fails_without_match=options.fails_without_match,
        on_damaged=options.on_damaged,
    )
    if isinstance(bound, ByOffset):
        require_within(start, ends, bound.option)
        start = _after_losses(client, options, found, start)
    return start, end


def _ends(client: WireClient, options: ReadOptions, found: Subscribed) -> tuple[Position, Position]:
    """The ends of the partitions, and of the read. Raises ConfigError when the read would end after a partition."""
    ends = Position(client.list_offsets(found.partitions, LATEST, options.isolation))
    if options.ending is None or (isinstance(options.ending, At) and options.ending.symbol == LATEST):
        return ends, ends
    end = resolve(client, found.partitions, options.ending, options.isolation, on_damaged=options.on_damaged)
    require_within(end, ends, options.ending.option)
    return ends, end


def _after_losses(client: WireClient, options: ReadOptions, found: Subscribed, start: Position) -> Position:
    log_starts = client.list_offsets(found.partitions, EARLIEST)
    gone = {tp: offset for tp, offset in start.items() if offset < log_starts[tp]}
    if not gone:
        return start
    moved = losses.resume(client, _reader(options), found.topic_ids, gone, options.isolation)
    if options.fail_on_data_loss:
        raise losses.lost_error([each.loss for each in moved], _ADVICE)
    losses.note(options.log, [each.loss for each in moved])
    return Position({**start, **{each.loss.topic_partition: each.start for each in moved}})


def _reader(options: ReadOptions) -> str:
    """The reader's name in the records of a batch read's losses."""
    return options.group.name or options.group.prefix


def _table_partitions(client: WireClient, options: ReadOptions, found: Subscribed) -> list[InputPartition]:
    """One input partition for each of the table's partitions: a key lies in one of them."""
    end = Position() if options.checkpoint else _ends(client, options, found)[1]
    return [
        TableRead(tp, found.topic_ids[tp.topic], None if options.checkpoint else end[tp]) for tp in found.partitions
    ]
