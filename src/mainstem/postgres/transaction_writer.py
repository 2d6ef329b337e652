"""Writes what a capture takes in into the log: in transactions, each with the capture's progress.

A transaction of the log holds one or more whole transactions of the database. Its transactional id is the capture's: a
process that takes over ends what an older one left open, and fences it. Rows are encoded as they come, a batch for each
partition, by machine code (``native``) or here. A batch is on its way to the log while the next rows are encoded. Used
by one thread.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final

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
from mainstem.record.writer import RECORD_OVERHEAD_MAX, BatchBuilder, BatchField, ProducerStamp, encoded_headers

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.postgres.encoded_values import TopicEncoding

_SEND_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 900_000
_TRANSACTION_S: Final = 600.0
_NO_HEADERS: Final = encoded_headers(())
_PROGRESS: Final = TopicPartition(PROGRESS_TOPIC, 0)
_IDLE_BYTES_MAX: Final = 16 << 20
"""More room than this in empty batches is given back."""
_FIRST_ROOM: Final = 1 << 16
_FIELDS: Final = ctypes.c_int64 * len(BatchField)
_FIELDS_BYTES: Final = ctypes.sizeof(_FIELDS)


class Target:
    """A topic, as rows are written to it: a batch for each partition. ``fields`` are theirs, one after the other.

    ``limit_bytes``: of one batch; ``batch_bytes``: a batch with more is sent.
    """

    def __init__(self, topic: str, partitions: int, limit_bytes: int) -> None:
        self.partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self.limit_bytes = limit_bytes
        self.batch_bytes = min(limit_bytes, _SEND_BYTES)
        self.fields = (ctypes.c_int64 * (partitions * len(BatchField)))()
        self.batches = [BatchBuilder(_FIELDS.from_buffer(self.fields, n * _FIELDS_BYTES)) for n in range(partitions)]


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
        self._targets: dict[str, Target] = {}
        self._by_address: dict[int, tuple[Target, int]] = {}
        self._values: dict[str, TopicEncoding] = {}
        self._generation = 0
        self._is_stale = False
        """Whether a topic may have got partitions since they were counted."""
        self._sent_bytes = 0
        self._ends: dict[TopicPartition, int] = {}
        self.state = CapturedState(name)
        self._written = self.state

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
        target = self.target(topic)
        number = 0 if len(target.batches) == 1 else partition_for(key, len(target.batches))
        batch = target.batches[number]
        size = len(key) + (0 if value is None else len(value)) + len(headers) + RECORD_OVERHEAD_MAX
        if batch.count and batch.size_bytes + size > target.batch_bytes:
            self._send({target.partitions[number]: batch})
        batch.add(key, value, headers, time_ms)
        if batch.size_bytes > target.limit_bytes:
            raise RecordTooLargeError(
                f"the row with key {key[:80].decode(errors='replace')} has {len(value or b''):,} bytes, too many for "
                f"topic {topic}: raise the topic's max.message.bytes, or leave the table out"
            )

    @property
    def size_bytes(self) -> int:
        """About how much the open transaction holds."""
        return self._sent_bytes + sum(batch.size_bytes for batch in self._filled().values())

    @property
    def generation(self) -> int:
        """Counts the changes of targets. Between transactions of the log, topics may get partitions."""
        if self._is_stale:
            self._is_stale = False
            for known in [*self._targets.values()]:
                topic = known.partitions[0].topic
                if self._client.partition_count(topic) != len(known.partitions):
                    self._generation += 1
                    for batch in self._targets.pop(topic).batches:
                        del self._by_address[ctypes.addressof(batch.fields)]
        return self._generation

    def target(self, topic: str) -> Target:
        """The batches of a topic, as of this ``generation``."""
        if self._is_stale:
            _ = self.generation
        return self._targets.get(topic) or self._new_target(topic)

    def encode_values(self, topic: str, values: TopicEncoding) -> None:
        """Encode the values of the topic's records from now on. Until they are sent they are JSON."""
        self._send({tp: batch for tp, batch in self._filled().items() if tp.topic == topic})
        self._values[topic] = values

    def make_room(self, address: int) -> bool:
        """Make room in the batch whose fields lie there; False for one that is empty and as large as it may get."""
        target, number = self._by_address[address]
        batch = target.batches[number]
        if batch.room_bytes < target.batch_bytes:
            batch.make_room(min(target.batch_bytes, max(4 * batch.room_bytes, _FIRST_ROOM)))
        elif batch.count:
            self._send({target.partitions[number]: batch})
        else:
            return False
        return True

    def take_added(self, address: int) -> tuple[str, bytes]:
        """The topic of the batch whose fields lie there, and the records that native code has added to it."""
        target, number = self._by_address[address]
        return target.partitions[number].topic, target.batches[number].take_added()

    def commit(self, lsn: int) -> None:
        """Commit what was appended, and the state at ``lsn``. When it returns, all of it is durable."""
        filled = self._filled()
        self._add({*filled, _PROGRESS})
        self._send(filled)
        self._drain()
        self.state = replace(self.state, lsn=lsn, sink=Position(self._ends))
        records = [self.state.progress_record()]
        if (self.state.tables, self.state.system_id) != (self._written.tables, self._written.system_id):
            records.append(self.state.capture_record())
        progress = BatchBuilder()
        for key, value in records:
            progress.add(key, value, _NO_HEADERS, time.time_ns() // 1_000_000)
        self._send({_PROGRESS: progress})
        self._drain()
        self._producer.end(commit=True)
        self._added.clear()
        self._written = self.state
        self._sent_bytes = 0
        self._is_stale = True
        self._give_back()

    def _filled(self) -> dict[TopicPartition, BatchBuilder]:
        """The batches that have records."""
        return {
            target.partitions[number]: batch
            for target in self._targets.values()
            for number, batch in enumerate(target.batches)
            if batch.count
        }

    def _give_back(self) -> None:
        """Give up the buffers of empty batches, when they are large."""
        batches = [batch for target in self._targets.values() for batch in target.batches]
        if sum(batch.room_bytes for batch in batches) > _IDLE_BYTES_MAX:
            for batch in batches:
                batch.make_room(0)

    def _send(self, batches: Mapping[TopicPartition, BatchBuilder]) -> None:
        """Send what is gathered for these partitions, without waiting for the log."""
        self._add(batches)
        assert self._stamps is not None
        self._stamps.adopt(self._producer.identity)
        waves: list[dict[TopicPartition, bytes]] = []
        for tp, batch in batches.items():
            for number, built in enumerate(self._build(tp, batch, self._stamps.next_stamp(tp))):
                if number == len(waves):
                    waves.append({})
                waves[number][tp] = built
            self._stamps.advance(tp, batch.count)
            self._sent_bytes += batch.size_bytes
            batch.clear()
            if batch.room_bytes > _SEND_BYTES:  # it had one large record
                batch.make_room(0)
        with self._producer.explaining():
            for wave in waves:
                self._window.send(wave)

    def _build(self, tp: TopicPartition, batch: BatchBuilder, stamp: ProducerStamp) -> list[bytes]:
        values = self._values.get(tp.topic)
        if values is None:
            return [batch.build(compression=Compression.LZ4, producer=stamp)]
        return values.build(batch, stamp, self._targets[tp.topic].limit_bytes)

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        """Make them part of the transaction. The log is asked once for each."""
        if new := set(partitions) - self._added:
            self._drain()
            self._producer.add(new)
            self._added |= new

    def _drain(self) -> None:
        """Wait until the log has all that was sent."""
        with self._producer.explaining():
            self._window.drain()

    def _acknowledged(self, tp: TopicPartition, batch: bytes, base_offset: int) -> None:
        if tp != _PROGRESS:
            self._ends[tp] = base_offset + read_header(batch).record_count

    def _new_target(self, topic: str) -> Target:
        configured = self._log.describe_topic(topic).configs.get("max.message.bytes")
        self._drain()
        partitions = self._client.partition_count(topic)
        target = self._targets[topic] = Target(topic, partitions, int(configured) if configured else _BATCH_BYTES)
        for number, batch in enumerate(target.batches):
            self._by_address[ctypes.addressof(batch.fields)] = target, number
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
