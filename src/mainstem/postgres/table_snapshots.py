"""Snapshots of tables beside the stream: one chunk after the other, each appended when the stream has come to its mark.

``windows`` says why the rows are right. A table whose topic had records when its snapshot began, as after a slot was
lost, gets tombstones at the end for the keys that are gone. Used by the capture's thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mainstem.errors import ConfigError
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.postgres.captured_state import TableState
from mainstem.postgres.changes import TableChanges
from mainstem.postgres.row_runs import Payloads, RowRuns
from mainstem.postgres.rows import RowEncoder
from mainstem.postgres.server.catalog import Types, rows_of
from mainstem.postgres.server.chunks import MARK, ChunkReader, ChunkRows, SnapshotXids, row_of
from mainstem.postgres.server.pgoutput import UNCHANGED, LogicalMessage, Values
from mainstem.postgres.table_writer import CapturedTable, TableWriter
from mainstem.postgres.topic_values import live_keys
from mainstem.postgres.transaction_writer import TransactionWriter
from mainstem.postgres.windows import SeenXids, Window

if TYPE_CHECKING:
    from mainstem.client.log import Log

_AGAIN_S: Final = 0.2


class TableSnapshots:
    """Takes the snapshots that the state says are not done. Close it."""

    def __init__(
        self,
        settings: CaptureSettings,
        log: Log,
        log_writer: TransactionWriter,
        writer: TableWriter,
        changes: TableChanges,
        runs: RowRuns,
        connection: Any,
    ) -> None:
        """To be made before the stream begins, and after the last change of the publication."""
        self._settings = settings
        self._log = log
        self._log_writer = log_writer
        self._writer = writer
        self._changes = changes
        self._runs = runs
        self._types = Types(connection)
        self._chunks = ChunkReader(settings.dsn, settings.name)
        # A snapshot lists only what is older than the newest transaction that has ended: so one ends first.
        rows_of(connection, "SELECT pg_current_xact_id()")
        running = rows_of(connection, "SELECT pg_current_snapshot()::text")[0][0]
        self._seen = SeenXids(SnapshotXids.parse(running))
        self._not_before_s = 0.0
        self._asked: set[TableName] = set()
        self.is_marked = False
        """Whether the stream is in the transaction of the chunk's mark."""

    def close(self) -> None:
        """Give up the chunk that is being read."""
        self._chunks.close()

    def saw(self, xid: int) -> None:
        """The stream had this transaction. If it was a chunk's mark: append what was not changed meanwhile."""
        self._seen.add(xid)
        if self.is_marked:
            self.is_marked = False
            self._take_in()

    def go_on(self) -> None:
        """Ask for the next chunk, unless one is being read. Raises what reading failed with."""
        if self._chunks.is_busy:
            if self._chunks.failure is not None:
                self._chunks.result()
            return
        table = self._next_table()
        if table is None or time.monotonic() < self._not_before_s:
            return
        self._request(table, self._log_writer.state.tables[str(table)].after)

    def _request(self, table: TableName, after: Sequence[str] | None) -> None:
        self._writer.window = Window(table, self._seen.count)
        self._chunks.request(table, after)

    def _next_table(self) -> Any:
        tables = self._log_writer.state.tables
        return next((name for name in self._settings.tables if not tables[str(name)].is_done), None)

    def mark(self, message: LogicalMessage) -> None:
        """The stream has come to a message, which may be the chunk's mark. A mark is alone in its transaction."""
        self.is_marked |= message.prefix == MARK and self._chunks.is_busy and message.content == self._chunks.mark

    def ask(self, name: TableName) -> None:
        """Note a request to read a table again. It is served with the next commit, however often it came till then."""
        self._asked.add(name)
        self._writer.has_rows = True  # the state

    def begin_asked(self) -> None:
        """Read the tables that were asked for from their first row on, beside the stream. Raises LogUnavailableError.

        It comes before the commit of what the stream has had, so that no request is lost. At the end of a snapshot,
        keys that the topic has now and the table has not get tombstones.
        """
        for name in self._asked:
            state = self._log_writer.state.tables[str(name)]
            self._writer.read_again(name, replace(state, began_at=self._log.end(state.topic)))
        self._asked.clear()

    def _take_in(self) -> None:
        chunk, window = self._chunks.result(), self._writer.window
        assert window is not None
        self._writer.window = None
        table = self._table_of(chunk, self._log_writer.state.tables[str(window.table)])
        # Columns of a chunk that is older than a change must not become the topic's schema after those of the change.
        is_other = any(shape != table.encoder.schema for shape in window.shapes)
        if window.is_spoilt or is_other or self._seen.is_stale(chunk.xids, window.opened_at):
            self._not_before_s = time.monotonic() + _AGAIN_S
            return
        self._append(chunk, window, table)

    def _append(self, chunk: ChunkRows, window: Window, table: CapturedTable) -> None:
        state = self._log_writer.state.tables[str(window.table)]
        encoder = table.encoder
        after = state.after
        if chunk.lines:
            last = dict(zip(encoder.names, row_of(chunk.lines[-1]), strict=True))
            after = tuple(str(last[name]) for name in state.key)
        if not chunk.is_last:  # the server reads it while these rows are written
            self._request(window.table, after)
        self._writer.begin_snapshot()
        if chunk.lines:
            self._changes.register(state.topic, encoder)
        if not window.is_emptied:
            self._write(table, self._unchanged(chunk.lines, window, table))
        if chunk.is_last:
            self._end_what_is_gone(table, state)
        done = replace(state, after=after, rows=state.rows + len(chunk.lines), is_done=chunk.is_last)
        self._log_writer.state = self._log_writer.state.with_table(str(window.table), done)
        self._writer.has_rows = True  # the state, if no row

    def _unchanged(self, lines: Sequence[bytes], window: Window, table: CapturedTable) -> Sequence[bytes]:
        """The rows that the stream has not changed meanwhile. Those that it has changed in part are written."""
        if not window.touched and not window.partial:
            return lines
        unchanged = []
        for line in lines:
            row = row_of(line)
            key = table.encoder.key_of(row)
            if key in window.partial:
                self._writer.write(table, key, _merged(window.partial[key], row), "r")
            elif key not in window.touched:
                unchanged.append(line)
        return unchanged

    def _write(self, table: CapturedTable, lines: Sequence[bytes]) -> None:
        messages = Payloads(lines) if self._runs.is_ready else None
        number = 0
        while number < len(lines):
            if messages is not None:
                number = self._runs.write_lines(table, messages, number)
            if number < len(lines):
                row = row_of(lines[number])
                self._writer.write(table, table.encoder.key_of(row), list(row), "r")
                number += 1

    def _table_of(self, chunk: ChunkRows, state: TableState) -> CapturedTable:
        """The table as the chunk has it; the stream may have it otherwise already."""
        name = chunk.table.name
        if chunk.table.key != state.key:
            raise ConfigError(f"the key of table {name} has changed: take a new snapshot with --snapshot again")
        columns = chunk.table.columns
        leaves_out = chunk.table.identity != "f" and any(column.is_out_of_line for column in columns)
        return CapturedTable(name, state.topic, RowEncoder.of_table(chunk.table, self._types), leaves_out)

    def _end_what_is_gone(self, table: CapturedTable, state: TableState) -> None:
        """Tombstones for keys that the topic had before the snapshot began, and that the table does not have."""
        if any(state.began_at.values()):
            since, before = state.emptied_at, state.began_at
            for key in live_keys(self._log, table.topic, self._writer.open_values, since=since, before=before):
                self._writer.write(table, key, None, "d")


def _merged(partial: Values, row: list[str | None]) -> Values:
    """A row of a chunk, with the later change of which the stream left values out."""
    return [was if value is UNCHANGED else value for value, was in zip(partial, row, strict=True)]
