"""Rows of tables as records of their topics, in the transaction of the database that is being read."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from mainstem.client.values import json_text, time_text
from mainstem.errors import MainstemError
from mainstem.model import lsn_text
from mainstem.pipelines.definitions import Envelope, TableName
from mainstem.postgres.captured_state import TableState
from mainstem.postgres.native.row_code import LARGE_BYTES
from mainstem.postgres.rows import RowEncoder
from mainstem.postgres.server.pgoutput import Begin, Values
from mainstem.postgres.topic_values import KeyIndexes, OpenValues, iter_encoded
from mainstem.postgres.transaction_writer import TransactionWriter
from mainstem.postgres.windows import Window
from mainstem.record.writer import encoded_headers

_EPOCH: Final = datetime.datetime(1970, 1, 1)

Operation = Literal["c", "u", "d", "r"]
"""Debezium's words: created, updated, deleted, read by a snapshot."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table with the columns that it has now. ``keeps_values``: a change may leave values out (see TOAST)."""

    name: TableName
    topic: str
    encoder: RowEncoder
    keeps_values: bool


class TableWriter:
    """Writes rows, and notes them for those who need them later. ``window`` is that of the chunk being read, if any."""

    def __init__(self, log_writer: TransactionWriter, envelope: Envelope, indexes: KeyIndexes) -> None:
        self.open_values = OpenValues()
        self.window: Window | None = None
        self.has_rows = False
        """Whether anything is written that is not committed."""
        self.records = 0
        self._log_writer = log_writer
        self.indexes = indexes
        self.envelope = envelope
        self._headers: bytes | None = None
        self._time_ms = 0
        self.begun = Begin(0, 0, 0)
        """The transaction of the database that is being read."""
        self._places: dict[str, str] = {}
        """Of each topic the fields of its envelopes that are always the same."""

    @property
    def headers(self) -> bytes:
        """The headers of the records that are written now."""
        if self._headers is None:
            self._headers = _headers(self.begun, str(self.begun.xid))
        return self._headers

    def begin(self, begin: Begin) -> None:
        """A transaction of the database begins."""
        self.begun = begin
        self._time_ms = begin.commit_us // 1_000
        self._headers = None

    def begin_snapshot(self) -> None:
        """The rows that follow are of a snapshot: no transaction of the database wrote them now."""
        self._headers = _headers(self.begun, "")

    def committed(self) -> None:
        """All that was written is committed."""
        self.open_values.clear()
        self.has_rows = False

    def window_of(self, table: CapturedTable) -> Window | None:
        """The window of the chunk that is being read, if it is of this table."""
        return self.window if self.window is not None and self.window.table == table.name else None

    def read_again(self, name: TableName, state: TableState) -> None:
        """The snapshot of a table begins again with this state: its first row comes next."""
        again = replace(state, is_done=False, after=None, rows=0)
        self._log_writer.state = self._log_writer.state.with_table(str(name), again)
        self.has_rows = True  # the state
        if self.window is not None and self.window.table == name:
            self.window.is_spoilt = True

    def write(
        self,
        table: CapturedTable,
        key: bytes,
        row: Values | None,
        operation: Operation,
        *,
        known: Mapping[str, str] | None = None,
        before: str | None = None,
    ) -> None:
        """Write a row, or its end (None). ``known``: the JSON of unchanged values; ``before``: the row as it was."""
        value = None if row is None else table.encoder.value(row, known)
        window = self.window
        if window is not None and operation != "r" and window.table == table.name:
            window.touch(key)
        if self.envelope == "debezium":
            change = self._enveloped(table, before, value, operation)
            self._append(table, key, change)
            if row is None:
                self._append(table, key, None)
        else:
            self._append(table, key, value)

    def _append(self, table: CapturedTable, key: bytes, text: str | None) -> None:
        value = None if text is None else text.encode()
        try:
            self._log_writer.append(table.topic, key, value, self.headers, self._time_ms)
        except MainstemError as error:
            error.add_note(f"table {table.name}")
            raise
        self.open_values.note(table.topic, key, value if value is None or table.keeps_values else b"")
        if table.keeps_values and value is not None and len(value) >= LARGE_BYTES:
            self.indexes.need(table.topic)
        self.has_rows = True
        self.records += 1

    def added(self, table: CapturedTable, records: bytes, *, has_large: bool, is_snapshot: bool) -> None:
        """Machine code has written these records, encoded as in a batch. ``has_large``: there may be large values."""
        window = None if is_snapshot else self.window_of(table)
        if window is not None:
            for key, _ in iter_encoded(records):
                window.touch(key)
        has_large = has_large and table.keeps_values
        if has_large:
            self.indexes.need(table.topic)
        self.open_values.note_records(table.topic, records, keeps_values=table.keeps_values, has_large=has_large)
        self.has_rows = True

    def place_of(self, table: CapturedTable) -> str:
        """The fields of an envelope's source that are always the same, as JSON that goes on."""
        place = self._places.get(table.topic)
        if place is None:
            names = {
                "connector": "postgresql",
                "name": self._log_writer.state.name,
                "db": self._log_writer.state.database,
                "schema": table.name.schema,
                "table": table.name.name,
            }
            place = self._places[table.topic] = json_text(names).removesuffix("}")
        return place

    def _enveloped(self, table: CapturedTable, before: str | None, after: str | None, operation: Operation) -> str:
        """The change as Debezium's connector for PostgreSQL writes it, without its schema."""
        begin, place = self.begun, self.place_of(table)
        is_snapshot = "true" if operation == "r" else "false"
        return (
            f'{{"before":{before or "null"},"after":{after or "null"},"source":{place},"ts_ms":{self._time_ms},'
            f'"snapshot":"{is_snapshot}","txId":{begin.xid},"lsn":{begin.commit_lsn}}},'
            f'"op":"{operation}","ts_ms":{time.time_ns() // 1_000_000}}}'
        )


def _headers(begin: Begin, xid: str) -> bytes:
    committed = _EPOCH + datetime.timedelta(microseconds=begin.commit_us)
    return encoded_headers(
        (
            ("mainstem-lsn", lsn_text(begin.commit_lsn).encode()),
            ("mainstem-xid", xid.encode()),
            ("mainstem-commit-ts", time_text(committed).encode()),
        )
    )
