"""Writes what a capture takes in into the log: in transactions, each with the capture's progress.

A transaction of the log holds one or more whole transactions of the database. Its transactional id is the capture's: a
process that takes over ends what an older one left open, and fences it. Rows are gathered by topic and encoded
natively. Used by one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.producers import BatchStamps
from mainstem.client.wire.produce.transactions import TransactionalProducer
from mainstem.errors import MainstemError, RecordTooLargeError
from mainstem.model import Position, TopicPartition
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.postgres.captured_state import CapturedState, read_state
from mainstem.record.arrow_encode import encode
from mainstem.record.arrow_partition import partitions_for
from mainstem.record.constants import Compression
from mainstem.record.header import read_header
from mainstem.record.writer import NewRecord, build_batch

if TYPE_CHECKING:
    from mainstem.client.log import Log

_SEND_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 900_000
_TRANSACTION_S: Final = 600.0
_HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_ROW_BYTES: Final = 50

Headers = tuple[tuple[str, bytes], ...]
"""Of every record of a transaction of the database: the same names in the same order, always."""


@dataclass(slots=True)
class _Gathered:
    """Rows of one topic that are not sent yet. ``origins``: for each row the number of its headers in ``headers``."""

    keys: list[bytes] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    size_bytes: int = 0


class TransactionWriter:
    """Appends rows, and commits them with the state. A context manager: an error aborts what is open."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._client = WireClient(
            log.bootstrap, client_id="mainstem-postgres", timeout_s=log.timeout_s, security=log.security
        )
        self._producer = TransactionalProducer(self._client, f"mainstem-postgres-{name}", timeout_s=_TRANSACTION_S)
        self._stamps: BatchStamps | None = None
        self._gathered: dict[str, _Gathered] = {}
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

    def append(self, topic: str, key: bytes, value: str | None, headers: Headers, time_ms: int) -> None:
        """Append one record. Raises RecordTooLargeError, and what a transaction of the log raises."""
        gathered = self._gathered.get(topic)
        if gathered is None:
            gathered = self._gathered[topic] = _Gathered()
        if not gathered.headers or gathered.headers[-1] is not headers:
            gathered.headers.append(headers)
        gathered.keys.append(key)
        gathered.values.append(value)
        gathered.times_ms.append(time_ms)
        gathered.origins.append(len(gathered.headers) - 1)
        size = len(key) + (0 if value is None else len(value)) + _ROW_BYTES
        gathered.size_bytes += size
        self.size_bytes += size
        if gathered.size_bytes >= _SEND_BYTES:
            self._send(topic)

    def commit(self, lsn: int) -> None:
        """Commit what was appended, and the state at ``lsn``. When it returns, all of it is durable."""
        for topic in list(self._gathered):
            self._send(topic)
        self.state = replace(self.state, lsn=lsn, sink=Position(self._ends))
        records = [self.state.progress_record()]
        if (self.state.tables, self.state.system_id) != (self._written.tables, self._written.system_id):
            records.append(self.state.capture_record())
        rows = [NewRecord(key, value, (), self._now_ms()) for key, value in records]
        tp = TopicPartition(PROGRESS_TOPIC, 0)
        self._producer.add([tp])
        stamps = self._adopted_stamps()
        self._produce(tp, build_batch(rows, producer=stamps.next_stamp(tp)))
        stamps.advance(tp, len(rows))
        self._producer.end(commit=True)
        self._written = self.state
        self.size_bytes = 0

    def _now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000

    def _send(self, topic: str) -> None:
        gathered = self._gathered.pop(topic)
        try:
            self._send_rows(topic, gathered)
        except RecordTooLargeError as error:
            sizes = [len(value or "") for value in gathered.values]
            key = gathered.keys[sizes.index(max(sizes))][:80]
            raise RecordTooLargeError(
                f"the row with key {key.decode(errors='replace')} has {max(sizes):,} characters, too many for "
                f"topic {topic}: raise the topic's max.message.bytes, or leave the table out"
            ) from error

    def _send_rows(self, topic: str, gathered: _Gathered) -> None:
        count = self._client.partition_count(topic)
        keys = pa.array(gathered.keys, pa.binary())
        values = pa.array(gathered.values, pa.string())
        assigned = partitions_for(keys, count)
        headers = _header_column(gathered)
        times = np.array(gathered.times_ms, np.int64)
        chosen = [(number, np.flatnonzero(assigned == number)) for number in range(count)]
        targets = [(TopicPartition(topic, number), rows) for number, rows in chosen if len(rows)]
        self._producer.add([tp for tp, _ in targets])
        stamps = self._adopted_stamps()
        for tp, rows in targets:
            batches = encode(
                keys.take(rows),
                values.take(rows),
                timestamps_ms=times[rows],
                headers=headers.take(rows),
                compression=Compression.LZ4,
                max_batch_bytes=self._limit_of(topic),
                producer=stamps.next_stamp(tp),
            )
            stamps.advance(tp, len(rows))
            for batch in batches:
                self._ends[tp] = self._produce(tp, batch)

    def _limit_of(self, topic: str) -> int:
        limit = self._limits.get(topic)
        if limit is None:
            configured = self._log.describe_topic(topic).configs.get("max.message.bytes")
            limit = self._limits[topic] = int(configured) if configured else _BATCH_BYTES
        return limit

    def _adopted_stamps(self) -> BatchStamps:
        assert self._stamps is not None
        self._stamps.adopt(self._producer.identity)
        return self._stamps

    def _produce(self, tp: TopicPartition, batch: Any) -> int:
        try:
            base = self._client.produce(tp, batch, transactional_id=self._producer.transactional_id)
        except MainstemError as error:
            raise self._producer.explained(error) from error
        return base + read_header(batch).record_count

    def __enter__(self) -> TransactionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._producer.end(commit=False)  # else readers of committed records wait for the time-out
        except MainstemError as failed:  # the log is away, or another process has taken over: both end it
            if error is not None:
                error.add_note(f"the open transaction could not be aborted: {failed}")
        finally:
            self._client.close()


def _header_column(gathered: _Gathered) -> pa.Array:
    """The headers of all rows: each row has those of its transaction of the database."""
    width = len(gathered.headers[0])
    names = pa.array([name for headers in gathered.headers for name, _ in headers], pa.string())
    contents = pa.array([content for headers in gathered.headers for _, content in headers], pa.binary())
    each = pa.StructArray.from_arrays([names, contents], fields=list(_HEADER_TYPE))
    places = np.array(gathered.origins, np.int64)[:, None] * width + np.arange(width)
    offsets = np.arange(len(gathered.origins) + 1, dtype=np.int32) * width
    return pa.ListArray.from_arrays(pa.array(offsets), each.take(pa.array(places.reshape(-1))))
