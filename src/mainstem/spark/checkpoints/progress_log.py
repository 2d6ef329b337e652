"""One pipeline's progress records in the log: reads the last one, and appends the next.

Invariant: a record is complete (every partition that was ever read or written stays in it), and its positions never go
back, except when a query starts without its checkpoint. That its topics were rebuilt stays in it even then. Where the
newest record may be among those that cannot be read, ``sink`` goes on from the end of the outputs: it covers all that
was written. Owned by one thread.

``advance`` also appends the finished micro-batch (``journey.finished_batches``), in a thread beside the progress
record: it adds no wait of its own. Without that record only the journey of a record is less exact, so an error is a
line in the log.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

from mainstem.errors import MainstemError, UnknownTopicError
from mainstem.model import Position
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch, create_batches_topic
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.schema.topic_schemas import SYSTEM_TOPIC_CONFIGS
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.clients import opened
from mainstem.spark.options.options import LogOptions

NOT_STARTED = -1
_LOG = logging.getLogger("mainstem.spark")


class ProgressLog:
    """Reads the last progress record when it is made; a context manager that closes its connection."""

    def __init__(self, log: LogOptions, pipeline: str, outputs: tuple[str, ...], inputs: tuple[str, ...] = ()) -> None:
        """``inputs`` are the topics that are streamed; default: those that the offsets name."""
        self._pipeline = pipeline
        self._outputs = outputs
        self._inputs = inputs
        self._log = opened(log)
        self._last: Progress | None = None
        self._is_read = False
        self._is_uncertain = False
        self._beside = ThreadPoolExecutor(1, thread_name_prefix=f"batches-of-{pipeline}")

    def last(self) -> Progress | None:
        """The pipeline's last progress; None when it has never run."""
        if not self._is_read:
            entries = EntryReader(self._log, PROGRESS_TOPIC, Progress.from_record, key=self._pipeline)
            for _, self._last in entries:
                pass
            self._is_read, self._is_uncertain = True, entries.is_uncertain
        return self._last

    def start(self, source: Position) -> None:
        """Say where a query starts that has finished no micro-batch yet; at the inputs' start."""
        self._write(
            Progress(
                pipeline=self._pipeline,
                batch_id=NOT_STARTED,
                source=source,
                sink=self._end(),
                tables=Position(),
                inputs=self._inputs,
                outputs=self._outputs,
                rebuilt=self._was_rebuilt(),
            )
        )

    def advance(self, batch_id: int, offsets: StreamOffsets, written: Position, begin: Position | None = None) -> None:
        """Say that a micro-batch is done. ``written`` is where its own records end.

        ``begin`` is where they begin. It counts for the first micro-batch of a query that had no ``start``: the outputs
        end after these records by now.
        """
        last = self._last_or_created()
        before = last.sink if last is not None and not self._is_uncertain else self._end()
        progress = Progress(
            pipeline=self._pipeline,
            batch_id=batch_id,
            source=offsets.position,
            sink=before | written,
            tables=offsets.tables,
            inputs=self._inputs or tuple(sorted(offsets.position.topics)),
            outputs=self._outputs,
            rebuilt=self._was_rebuilt(),
        )
        sink_from = Position({**before, **begin}) if last is None and begin is not None else before
        finished = self._append_finished(progress, Position() if last is None else last.source, sink_from)
        try:
            self._write(progress)
        finally:
            finished.result()

    def _append_finished(self, progress: Progress, source_from: Position, sink_from: Position) -> Future[None]:
        """Begin to append the finished micro-batch."""
        finished = FinishedBatch(
            pipeline=self._pipeline,
            batch_id=progress.batch_id,
            source_from=source_from,
            source_to=progress.source,
            sink_from=sink_from,
            sink_to=progress.sink,
            inputs=progress.inputs,
            outputs=progress.outputs,
        )
        return self._beside.submit(self._append_beside, finished)

    def _append_beside(self, finished: FinishedBatch) -> None:
        key, value = finished.to_record()
        try:
            try:
                self._log.append(BATCHES_TOPIC, value, key=key)
            except UnknownTopicError:  # an older version has made this log ready
                create_batches_topic(self._log)
                self._log.append(BATCHES_TOPIC, value, key=key)
        except MainstemError as error:
            _LOG.warning("micro-batch %d of pipeline %s is not recorded: %s", finished.batch_id, self._pipeline, error)

    def _last_or_created(self) -> Progress | None:
        """The same as ``last``; creates the topic where it is missing: a stream's sink may be the first to need it."""
        try:
            return self.last()
        except UnknownTopicError:
            self._log.create_topic(PROGRESS_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
            return self.last()

    def _was_rebuilt(self) -> bool:
        last = self.last()
        return last is not None and last.rebuilt

    def _end(self) -> Position:
        return self._log.end(*self._outputs) if self._outputs else Position()

    def close(self) -> None:
        self._beside.shutdown()
        self._log.close()

    def __enter__(self) -> ProgressLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, progress: Progress) -> None:
        key, value = progress.to_record()
        self._log.append(PROGRESS_TOPIC, value, key=key)
        self._last, self._is_read, self._is_uncertain = progress, True, False
