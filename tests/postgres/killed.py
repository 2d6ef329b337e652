"""Captures a database while the capture, the log and the server's sender are killed at random, and checks the topics.

Writers beside: pgbench, and one that changes rows of every kind of type: nulls, large values that stay or change, moved
keys, savepoints that are rolled back, COPY, truncated tables, and transactions of up to 100,000 rows. The server
streams those of more than 64 kB before they commit. In the end each topic is its table, and each change is in the log
once.

By itself: ``make capture-kills``, or ``python -m tests.postgres.killed --kills 1000``.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2

from mainstem.client.log import Log
from mainstem.model import lsn_text, parse_lsn
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.postgres.captured_state import CapturedState, read_state
from mainstem.postgres.rows import RowEncoder
from mainstem.postgres.server.catalog import Types, connect, find_table
from mainstem.postgres.server.chunks import row_of
from tests.broker.harness import LogProcess, child_environment
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster, postgres_programs

TIMEOUT_S = 180
STAMPED = ("orders", "lines", "kinds")
"""The tables whose changes have a stamp each."""
PGBENCH = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
SCHEMA = """
CREATE SEQUENCE stamps;
CREATE SEQUENCE new_ids START 1000000;
CREATE TABLE written (
  stamp bigint PRIMARY KEY, name text, id int, lsn bigint DEFAULT pg_current_wal_insert_lsn() - '0/0'::pg_lsn
);
CREATE TABLE orders (id int PRIMARY KEY, stamp bigint, item text, price numeric(10,2), tags jsonb);
CREATE TABLE lines (id int PRIMARY KEY, stamp bigint, note text);
ALTER TABLE lines ALTER note SET STORAGE EXTERNAL;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE kinds (
  id int PRIMARY KEY, stamp bigint, small smallint, big bigint, flag boolean, single real, twice double precision,
  price numeric(12,3), free numeric, word varchar(20), letters char(5), day date, moment time, at timestamp,
  zoned timestamptz, span interval, data bytea, tags jsonb, doc json, uid uuid, mood mood, numbers int[], words text[]
);
ALTER TABLE kinds ALTER data SET STORAGE EXTERNAL, ALTER tags SET STORAGE EXTERNAL;
ALTER TABLE pgbench_history ADD id bigserial PRIMARY KEY;
"""
VALUES = {
    "small": ("-32768", "7"),
    "big": ("9223372036854775807",),
    "flag": ("true", "false"),
    "single": ("0.1", "-3.5e10", "'NaN'"),
    "twice": ("0.1", "1e-300", "'Infinity'"),
    "price": ("1.5", "-99999999.999", "'NaN'"),
    "free": ("123456789012345678901234567890.123456789", "'NaN'"),
    "word": ("'a\"b\\c'", "E'tab\\t line\\n \\x01'", "'日本 é 😀'", "''"),
    "letters": ("'ab'",),
    "day": ("'2024-02-29'", "'infinity'", "'0044-03-15 BC'"),
    "moment": ("'23:59:59.123456'",),
    "at": ("'2024-01-02 03:04:05.5'", "'-infinity'"),
    "zoned": ("'2024-01-02 03:04:05.123456+02'", "'infinity'"),
    "span": ("'1 year 2 months 3 days 04:05:06.789'",),
    "data": ("'\\x00ff10'", "decode(repeat('ab', 5000), 'hex')", "decode(repeat('cd', 500000), 'hex')"),
    "tags": ('\'{"a": [1, null, "x"]}\'', "jsonb_build_object('long', repeat('é', 20000))"),
    "doc": ("'{\"b\":  2.5}'",),
    "uid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",),
    "mood": ("'good'", "'bad'"),
    "numbers": ("'{1,NULL,3}'", "'{}'", "'{{1},{2}}'"),
    "words": ("'{a,\"b c\",NULL}'",),
}


class Writer(threading.Thread):
    """Changes the tables at random, in transactions of one to many changes. Every change has a stamp of its own."""

    def __init__(self, dsn: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.changes = 0
        self.error: BaseException | None = None
        self.may_truncate = False
        """PostgreSQL 15 cannot decode a table that is truncated while a slot is being made."""
        self._dsn = dsn
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._may_write = threading.Event()
        self._may_write.set()

    def run(self) -> None:
        try:
            connection = psycopg2.connect(self._dsn)
            with connection, connection.cursor() as cursor:
                self._insert_many(cursor, 100_000)
            while not self._stopping.is_set():
                self._may_write.wait()
                with connection, connection.cursor() as cursor:
                    self._transaction(cursor)
            connection.close()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing meanwhile, but for the transaction that has begun."""
        self._may_write.clear()
        try:
            yield
        finally:
            self._may_write.set()

    def stop(self) -> None:
        self._stopping.set()
        self._may_write.set()
        self.join(TIMEOUT_S)
        if self.error is not None:
            raise self.error

    def _transaction(self, cursor: Any) -> None:
        kind = self._random.random()
        if kind < 0.001:
            self._insert_many(cursor, 100_000)
        elif kind < 0.01:
            self._copy(cursor, 2_000)
        elif kind < 0.012 and self.may_truncate:
            cursor.execute(f"TRUNCATE {self._random.choice(STAMPED)}")
        else:
            for _ in range(self._random.choice((1, 1, 2, 5, 300))):
                if self._random.random() < 0.02:  # never happened
                    cursor.execute("SAVEPOINT undone")
                    changes = self.changes
                    self._change(cursor)
                    cursor.execute("ROLLBACK TO undone")
                    self.changes = changes
                self._change(cursor)

    def _insert_many(self, cursor: Any, rows: int) -> None:
        self.changes += rows
        cursor.execute(
            "WITH put AS (INSERT INTO lines SELECT nextval('new_ids'), nextval('stamps'), 'line ' || n FROM"
            " generate_series(1, %s) n RETURNING stamp, id)"
            " INSERT INTO written (stamp, name, id) SELECT stamp, 'lines', id FROM put",
            (rows,),
        )
        cursor.execute("DELETE FROM lines WHERE id >= 1000000 AND id % 50 <> 0")

    def _copy(self, cursor: Any, rows: int) -> None:
        self.changes += rows
        cursor.execute("SELECT nextval('new_ids'), nextval('stamps') FROM generate_series(1, %s)", (rows,))
        found = cursor.fetchall()
        text = "".join(f"{row}\t{stamp}\tcopied\\t{row}\n" for row, stamp in found)
        cursor.copy_expert("COPY lines (id, stamp, note) FROM STDIN", io.StringIO(text))
        text = "".join(f"{stamp}\tlines\t{row}\n" for row, stamp in found)
        cursor.copy_expert("COPY written (stamp, name, id) FROM STDIN", io.StringIO(text))

    def _change(self, cursor: Any) -> None:
        self.changes += 1
        name, row = self._random.choice(STAMPED), self._random.randrange(2_000)
        kind = self._random.random()
        stamp = "nextval('stamps')"
        if kind < 0.15:
            cursor.execute(f"DELETE FROM {name} WHERE id = %s", (row,))
            return
        if kind < 0.25:  # another key
            cursor.execute(
                f"WITH moved AS (UPDATE {name} SET id = id + 10000, stamp = {stamp} WHERE id = %s AND NOT EXISTS"
                f" (SELECT FROM {name} WHERE id = %s) RETURNING stamp, id)"
                f" INSERT INTO written (stamp, name, id) SELECT stamp, %s, id FROM moved",
                (row, row + 10_000, name),
            )
            return
        column, value = self._value(name)
        keeps = "" if self._random.random() < 0.5 else f", {column} = excluded.{column}"
        cursor.execute(
            f"WITH put AS (INSERT INTO {name} (id, stamp, {column}) VALUES (%s, {stamp}, {value})"
            f" ON CONFLICT (id) DO UPDATE SET stamp = excluded.stamp{keeps}"
            f" RETURNING stamp, id) INSERT INTO written (stamp, name, id) SELECT stamp, %s, id FROM put",
            (row, name),
        )

    def _value(self, name: str) -> tuple[str, str]:
        """A column, and a value for it as SQL."""
        if name == "kinds":
            column = self._random.choice(list(VALUES))
            return column, self._random.choice((*VALUES[column], "NULL")).replace("%", "%%")
        return "note" if name == "lines" else "item", f"repeat('é', {self._random.choice((1, 10, 5_000))})"


class CaptureProcess:
    """``mainstem connect postgres`` as a child."""

    def __init__(self, settings: CaptureSettings, bootstrap: str, directory: Path) -> None:
        self._argv = [sys.executable, "-m", "mainstem.cli.main", "connect", "postgres", settings.dsn]
        self._argv += ["--tables", ",".join(map(str, settings.tables)), "--name", settings.name]
        self._argv += ["--bootstrap", bootstrap]
        self._errors = directory / "capture.err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "from mainstem.cli.main import main; main()"
        argv = [sys.executable, "-c", code, *self._argv[3:]]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=child_environment()
            )

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def errors(self) -> str:
        return self._errors.read_text(errors="replace")


class Survived(NamedTuple):
    """What was changed meanwhile, and how many of the kills came before the snapshots were done."""

    changes: int
    kills_in_snapshots: int


def run(
    cluster: PostgresCluster, database: str, directory: Path, *, kills: int, seed: int, rows: int = 3_000
) -> Survived:
    """Kill so often. Raises AssertionError."""
    chance = random.Random(seed)
    dsn = cluster.dsn(database)
    pgbench = [str(postgres_programs() / "pgbench"), "-h", str(cluster.directory), "-p", str(cluster.port)]
    pgbench += ["-U", "postgres", database]
    subprocess.run([*pgbench, "-i", "-q", "-s", "1"], check=True, capture_output=True, timeout=TIMEOUT_S)
    cluster.execute("DELETE FROM pgbench_accounts WHERE aid > 5000", database=database)
    cluster.execute(SCHEMA, database=database)
    cluster.execute(f"ALTER DATABASE {database} SET logical_decoding_work_mem = '64kB'", database=database)
    for name in STAMPED:  # rows for snapshots, which are killed too
        insert = f"INSERT INTO {name} (id, stamp) SELECT n + 100000, -n FROM generate_series(1, %s) n"
        cluster.execute(insert, (rows if name == "orders" else min(rows, 3_000),), database=database)
    settings = CaptureSettings.of("shop", dsn, (*STAMPED, *PGBENCH))
    log = LogProcess(directory / "log")
    log.start()
    capture = CaptureProcess(settings, log.bootstrap, directory)
    writer = Writer(dsn, seed)
    bench = None
    in_snapshots = 0
    try:
        capture.start()
        writer.start()
        aids = "\\set aid random(1, 5000)"
        (directory / "script.sql").write_text(_PGBENCH_SCRIPT.format(aids=aids))
        argv = [*pgbench, "-n", "-c", "2", "-R", "300", "-T", "100000", "-f", str(directory / "script.sql")]
        bench = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(kills):
            time.sleep(chance.uniform(0.05, 1.2))  # the moment of the kill: nothing waits for it
            if writer.error is not None:
                raise writer.error
            with Log(log.bootstrap) as client:
                in_snapshots += in_snapshots == number and not _has_snapshots(client, settings)
            kind = chance.random()
            if kind < 0.6:
                capture.kill()
                capture.start()
            elif kind < 0.8:
                log.kill()
                log.start()
            else:
                cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
            if not capture.is_alive:  # it started while the log was away, which a first start refuses
                capture.start()
            if not writer.may_truncate:
                confirmed = "SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL"
                writer.may_truncate = cluster.execute(confirmed)[0][0] > 0
            # Half of a few kills come after the snapshots. Without a pause the writer is ahead for hours at the end.
            if number % 50 == 49 or number == kills // 2:
                with writer.paused(), Log(log.bootstrap) as client:
                    _wait(client, cluster, database, capture)
                sys.stderr.write(f"{number + 1} kills, {writer.changes} changes\n")
        writer.stop()
        bench.terminate()
        bench.wait(TIMEOUT_S)
        with Log(log.bootstrap) as client:
            _wait(client, cluster, database, capture)
            assert capture.stop() == 0, capture.errors
            _check(client, cluster, database)
    finally:
        writer._stopping.set()
        writer._may_write.set()
        if bench is not None:
            bench.kill()
            bench.wait(TIMEOUT_S)
        if capture.is_alive:
            capture.kill()
        log.kill()
    return Survived(writer.changes, in_snapshots)


def _has_snapshots(log: Log, settings: CaptureSettings) -> bool:
    done = [table.is_done for table in read_state(log, settings.name).tables.values()]
    return len(done) == len(settings.tables) and all(done)


_PGBENCH_SCRIPT = """
{aids}
\\set bid random(1, 1)
\\set tid random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""


def _wait(log: Log, cluster: PostgresCluster, database: str, capture: CaptureProcess) -> None:
    """Until the capture has all changes: as long as it goes on, for it may have millions before it."""
    end = cluster.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn", database=database)[0][0]

    def state() -> CapturedState:
        if not capture.is_alive:
            capture.start()
        return read_state(log, "shop")

    reached = state()
    while reached.lsn < end or not all(table.is_done for table in reached.tables.values()):
        what = f"the capture goes on to {lsn_text(int(end))}"
        eventually(lambda before=reached: state() != before, what, TIMEOUT_S)  # type: ignore[misc]
        reached = state()


def _check(log: Log, cluster: PostgresCluster, database: str) -> None:
    """Each topic is its table; each change that the stream brought is in it once, and none is missing.

    While a snapshot is taken, the stream may leave out a change of a row that the snapshot has not come to. So nothing
    may be missing that was written after the mark of the chunk with the snapshot's last row.
    """
    written = cluster.execute("SELECT stamp, name, lsn FROM written", database=database)
    for name in (*STAMPED, *PGBENCH):
        latest: dict[bytes, int] = {}
        streamed: list[int] = []
        seen = Counter[bytes]()
        last_mark = 0
        for record in log.read(f"shop.{name}"):
            key = record.key or b""
            if record.value is None:
                latest.pop(key, None)
                continue
            latest[key] = hash(record.value)
            headers = dict(record.headers)
            is_streamed = bool(headers["mainstem-xid"])
            if name == "pgbench_history":  # its rows do not change
                seen[key] += is_streamed
            elif name in STAMPED and is_streamed:
                streamed.append(json.loads(record.value)["stamp"])
            elif name in STAMPED:
                last_mark = parse_lsn((headers["mainstem-lsn"] or b"").decode())
        assert latest == _rows_of(cluster, database, name), f"topic shop.{name} is not its table"
        assert not [key for key, count in seen.items() if count > 1], "rows of pgbench are in the log twice"
        assert len(streamed) == len(set(streamed)), f"of {name}, changes are in the log twice"
        expected = {stamp for stamp, table, lsn in written if table == name and lsn > last_mark}
        missing = sorted(expected - set(streamed))
        assert not missing, f"of {name}, {len(missing)} of {len(expected)} changes are not in the log: {missing[:20]}"


def _rows_of(cluster: PostgresCluster, database: str, name: str) -> dict[bytes, int]:
    """A hash of each row of a table as its record's value, by key; read by COPY, and encoded the plain way."""
    connection = connect(cluster.dsn(database))
    try:
        table = find_table(connection, TableName.parse(name))
        types = Types(connection)
        columns = {each.name: types.column(each.type_oid, each.modifier, each.dimensions) for each in table.columns}
        encoder = RowEncoder(table.name, columns, table.key)
        rows = _Hashes(encoder)
        with connection.cursor() as cursor:
            cursor.copy_expert(f"COPY {name} ({', '.join(columns)}) TO STDOUT", rows)
    finally:
        connection.close()
    return rows.found


class _Hashes:
    """The file that COPY writes to."""

    def __init__(self, encoder: RowEncoder) -> None:
        self.found: dict[bytes, int] = {}
        self._encoder = encoder

    def write(self, line: bytes) -> None:
        row = row_of(line)
        self.found[self._encoder.key_of(row)] = hash(self._encoder.value(row).encode())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=3_000, help="of the largest table, for its snapshot")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    options = parser.parse_args(argv)
    cluster = PostgresCluster()
    try:
        cluster.create()
        with tempfile.TemporaryDirectory() as directory:
            done = run(cluster, "postgres", Path(directory), kills=options.kills, seed=options.seed, rows=options.rows)
    finally:
        cluster.close()
    sys.stdout.write(
        f"{options.kills} kills, {done.kills_in_snapshots} of them before the snapshots were done, "
        f"{done.changes} changes, seed {options.seed}: each change once, each topic its table\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
