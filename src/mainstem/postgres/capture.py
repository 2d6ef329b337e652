"""The capture: changes of a database in, records of the log out, and a snapshot of each table beside the stream.

A transaction of the log holds whole transactions of the database, and the position after them. So after any end, of
this process, of the log or of the database, each change is in the log once. The server forgets its own log only after
what is durable here.

One ``Capture`` runs from connection to the first failure; ``connector`` begins the next. Used by one thread; the stream
and the reader of chunks have threads of their own, and hand their findings over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mainstem.errors import DefinitionError
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.captured_state import TableState
from mainstem.postgres.changes import TableChanges
from mainstem.postgres.requests import requested_table
from mainstem.postgres.row_runs import Payloads, RowRuns
from mainstem.postgres.server.catalog import connect
from mainstem.postgres.server.pgoutput import Begin, Commit, LogicalMessage, RowDelete, RowInsert, RowUpdate, decode
from mainstem.postgres.server.replication import Chunk, ReplicationStream
from mainstem.postgres.server.streamed_transactions import StreamedTransactions
from mainstem.postgres.start import CaptureStart
from mainstem.postgres.table_snapshots import TableSnapshots
from mainstem.postgres.table_writer import TableWriter
from mainstem.postgres.topic_values import KeyIndexes
from mainstem.postgres.transaction_writer import TransactionWriter

if TYPE_CHECKING:
    from threading import Event

    from mainstem.client.log import Log

_WAIT_S: Final = 0.05
_COMMIT_BYTES: Final = 12 << 20
_COMMIT_S: Final = 0.2
_ACTIVE_S: Final = 1.0


@dataclass(slots=True)
class CaptureCounts:
    """The counts of a capture since its process started, and where it is. Written by the capture's thread alone."""

    records: int = 0
    commits: int = 0
    lsn: int = 0
    tables: Mapping[str, TableState] = field(default_factory=dict)


class Capture:
    """One run. The module's docstring has the contract."""

    def __init__(self, settings: CaptureSettings, log: Log, counts: CaptureCounts, note: Callable[[str], None]) -> None:
        """``note`` gets warnings for the user, a line each."""
        self._settings = settings
        self._log = log
        self._counts = counts
        self._note = note
        self._is_inside = False
        """Whether a transaction of the database has begun and not ended."""
        self._lsn = 0
        self._committed_s = 0.0
        self._active_s = 0.0

    def run(self, stopping: Event, *, again: bool = False, on_ready: Callable[[], None] = lambda: None) -> None:
        """Capture until ``stopping`` is set. With ``again`` from a new slot and with new snapshots.

        Raises ConfigError and DefinitionError for what cannot work, SlotLostError, DatabaseUnavailableError,
        LogUnavailableError, ProducerFencedError when another process has taken over.
        """
        settings = self._settings
        with TransactionWriter(self._log, settings.name) as self._log_writer:
            connection = connect(settings.dsn)
            try:
                indexes = KeyIndexes(self._log, self._note)
                start = CaptureStart(settings, self._log, self._log_writer, indexes, connection, self._note)
                self._lsn = start.run(again=again)
                self._writer = TableWriter(self._log_writer, settings.envelope, indexes)
                parts = (settings, self._log, self._log_writer, self._writer)
                self._changes = TableChanges(*parts, connection)
                self._runs = RowRuns(self._log_writer, self._writer, self._changes)
                self._snapshots = TableSnapshots(*parts, self._changes, self._runs, connection)
                self._tell()
                try:
                    self._stream(stopping, on_ready)
                finally:
                    self._snapshots.close()
            finally:
                connection.close()

    def _stream(self, stopping: Event, on_ready: Callable[[], None]) -> None:
        slot = (self._settings.dsn, self._settings.slot, self._lsn)
        with StreamedTransactions() as self._streamed, ReplicationStream(*slot) as stream:
            on_ready()
            while not stopping.is_set():
                if not self._is_inside:  # a window has whole transactions only
                    self._snapshots.go_on()
                self._take(stream.take(_WAIT_S))
                if not self._is_inside and self._is_due(has_more=stream.has_more):
                    self._commit(stream)

    def _take(self, chunk: Chunk) -> None:
        messages: list[bytes] = []
        for item in chunk:
            if isinstance(item, bytes):
                messages.append(item)
                continue
            self._take_all(messages)
            messages = []
            if not self._is_inside and not self._streamed.is_inside:
                self._lsn = max(self._lsn, item)
        self._take_all(messages)

    def _take_all(self, payloads: Sequence[bytes]) -> None:
        for piece in self._streamed.take(payloads):
            self._handle_all(piece)

    def _handle_all(self, payloads: Sequence[bytes]) -> None:
        """Handle messages: runs of simple ones by machine code, others one by one."""
        messages = Payloads(payloads) if payloads and self._runs.is_ready else None
        number = 0
        while number < len(payloads):
            if messages is not None and not self._snapshots.is_marked:
                ended = self._runs.run(messages, number, is_inside=self._is_inside)
                number, self._is_inside = ended.next_message, ended.is_inside
                self._lsn = max(self._lsn, ended.end_lsn)
                for xid in ended.xids:
                    self._snapshots.saw(xid)
            if number < len(payloads):
                self._handle(payloads[number])
                number += 1

    def _handle(self, payload: bytes) -> None:
        message = decode(payload)
        match message:
            case RowInsert() | RowUpdate() | RowDelete():
                self._changes.apply(message)
            case None:
                pass
            case Begin():
                self._is_inside = True
                self._writer.begin(message)
            case Commit():
                self._is_inside = False
                self._lsn = max(self._lsn, message.end_lsn)
                self._snapshots.saw(self._writer.begun.xid)
            case LogicalMessage():
                self._snapshots.mark(message)
                self._serve_request(message)
            case _:
                self._changes.apply(message)

    def _serve_request(self, message: LogicalMessage) -> None:
        try:
            table = requested_table(message, self._settings)
        except DefinitionError as error:
            self._note(f"a request for a snapshot is ignored: {error}")
            return
        if table is not None:
            self._note(f"table {table} is read again, as asked")
            self._snapshots.ask(table)

    def _is_due(self, *, has_more: bool) -> bool:
        """Whether to commit now, between two transactions of the database."""
        now_s = time.monotonic()
        if self._writer.has_rows:
            is_large = self._log_writer.size_bytes >= _COMMIT_BYTES
            return is_large or not has_more or now_s - self._committed_s >= _COMMIT_S
        if self._lsn <= self._log_writer.state.lsn:
            return False
        # Only other tables have changed. A reader may wait for that position: at once while there is work.
        return now_s - self._active_s < _ACTIVE_S or now_s - self._committed_s >= _ACTIVE_S

    def _commit(self, stream: ReplicationStream) -> None:
        had_rows = self._writer.has_rows
        self._snapshots.begin_asked()
        self._log_writer.commit(self._lsn)
        stream.confirm(self._lsn)
        self._writer.committed()
        self._committed_s = time.monotonic()
        if had_rows:
            self._active_s = self._committed_s
        self._counts.commits += 1
        self._tell()

    def _tell(self) -> None:
        self._counts.records += self._writer.records
        self._writer.records = 0
        self._counts.lsn = self._log_writer.state.lsn
        self._counts.tables = self._log_writer.state.tables
