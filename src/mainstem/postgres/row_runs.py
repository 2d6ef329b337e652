"""Runs of simple changes, by machine code (``native``): a chunk of the stream or of a snapshot in a few calls.

The records are those that ``changes`` would write one by one. Where the code stops, the caller handles one message the
plain way and goes on. Used by the capture's thread.
"""

from __future__ import annotations

import ctypes
import struct
import time
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from mainstem.postgres.changes import TableChanges
from mainstem.postgres.native.row_code import (
    HEADERS_MAX,
    TEXTS,
    CallField,
    Kind,
    ProgramField,
    StateField,
    Stop,
    find_code,
)
from mainstem.postgres.server.pgoutput import Begin
from mainstem.postgres.table_writer import CapturedTable, TableWriter
from mainstem.postgres.transaction_writer import Target, TransactionWriter
from mainstem.record.native.kept_code import NativeCall

_SCRATCH_BYTES: Final = 4 << 20
_SHORT_BYTES: Final = 16 << 10
_XIDS_MAX: Final = 4_096
_VALUE_OVERHEAD: Final = 8
"""The most that a value has beside its text and its column's name: quotes, a comma, a null instead of it."""
_FIND_S: Final = 5.0
_WORD: Final = 8
_ASKED: Final = struct.Struct(f"={len(CallField)}q")


class Ended(NamedTuple):
    """How far a call has come. ``xids``: the transactions that have ended; ``end_lsn`` is after the last one."""

    next_message: int
    xids: Sequence[int]
    end_lsn: int
    is_inside: bool


class Payloads:
    """Messages of the stream, or lines of COPY, as the code reads them."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._lengths = array("q", map(len, messages))
        self._data = bytearray().join(messages)
        self._index = self._offset = 0
        self.size_bytes = len(self._data)
        self.addresses = (_address(self._data), self._lengths.buffer_info()[0], len(messages))

    def __len__(self) -> int:
        return len(self._lengths)

    def place_of(self, number: int) -> tuple[int, int]:
        """A message and where it begins; those before it are not asked for any more."""
        self._offset += sum(self._lengths[self._index : number])
        self._index = number
        return number, self._offset


class _Program:
    """A table's program in memory: see ``row_code.ProgramField``."""

    def __init__(self, relation: int, table: CapturedTable, place: str, *, is_enveloped: bool) -> None:
        encoder = table.encoder
        self.table = table
        self._texts = [ctypes.create_string_buffer(each.encode()) for each in (place, *encoder.prefixes)]
        sizes = [len(text) - 1 for text in self._texts]  # without the zero at their end
        numbers = [0] * len(ProgramField)
        numbers[ProgramField.RELATION] = relation
        numbers[ProgramField.COLUMNS] = len(encoder.names)
        numbers[ProgramField.KEYS] = len(encoder.key)
        numbers[ProgramField.IS_ENVELOPED] = is_enveloped
        numbers[ProgramField.PLACE], numbers[ProgramField.PLACE_BYTES] = ctypes.addressof(self._texts[0]), sizes[0]
        numbers[ProgramField.OVERHEAD] = sum(sizes) + _VALUE_OVERHEAD * len(sizes)
        for kind, text, size in zip(encoder.kinds, self._texts[1:], sizes[1:], strict=True):
            assert kind is not None
            numbers += (kind, ctypes.addressof(text), size)
        numbers += encoder.key_places
        self._numbers = (ctypes.c_int64 * len(numbers))(*numbers)
        self.address = ctypes.addressof(self._numbers)

    def aim(self, target: Target) -> None:
        """Where its records go."""
        self._target = target
        self._numbers[ProgramField.TARGETS] = ctypes.addressof(target.fields)
        self._numbers[ProgramField.PARTITIONS] = len(target.batches)


class RowRuns:
    """Encodes rows of all tables that ``changes`` knows, into the batches of ``log_writer``."""

    def __init__(self, log_writer: TransactionWriter, writer: TableWriter, changes: TableChanges) -> None:
        self._log_writer = log_writer
        self._writer = writer
        self._changes = changes
        self._code: NativeCall | None = None
        self._looked_s = -_FIND_S
        self._tables: dict[str, CapturedTable] = {}
        """The tables that have programs, by topic."""
        self._programs: list[_Program] = []
        self._laid_out = (-1, -1)
        self._begun: Begin | None = None
        """The transaction of the state."""
        self._state = (ctypes.c_int64 * (len(StateField) + HEADERS_MAX // _WORD))()
        self._xids = (ctypes.c_int64 * _XIDS_MAX)()
        self._scratch = ctypes.create_string_buffer(_SCRATCH_BYTES)
        self._texts = [ctypes.create_string_buffer(TEXTS[which], len(TEXTS[which])) for which in sorted(TEXTS)]
        places = [number for text in self._texts for number in (ctypes.addressof(text), len(text))]
        self._text_places = (ctypes.c_int64 * len(places))(*places)
        self._addresses = self._touched = self._spans = (ctypes.c_int64 * 0)()

    @property
    def is_ready(self) -> bool:
        """Whether the machine code can be used. Where it is not yet, it may be compiled meanwhile."""
        if self._code is None and time.monotonic() - self._looked_s >= _FIND_S:
            self._looked_s = time.monotonic()
            self._code = find_code()
        return self._code is not None

    def run(self, messages: Payloads, first: int, *, is_inside: bool) -> Ended:
        """Handle messages from ``first`` on, up to one that is not simple, or to the end.

        ``is_inside``: a transaction of the database has begun before. Raises what the log raises.
        """
        wanted = (self._changes.version, self._log_writer.generation)
        if self._laid_out != wanted:
            simple = {oid: table for oid, table in self._changes.tables.items() if _is_simple(table)}
            self._lay_out([self._program(oid, table) for oid, table in simple.items()])
            self._laid_out = (self._changes.version, self._log_writer.generation)
        if self._begun is not self._writer.begun:
            self._set_begin()
        state = self._state
        state[StateField.IS_INSIDE] = is_inside
        next_message, xids = self._call(messages, first, is_snapshot=False)
        begun = Begin(state[StateField.COMMIT_LSN], state[StateField.COMMIT_US], state[StateField.XID])
        if begun != self._begun:
            self._begun = begun
            self._writer.begin(begun)
        return Ended(next_message, xids, state[StateField.END_LSN], bool(state[StateField.IS_INSIDE]))

    def write_lines(self, table: CapturedTable, lines: Payloads, first: int) -> int:
        """Write rows of a snapshot from ``first`` on, up to one that is not simple; which one that is."""
        if not _is_simple(table):
            return first
        self._lay_out([self._program(0, table)])
        self._laid_out = (-1, -1)
        self._set_begin()
        self._begun = None
        next_line, _ = self._call(lines, first, is_snapshot=True)
        return next_line

    def _program(self, oid: int, table: CapturedTable) -> _Program:
        is_enveloped = self._writer.envelope == "debezium"
        program = _Program(oid, table, self._writer.place_of(table), is_enveloped=is_enveloped)
        program.aim(self._log_writer.target(table.topic))
        return program

    def _lay_out(self, programs: Sequence[_Program]) -> None:
        self._programs = list(programs)
        self._tables = {program.table.topic: program.table for program in programs}
        self._addresses = (ctypes.c_int64 * (len(programs) + 1))(*(program.address for program in programs))
        columns = max((len(program.table.encoder.names) for program in programs), default=0)
        self._spans = (ctypes.c_int64 * (4 * columns))()  # address and size, of the new row and of the old one
        partitions = sum(len(self._log_writer.target(topic).batches) for topic in self._tables)
        self._touched = (ctypes.c_int64 * partitions)()
        self._state[StateField.TOUCHED_AT] = ctypes.addressof(self._touched)

    def _set_begin(self) -> None:
        state, writer = self._state, self._writer
        headers = writer.headers
        state[StateField.COMMIT_LSN], state[StateField.COMMIT_US], state[StateField.XID] = writer.begun
        state[StateField.HEADER_BYTES] = len(headers)
        ctypes.memmove(ctypes.addressof(state) + len(StateField) * _WORD, headers, len(headers))
        self._begun = writer.begun

    def _call(self, messages: Payloads, first: int, *, is_snapshot: bool) -> tuple[int, list[int]]:
        """Go on until the code stops for good: the next message, and the transactions that have ended."""
        assert self._code is not None
        state, xids = self._state, list[int]()
        while True:
            asked = _ASKED.pack(
                is_snapshot,
                *messages.addresses,
                *messages.place_of(first),
                ctypes.addressof(self._addresses),
                len(self._programs),
                ctypes.addressof(self._spans),
                ctypes.addressof(self._scratch),
                _SCRATCH_BYTES,
                time.time_ns() // 1_000_000,
                ctypes.addressof(state),
                ctypes.addressof(self._xids),
                _XIDS_MAX,
                ctypes.addressof(self._text_places),
            )
            stop, first, _, ended = self._code(asked, messages.size_bytes <= _SHORT_BYTES)
            xids += self._xids[:ended]
            self._take_in(is_snapshot=is_snapshot)
            is_over = stop in (Stop.DONE, Stop.OTHER)
            if is_over or (stop == Stop.FULL and not self._log_writer.make_room(state[StateField.TARGET])):
                return first, xids

    def _take_in(self, *, is_snapshot: bool) -> None:
        """Let the writer know of the records that the code has written."""
        state = self._state
        self._writer.records += state[StateField.RECORDS]
        for number in range(state[StateField.TOUCHED]):
            topic, records = self._log_writer.take_added(self._touched[number])
            has_large = state[StateField.LARGE] > 0
            self._writer.added(self._tables[topic], records, has_large=has_large, is_snapshot=is_snapshot)
        state[StateField.RECORDS] = state[StateField.LARGE] = state[StateField.TOUCHED] = 0


def _is_simple(table: CapturedTable) -> bool:
    """Whether the code knows all of its columns. A key of JSON is not simple."""
    encoder = table.encoder
    key_kinds = {encoder.kinds[place] for place in encoder.key_places}
    return bool(encoder.names) and None not in encoder.kinds and Kind.JSON not in key_kinds


def _address(data: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * 0).from_buffer(data))
