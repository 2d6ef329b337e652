"""Writes what a capture takes in into the log: in transactions, each with the capture's progress.

A transaction of the log holds one or more whole transactions of the database. Its transactional id is the capture's: a
process that takes over ends what an older one left open, and fences it. Rows are encoded as they come, a batch for each
partition, in plain Python: a row at a time that is as fast as natively, and numba and Arrow would take 130 MB. A batch
is on its way to the log while the next rows are encoded. Used by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.produce_window import ProduceWindow
from mainstem.client.wire.produce.producers import BatchStamps
from mainstem.client.wire.produce.transactions import TransactionalProducer
from mainstem.errors import MainstemError, RecordTooLargeError
from mainstem.model import Position, TopicPartition
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.postgres.captured_state import CapturedState, read_state
from mainstem.record.constants import Compression
from mainstem.record.header import read_header
from mainstem.record.partitioner import partition_for
from mainstem.record.writer import RECORD_OVERHEAD_MAX, BatchBuilder, encoded_headers

if TYPE_CHECKING:
    from mainstem.client.log import Log

_SEND_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 900_000
_TRANSACTION_S: Final = 600.0
_NO_HEADERS: Final = encoded_headers(())
_PROGRESS: Final = TopicPartition(PROGRESS_TOPIC, 0)


class _Target(NamedTuple):
    """A topic, as rows are written to it. ``limit_bytes``: of one batch; ``batch_bytes``: a batch with more is sent."""

    partitions: list[TopicPartition]
    limit_bytes: int
    batch_bytes: int


class TransactionWriter:
    """Appends rows, and commits them with the state. A context manager: an error aborts what is open."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._client = WireClient(
            log.bootstrap, client_id="mainstem-postgres", timeout_s=log.timeout_s, security=log.security
        )
        self._producer = TransactionalProducer(self._client, f"mainstem-postgres-{name}", timeout_s=_TRANSACTION_S)
        self._window = ProduceWindow(self._client, self._acknowledged, transactional_id=self._producer.transactional_id)
        self._added: set[TopicPartition] = set()
        """The partitions of the open transaction."""
        self._stamps: BatchStamps | None = None
        self._batches: dict[TopicPartition, BatchBuilder] = {}
        self._targets: dict[str, _Target] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._limits: dict[str, int] = {}
        self.state = CapturedState(name)
        self._written = self.state
        self.size_bytes = 0
        """About how much the open transaction holds."""

    def open(self) -> CapturedState:
        """Take over from an older process; how far the capture is.

        Raises ConfigError, SchemaError, LogUnavailableError, RemoteError.
        """
        self._producer.init()
        self._stamps = BatchStamps(self._producer.identity, is_transactional=True)
        self.state = self._written = read_state(self._log, self.state.name)
        self._ends = dict(self.state.sink.items())
        return self.state

    def append(self, topic: str, key: bytes, value: bytes | None, headers: bytes, time_ms: int) -> None:
        """Append one record. ``headers`` are those of ``encoded_headers``.

        Raises RecordTooLargeError, and what a transaction of the log raises.
        """
        target = self._targets.get(topic) or self._target_of(topic)
        partitions = target.partitions
        tp = partitions[0] if len(partitions) == 1 else partitions[partition_for(key, len(partitions))]
        size = len(key) + (0 if value is None else len(value)) + len(headers) + RECORD_OVERHEAD_MAX
        batch = self._batches.get(tp)
        if batch is not None and batch.size_bytes + size > target.batch_bytes:
            self._send([tp])
            batch = None
        if batch is None:
            batch = self._batches[tp] = BatchBuilder()
        batch.add(key, value, headers, time_ms)
        if batch.size_bytes > target.limit_bytes:
            raise RecordTooLargeError(
                f"the row with key {key[:80].decode(errors='replace')} has {len(value or b''):,} bytes, too many for "
                f"topic {topic}: raise the topic's max.message.bytes, or leave the table out"
            )
        self.size_bytes += size

    def commit(self, lsn: int) -> None:
        """Commit what was appended, and the state at ``lsn``. When it returns, all of it is durable."""
        self._add({*self._batches, _PROGRESS})
        self._send(list(self._batches))
        self._drain()
        self._targets.clear()  # a topic may get partitions
        self.state = replace(self.state, lsn=lsn, sink=Position(self._ends))
        records = [self.state.progress_record()]
        if (self.state.tables, self.state.system_id) != (self._written.tables, self._written.system_id):
            records.append(self.state.capture_record())
        progress = self._batches[_PROGRESS] = BatchBuilder()
        for key, value in records:
            progress.add(key, value, _NO_HEADERS, time.time_ns() // 1_000_000)
        self._send([_PROGRESS])
        self._drain()
        self._producer.end(commit=True)
        self._added.clear()
        self._written = self.state
        self.size_bytes = 0

    def _send(self, partitions: list[TopicPartition]) -> None:
        """Send what is gathered for these partitions, without waiting for the log."""
        self._add(partitions)
        assert self._stamps is not None
        self._stamps.adopt(self._producer.identity)
        built = {}
        for tp in partitions:
            batch = self._batches.pop(tp)
            built[tp] = batch.build(compression=Compression.LZ4, producer=self._stamps.next_stamp(tp))
            self._stamps.advance(tp, batch.count)
        with self._explaining():
            self._window.send(built)

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        """Make them part of the transaction. The log is asked once for each."""
        if new := set(partitions) - self._added:
            self._drain()
            self._producer.add(new)
            self._added |= new

    def _drain(self) -> None:
        """Wait until the log has all that was sent."""
        with self._explaining():
            self._window.drain()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except MainstemError as error:
            raise self._producer.explained(error) from error

    def _acknowledged(self, tp: TopicPartition, batch: bytes, base_offset: int) -> None:
        if tp != _PROGRESS:
            self._ends[tp] = base_offset + read_header(batch).record_count

    def _target_of(self, topic: str) -> _Target:
        limit = self._limits.get(topic)
        if limit is None:
            configured = self._log.describe_topic(topic).configs.get("max.message.bytes")
            limit = self._limits[topic] = int(configured) if configured else _BATCH_BYTES
        self._drain()
        partitions = [TopicPartition(topic, number) for number in range(self._client.partition_count(topic))]
        target = self._targets[topic] = _Target(partitions, limit, min(limit, _SEND_BYTES))
        return target

    def __enter__(self) -> TransactionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._window.abandon()
        try:
            self._producer.end(commit=False)  # else readers of committed records wait for the time-out
        except MainstemError as failed:  # the log is away, or another process has taken over: both end it
            if error is not None:
                error.add_note(f"the open transaction could not be aborted: {failed}")
        finally:
            self._client.close()
