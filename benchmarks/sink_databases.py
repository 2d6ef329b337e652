"""The databases of the benchmark of sinks: a server that syncs, and in it what one would write by hand.

Each loop by hand upserts the last row of each key of a batch, by the library that most use, and keeps no position.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from psycopg2.extras import execute_values
from tests.support.mariadb import MariaDBTestServer
from tests.support.postgres import PostgresCluster

from benchmarks.by_hand import Keyed
from mainstem.pipelines.kinds import MariaDB, Postgres, Sink, SQLite

DDL = "id BIGINT, customer STRING, item STRING, amount DECIMAL(12,2), ordered TIMESTAMP, paid BOOLEAN, weight DOUBLE"
COLUMNS = ("id", "customer", "item", "amount", "ordered", "paid", "weight")
_ROLE = "bench"
_POSTGRES = (
    "id bigint PRIMARY KEY, customer text, item text, amount numeric(12,2), ordered timestamptz, paid boolean, "
    "weight float8"
)
_MARIADB = (
    "id bigint PRIMARY KEY, customer longtext, item longtext, amount decimal(12,2), ordered datetime(6), paid boolean, "
    "weight double"
)
_SQLITE = "id integer PRIMARY KEY, customer text, item text, amount text, ordered text, paid integer, weight real"


class Loop(ABC):
    """A loop by hand into one table, over a connection of Python's database API."""

    def __init__(self, session: Any, table: str) -> None:
        self._session = session
        self._table = table

    def prepare(self, records: Keyed) -> Any:
        """The rows of a batch to write, and the keys to delete."""
        last = {key: None if value is None else json.loads(value) for key, value in records}
        upserts = [self._row(row) for row in last.values() if row is not None]
        return upserts, [(int(key),) for key, row in last.items() if row is None]

    def write(self, rows: Any) -> None:
        """Write what was prepared, and commit."""
        upserts, deletions = rows
        cursor = self._session.cursor()
        self._write(cursor, upserts, deletions)
        self._session.commit()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _row(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in COLUMNS)

    @abstractmethod
    def _write(self, cursor: Any, upserts: Sequence[Any], deletions: Sequence[Any]) -> None: ...


class _PostgresLoop(Loop):
    def _write(self, cursor: Any, upserts: Sequence[Any], deletions: Sequence[Any]) -> None:
        sets = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
        delete = f"DELETE FROM {self._table} WHERE id IN (VALUES %s)"
        insert = f"INSERT INTO {self._table} VALUES %s ON CONFLICT (id) DO UPDATE SET {sets}"
        for statement, rows in ((delete, deletions), (insert, upserts)):
            if rows:
                execute_values(cursor, statement, rows, page_size=1_000)


class _MariaDBLoop(Loop):
    def _row(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*super()._row(row)[:4], row["ordered"].removesuffix("Z"), row["paid"], row["weight"])

    def _write(self, cursor: Any, upserts: Sequence[Any], deletions: Sequence[Any]) -> None:
        sets = ", ".join(f"{name} = VALUES({name})" for name in COLUMNS[1:])
        values = ", ".join(["%s"] * len(COLUMNS))
        cursor.executemany(f"DELETE FROM {self._table} WHERE id = %s", deletions)
        # PyMySQL makes statements of about a megabyte of this.
        cursor.executemany(f"INSERT INTO {self._table} VALUES ({values}) ON DUPLICATE KEY UPDATE {sets}", upserts)


class _SQLiteLoop(Loop):
    def _write(self, cursor: Any, upserts: Sequence[Any], deletions: Sequence[Any]) -> None:
        sets = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
        marks = ", ".join("?" * len(COLUMNS))
        cursor.executemany(f"DELETE FROM {self._table} WHERE id = ?", deletions)
        cursor.executemany(f"INSERT INTO {self._table} VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {sets}", upserts)


class BenchDatabase(ABC):
    """A database that syncs each commit. ``close`` ends its server."""

    name: str
    table_types: str
    comparable: Sequence[str] = COLUMNS
    """The columns that a loop and a sink write alike."""

    @abstractmethod
    def sink(self, table: str) -> Sink:
        """A sink in it."""

    @abstractmethod
    def connect(self) -> Any:
        """A connection of its driver."""

    @abstractmethod
    def loop(self, table: str) -> Loop:
        """A loop by hand."""

    def jdbc(self) -> dict[str, str] | None:
        """The connection of a JDBC sink; None where it has none."""
        return None

    def checkpoint(self) -> None:  # noqa: B027 - not all need it
        """Write what the server has in memory, so that no one pays for what came before."""

    def execute(self, statement: str) -> list[Any]:
        """Run a statement, and commit; its rows."""
        with closing(self.connect()) as session:
            cursor = session.cursor()
            cursor.execute(statement)
            found = list(cursor.fetchall()) if cursor.description else []
            session.commit()
            return found

    def create(self, table: str) -> None:
        """Make a table as a sink has it."""
        self.execute(f"CREATE TABLE {table} ({self.table_types})")

    def close(self) -> None:  # noqa: B027 - a file has none
        """End the server."""


class _InPostgres(BenchDatabase):
    name = "PostgreSQL"
    table_types = _POSTGRES

    def __init__(self, directory: Path) -> None:
        self._cluster = PostgresCluster({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})
        self._cluster.create()
        self._cluster.execute(f"CREATE ROLE {_ROLE} SUPERUSER LOGIN PASSWORD '{_ROLE}'")

    @property
    def _dsn(self) -> str:
        return self._cluster.tcp_dsn("postgres", _ROLE, _ROLE)

    def sink(self, table: str) -> Sink:
        return Postgres(self._dsn, table=table)

    def connect(self) -> Any:
        import psycopg2

        return psycopg2.connect(self._dsn)

    def loop(self, table: str) -> Loop:
        return _PostgresLoop(self.connect(), table)

    def jdbc(self) -> dict[str, str]:
        options = "stringtype=unspecified&reWriteBatchedInserts=true"
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._cluster.port}/postgres?{options}",
            "connection.username": _ROLE,
            "connection.password": _ROLE,
        }

    def checkpoint(self) -> None:
        self._cluster.execute("CHECKPOINT")

    def close(self) -> None:
        self._cluster.close()


class _InMariaDB(BenchDatabase):
    name = "MariaDB"
    table_types = _MARIADB

    def __init__(self, directory: Path) -> None:
        self._server = MariaDBTestServer(
            {
                "innodb-flush-log-at-trx-commit": "1",
                "innodb-flush-method": "fsync",
                "innodb-buffer-pool-size": "256M",
                "innodb-log-file-size": "1G",
                "character-set-server": "utf8mb4",
            }
        )
        self._server.create()
        self._server.execute(f"CREATE DATABASE {_ROLE}")
        self._server.execute(f"CREATE USER {_ROLE} IDENTIFIED BY '{_ROLE}'")
        self._server.execute(f"GRANT ALL ON {_ROLE}.* TO {_ROLE}")

    def sink(self, table: str) -> Sink:
        return MariaDB(self._server.dsn(_ROLE, _ROLE, _ROLE), table=table)

    def connect(self) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self._server.port,
            user=_ROLE,
            password=_ROLE,
            database=_ROLE,
            charset="utf8mb4",
            ssl_disabled=True,
            init_command="SET time_zone = '+00:00'",
        )

    def loop(self, table: str) -> Loop:
        return _MariaDBLoop(self.connect(), table)

    def jdbc(self) -> dict[str, str]:
        options = "connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true&useBulkStmts=true"
        return {
            "connection.url": f"jdbc:mariadb://127.0.0.1:{self._server.port}/{_ROLE}?{options}",
            "connection.username": _ROLE,
            "connection.password": _ROLE,
        }

    def close(self) -> None:
        self._server.close()


class _InSQLite(BenchDatabase):
    name = "SQLite"
    table_types = _SQLITE
    comparable = tuple(name for name in COLUMNS if name != "ordered")  # a text, of which the loop has another form

    def __init__(self, directory: Path) -> None:
        self._path = directory / "sinks.db"

    def sink(self, table: str) -> Sink:
        return SQLite(self._path, table=table)

    def connect(self) -> Any:
        session = sqlite3.connect(self._path)
        session.execute("PRAGMA journal_mode = WAL")
        session.execute("PRAGMA synchronous = FULL")
        return session

    def loop(self, table: str) -> Loop:
        return _SQLiteLoop(self.connect(), table)


DATABASES = {"postgres": _InPostgres, "mariadb": _InMariaDB, "sqlite": _InSQLite}
