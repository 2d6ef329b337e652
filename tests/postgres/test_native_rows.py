"""The machine code beside the plain way: the same records from the same messages, and nothing from others.

``MAINSTEM_POSTGRES_SEEDS`` is how many histories are played in all (3), a hundred times.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from mainstem.errors import MainstemError, SchemaError
from mainstem.model import TopicPartition
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.postgres import row_runs
from mainstem.postgres.changes import TableChanges
from mainstem.postgres.native.row_code import CODE
from mainstem.postgres.row_runs import Payloads, RowRuns
from mainstem.postgres.rows import RowEncoder
from mainstem.postgres.server.chunks import row_of
from mainstem.postgres.server.column_types import PostgresType, column_type
from mainstem.postgres.server.pgoutput import Begin, Commit, RowDelete, RowInsert, RowUpdate, decode
from mainstem.postgres.table_writer import CapturedTable, TableWriter
from mainstem.postgres.transaction_writer import Target
from mainstem.record.constants import Compression
from mainstem.record.partitioner import partition_for
from mainstem.record.reader import DecodedRecord, read_records
from mainstem.record.writer import ProducerStamp

HISTORIES: Final = 100 * int(os.environ.get("MAINSTEM_POSTGRES_SEEDS", "3"))
BATCH_BYTES: Final = 3_000
"""Small, so that batches fill up."""
NOW_NS: Final = 1_732_448_000_123_456_789
TYPES: Final[dict[int, tuple[str | None, ...]]] = {
    16: ("t", "f", ""),
    17: ("\\x", "\\x00ff10", "\\x" + "0123456789abcdef" * 9, "\\x0", "x00", "\\xzz"),
    20: ("1", "-9223372036854775808", "", 'a"b'),
    25: ("plain", 'a"b\\c\n\t\b\f\r\x01\x1f\x7f', "", "日本 é 😀", "longer than a word of the machine", "\ud7ff\ue000"),
    700: ("1.5", "1e-07", "NaN", "-Infinity"),
    114: ('{"a": [1, "]\\"}", "\\\\"]}', " [1]\n", "3", "[" * 350 + "]" * 350, '"\\u0000"', ""),
    1082: ("2024-02-29", "1969-12-31", "infinity", "0044-03-15 BC", "12024-01-01", "2024-01-0x"),
    1114: ("2024-01-02 03:04:05", "2024-01-02 03:04:05.123456", "infinity", "2024-01-02 03:04:05 BC"),
    1184: ("2024-01-02 03:04:05+00", "2024-01-02 03:04:05.5+00", "-infinity", "2024-01-02 03:04:05+01"),
    1700: ("1.50", "-0.001", "NaN", "99999999999999999999999999.99"),
    1043: ("word", None),
}
"""By the oid of a type: two values that are simple, and others."""


class Collected:
    """The batches of a writer of transactions, without a log."""

    def __init__(self, partitions: int) -> None:
        self.generation = 0
        self.state = SimpleNamespace(name="shop", database="d", tables={})
        self.records: dict[TopicPartition, list[DecodedRecord]] = {}
        self._partitions = partitions
        self._targets: dict[str, Target] = {}
        self.added = 0

    def target(self, topic: str) -> Target:
        if topic not in self._targets:
            self._targets[topic] = Target(topic, self._partitions, BATCH_BYTES)
        return self._targets[topic]

    def _at(self, address: int) -> tuple[Target, int]:
        import ctypes

        return next(
            (target, number)
            for target in self._targets.values()
            for number, batch in enumerate(target.batches)
            if ctypes.addressof(batch.fields) == address
        )

    def make_room(self, address: int) -> bool:
        target, number = self._at(address)
        batch = target.batches[number]
        if batch.room_bytes < target.batch_bytes:
            batch.make_room(min(target.batch_bytes, 2 * batch.room_bytes + 200))
            return True
        return self.send(target, number)

    def send(self, target: Target, number: int) -> bool:
        batch = target.batches[number]
        if batch.count:
            built = batch.build(compression=Compression.NONE, producer=ProducerStamp(1, 1, 0))
            self.records.setdefault(target.partitions[number], []).extend(read_records(built))
            batch.clear()
            return True
        return False

    def take_added(self, address: int) -> tuple[str, bytes]:
        target, number = self._at(address)
        self.added += 1
        return target.partitions[number].topic, target.batches[number].take_added()

    def append(self, topic: str, key: bytes, value: bytes | None, headers: bytes, time_ms: int) -> None:
        target = self.target(topic)
        number = partition_for(key, self._partitions)
        if target.batches[number].size_bytes + len(value or b"") > target.batch_bytes:
            self.send(target, number)
        target.batches[number].add(key, value, headers, time_ms)

    def all_records(self) -> dict[TopicPartition, list[Any]]:
        for target in self._targets.values():
            for number in range(self._partitions):
                self.send(target, number)
        return {tp: [each[1:] for each in records] for tp, records in self.records.items()}


class Machine:
    """Handles messages as a capture does, with the machine code or without."""

    def __init__(self, tables: dict[int, CapturedTable], envelope: str, partitions: int) -> None:
        self.log = Collected(partitions)
        log_writer = cast("Any", self.log)
        settings = CaptureSettings.of("shop", "dbname=d", ("orders",), envelope=envelope)
        self.writer = TableWriter(log_writer, settings.envelope, cast("Any", SimpleNamespace(need=lambda topic: None)))
        self.changes = TableChanges(settings, cast("Any", None), log_writer, self.writer, None)
        self.changes.tables.update(tables)
        self.changes.version += 1
        self.runs = RowRuns(log_writer, self.writer, self.changes)
        self.xids: list[int] = []
        self.plain = 0
        self.lsn = 0
        self.is_inside = False

    def handle(self, payload: bytes) -> None:
        self.plain += 1
        message = decode(payload)
        match message:
            case Begin():
                self.writer.begin(message)
                self.is_inside = True
            case Commit():
                self.xids.append(self.writer.begun.xid)
                self.lsn = max(self.lsn, message.end_lsn)
                self.is_inside = False
            case RowInsert() | RowUpdate() | RowDelete():
                self.changes.apply(message)

    def handle_all(self, payloads: Sequence[bytes], *, natively: bool) -> str | None:
        """The error that ended it, if one did."""
        messages = Payloads(payloads)
        number = 0
        try:
            while number < len(payloads):
                if natively:
                    ended = self.runs.run(messages, number, is_inside=self.is_inside)
                    number, self.is_inside = ended.next_message, ended.is_inside
                    self.xids += ended.xids
                    self.lsn = max(self.lsn, ended.end_lsn)
                if number < len(payloads):
                    self.handle(payloads[number])
                    number += 1
        except (MainstemError, KeyError, ValueError, IndexError) as error:  # the last ones: a server would have lied
            return f"{type(error).__name__}: {error}"
        return None

    def write_lines(self, table: CapturedTable, lines: Sequence[bytes], *, natively: bool) -> None:
        self.writer.begin_snapshot()
        messages = Payloads(lines)
        number = 0
        while number < len(lines):
            if natively:
                number = self.runs.write_lines(table, messages, number)
            if number < len(lines):
                self.plain += 1
                row = row_of(lines[number])
                with suppress(ValueError, IndexError, SchemaError):
                    self.writer.write(table, table.encoder.key_of(row), list(row), "r")
                number += 1


@pytest.fixture(autouse=True)
def code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is there, and the clock stands still."""
    try:
        found = CODE.kept() or CODE.build()
    except OSError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(row_runs, "find_code", lambda: found)
    monkeypatch.setattr(time, "time_ns", lambda: NOW_NS)


def table_of(draw: random.Random, number: int) -> CapturedTable:
    """A table with columns of random types, the first ones its key."""
    oids = [draw.choice(list(TYPES)) for _ in range(draw.randrange(1, 8))]
    numeric = {1700: 20 << 16 | 2 + 4}
    columns = {
        f'c{place} "é%s"': column_type(PostgresType(oid, "t"), numeric.get(oid, -1) if draw.random() < 0.8 else -1)
        for place, oid in enumerate(oids)
    }
    key = list(columns)[: draw.choice((1, 1, 1, 2))]
    name = TableName("public", f"t{number}")
    table = CapturedTable(name, f"shop.t{number}", RowEncoder(name, columns, key), keeps_values=draw.random() < 0.5)
    OIDS[table.topic] = oids
    return table


OIDS: Final[dict[str, list[int]]] = {}


def values_of(draw: random.Random, table: CapturedTable) -> list[str | None]:
    values: list[str | None] = []
    for place, oid in enumerate(OIDS[table.topic]):
        value = draw.choice(TYPES[oid][: None if draw.random() < 0.1 else 2])
        if oid == 25 and draw.random() < 0.05:
            value = "é" * draw.choice((500, 60_000))
        values.append(value if place in table.encoder.key_places or draw.random() < 0.9 else None)
    return values


def tuple_of(values: Sequence[str | None], unchanged: Sequence[int] = ()) -> bytes:
    parts = [struct.pack(">h", len(values))]
    for place, value in enumerate(values):
        if place in unchanged:
            parts.append(b"u")
        elif value is None:
            parts.append(b"n")
        else:
            data = value.encode()
            parts.append(b"t" + struct.pack(">i", len(data)) + data)
    return b"".join(parts)


def change_of(draw: random.Random, oid: int, table: CapturedTable) -> bytes:
    relation = struct.pack(">I", oid)
    old, new = values_of(draw, table), values_of(draw, table)
    kind = draw.random()
    if kind < 0.4:
        return b"I" + relation + b"N" + tuple_of(new)
    if kind < 0.6:
        return b"U" + relation + b"N" + tuple_of(new)
    if kind < 0.8:
        if draw.random() < 0.8:
            for place in table.encoder.key_places:
                new[place] = old[place]
        free = [place for place in range(len(new)) if place not in table.encoder.key_places and old[place] is not None]
        unchanged = [place for place in free if draw.random() < 0.3]
        return b"U" + relation + b"O" + tuple_of(old) + b"N" + tuple_of(new, unchanged)
    return b"D" + relation + draw.choice((b"O", b"K")) + tuple_of(old)


def history_of(draw: random.Random, tables: dict[int, CapturedTable]) -> list[bytes]:
    messages = []
    for _ in range(draw.randrange(1, 6)):
        lsn, xid = draw.randrange(1 << 40), draw.randrange(1 << 32)
        time_us = draw.choice((760_000_000_000_000, 0, 760_000_000_123_000)) + draw.randrange(10_000_000)
        messages.append(b"B" + struct.pack(">QqI", lsn, time_us, xid))
        for _ in range(draw.randrange(6)):
            oid = draw.choice(list(tables))
            messages.append(change_of(draw, oid, tables[oid]))
        messages.append(b"C" + struct.pack(">BQQq", 0, lsn, lsn + 100, time_us))
    return messages


def both(draw: random.Random, act: Callable[[Machine, bool], Any]) -> tuple[Machine, Machine]:
    """What both have made is the same."""
    tables = {oid: table_of(draw, oid) for oid in range(1, draw.randrange(2, 4))}
    envelope, partitions = draw.choice(("row", "debezium")), draw.choice((1, 3))
    plain, native = (Machine(tables, envelope, partitions) for _ in range(2))
    assert native.runs.is_ready
    state = draw.getstate()
    one = act(plain, False)
    draw.setstate(state)
    other = act(native, True)
    if other != one and "UnicodeDecodeError" in str(
        one
    ):  # the code does not read the old values that it need not write
        return plain, native
    assert other == one
    assert native.log.all_records().keys() == plain.log.all_records().keys()
    for tp, records in plain.log.all_records().items():
        for mine, theirs in zip(native.log.all_records()[tp], records, strict=True):
            assert mine == theirs
    assert (native.xids, native.lsn, native.is_inside) == (plain.xids, plain.lsn, plain.is_inside)
    assert native.writer.records == plain.writer.records
    assert native.writer.has_rows == plain.writer.has_rows
    return plain, native


def test_the_code_writes_the_records_of_the_plain_way() -> None:
    draw = random.Random(1)
    plain = native = 0
    for _ in range(HISTORIES):

        def act(machine: Machine, natively: bool) -> list[str | None]:
            for topic in ("shop.t1", "shop.t2"):  # what is open is known, whichever way it was written
                machine.writer.open_values.find(topic, b"1")
            payloads = history_of(draw, machine.changes.tables)
            return [machine.handle_all(payloads, natively=natively), machine.handle_all([], natively=natively)]

        one, other = both(draw, act)
        for topic in OIDS:
            open_values = [dict(machine.writer.open_values.of_topic(topic)) for machine in (one, other)]
            assert open_values[0] == open_values[1]
        plain, native = plain + one.plain, native + other.plain
    assert native < plain / 2, "most messages went through the code"


def test_damaged_messages_come_to_the_same_end() -> None:
    draw = random.Random(2)
    errors = 0
    for _ in range(HISTORIES):

        def act(machine: Machine, natively: bool) -> str | None:
            payloads = history_of(draw, machine.changes.tables)
            for _ in range(2):
                place = draw.choice([place for place, each in enumerate(payloads) if each[:1] != b"B"])
                damaged = bytearray(payloads[place])
                if draw.random() < 0.3 or len(damaged) < 2:
                    del damaged[draw.randrange(len(damaged)) :]
                else:
                    damaged[draw.randrange(1, len(damaged))] = draw.choice((0, 0x75, 0x7F, 0x80, 0xC3, 0xFF))
                payloads[place] = bytes(damaged) or b"?"
            return machine.handle_all(payloads, natively=natively)

        one, _ = both(draw, act)
        errors += one.plain > 0
    assert errors > 0


def test_lines_of_copy_come_to_the_same_records() -> None:
    draw = random.Random(3)
    escapes = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    plain = native = 0
    for _ in range(HISTORIES):

        def act(machine: Machine, natively: bool) -> None:
            machine.writer.begin(Begin(draw.randrange(1 << 40), 1_732_448_000_123_456, 77))
            table = machine.changes.tables[1]
            lines = []
            for _ in range(draw.randrange(8)):
                values = values_of(draw, table)
                texts = ("\\N" if each is None else "".join(escapes.get(c, c) for c in each) for each in values)
                lines.append(("\t".join(texts) + "\n").encode())
            machine.write_lines(table, lines, natively=natively)

        one, other = both(draw, act)
        plain, native = plain + one.plain, native + other.plain
    assert native < plain / 2
