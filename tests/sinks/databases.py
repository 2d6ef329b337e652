"""The databases that a sink writes to, each behind the same few calls, so that a test of the contract runs on all."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainstem.pipelines.kinds import MariaDB, Postgres, SinkKind, SQLite
from mainstem.views.stores.table import mariadb_database, postgres_database
from tests.support.mariadb import MariaDBDatabase
from tests.support.memory import directory_in_memory
from tests.support.postgres import PostgresDatabase

_PATH_VARIABLE = "MAINSTEM_TEST_SQLITE"


class SinkDatabase(ABC):
    """An empty database for one test."""

    name: str
    """The kind of its sinks."""
    columns: str
    """The columns of a table that a user makes for the tests' topic."""

    @abstractmethod
    def sink(self, table: str = "orders") -> SinkKind:
        """A sink in it."""

    @abstractmethod
    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; its rows."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of its tables, sorted."""

    @abstractmethod
    def has_index(self, table: str, column: str) -> bool:
        """Whether a table has an index of a column alone."""

    @abstractmethod
    def column_type(self, table: str, column: str) -> str:
        """The type of a column, in the database's words."""

    @property
    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """The variables by which ``sink_from_environment`` finds it in another process."""

    def end_connections(self) -> None:  # noqa: B027  # a file has none
        """End all connections to it."""

    def crash(self) -> None:  # noqa: B027  # a file has none
        """End its server as a crash does, and start it again."""


class InPostgres(SinkDatabase):
    """A database of PostgreSQL."""

    name = "postgres"
    columns = "id bigint PRIMARY KEY, name text, price numeric(10,2)"

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def sink(self, table: str = "orders") -> SinkKind:
        return Postgres(self._database.dsn, table=table)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return self._database.execute(statement)

    def tables(self) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return [name for (name,) in self.execute(query)]

    def has_index(self, table: str, column: str) -> bool:
        query = f"SELECT count(*) FROM pg_indexes WHERE tablename = '{table}' AND indexdef LIKE '%({column})'"
        return self.execute(query) == [(1,)]

    def column_type(self, table: str, column: str) -> str:
        query = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname"
        [[kind]] = self.execute(f"{query} = '{column}' AND attrelid = '{table}'::regclass")
        return str(kind)

    @property
    def environment(self) -> Mapping[str, str]:
        return {postgres_database.DSN_VARIABLE: self._database.dsn}

    def end_connections(self) -> None:
        self._database.terminate_backends()

    def crash(self) -> None:
        self._database.cluster.restart("immediate")


class InMariaDB(SinkDatabase):
    """A database of MariaDB."""

    name = "mariadb"
    columns = "id bigint PRIMARY KEY, name longtext CHARACTER SET utf8mb4, price decimal(10,2)"

    def __init__(self, database: MariaDBDatabase) -> None:
        self._database = database

    def sink(self, table: str = "orders") -> SinkKind:
        return MariaDB(self._database.dsn, table=table)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return self._database.execute(statement)

    def tables(self) -> list[str]:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY 1"
        return [name for (name,) in self.execute(query)]

    def has_index(self, table: str, column: str) -> bool:
        return len(self.execute(f"SHOW INDEX FROM {table} WHERE column_name = '{column}'")) == 1

    def column_type(self, table: str, column: str) -> str:
        query = "SELECT column_type FROM information_schema.columns"
        [[kind]] = self.execute(
            f"{query} WHERE table_name = '{table}' AND column_name = '{column}' AND table_schema = database()"
        )
        return str(kind)

    @property
    def environment(self) -> Mapping[str, str]:
        return {mariadb_database.DSN_VARIABLE: self._database.dsn}

    def end_connections(self) -> None:
        self._database.kill_connections()

    def crash(self) -> None:
        self._database.server.restart()


class InSQLite(SinkDatabase):
    """A file of SQLite."""

    name = "sqlite"
    columns = "id BIGINT PRIMARY KEY, name VARCHAR(20), price text"

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self, table: str = "orders") -> SinkKind:
        return SQLite(self.path, table=table)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def tables(self) -> list[str]:
        return [name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]

    def has_index(self, table: str, column: str) -> bool:
        query = f"SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = '{table}'"
        return self.execute(f"{query} AND sql LIKE '%({column})'") == [(1,)]

    def column_type(self, table: str, column: str) -> str:
        [[kind]] = self.execute(f"SELECT type FROM pragma_table_info('{table}') WHERE name = '{column}'")
        return str(kind)

    @property
    def environment(self) -> Mapping[str, str]:
        return {_PATH_VARIABLE: str(self.path)}


def sink_from_environment(table: str = "orders") -> SinkKind:
    """The sink in the database whose variables are set."""
    if postgres_database.DSN_VARIABLE in os.environ:
        return Postgres(table=table)
    if mariadb_database.DSN_VARIABLE in os.environ:
        return MariaDB(table=table)
    return SQLite(os.environ[_PATH_VARIABLE], table=table)


def database_of(name: str, request: pytest.FixtureRequest, directory: Path) -> SinkDatabase:
    """An empty database of that kind, for one test."""
    if name == InPostgres.name:
        return InPostgres(request.getfixturevalue("postgres_database"))
    if name == InMariaDB.name:
        return InMariaDB(request.getfixturevalue("mariadb_database"))
    place = Path(tempfile.mkdtemp(prefix="mainstem-sink-", dir=directory_in_memory() or directory))
    request.addfinalizer(lambda: shutil.rmtree(place))
    return InSQLite(place / "sink.db")
