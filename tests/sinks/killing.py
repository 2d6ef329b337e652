"""A process that ends itself by SIGKILL just before one of its calls to a database."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import psycopg2
import psycopg2.extensions
import pymysql


def run_killed(work: Callable[[], None], before_call: int) -> bool:
    """Do ``work`` in a child that is killed before that call, counted from 1; whether it came to the call."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _kill_before(before_call)
            work()
            status = 0
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    if os.WIFSIGNALED(waited):
        assert os.WTERMSIG(waited) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(waited) == 0, "the child failed"
    return False


def _kill_before(call: int) -> None:
    """Let this process end before its ``call``-th statement, COPY or commit."""
    left = call

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _count_in_postgres(count)
    _count_in_mariadb(count)
    _count_in_sqlite(count)


def _count_in_postgres(count: Callable[[], None]) -> None:
    class Cursor(psycopg2.extensions.cursor):
        def execute(self, query: Any, arguments: Any = None) -> None:
            count()
            super().execute(query, arguments)

        def copy_expert(self, *arguments: Any) -> None:
            count()
            super().copy_expert(*arguments)

    class Connection(psycopg2.extensions.connection):
        def commit(self) -> None:
            count()
            super().commit()

    connect = psycopg2.connect
    psycopg2.connect = lambda dsn, **options: connect(
        dsn, connection_factory=Connection, cursor_factory=Cursor, **options
    )


def _count_in_mariadb(count: Callable[[], None]) -> None:
    query, commit = pymysql.connections.Connection.query, pymysql.connections.Connection.commit

    def counted_query(self: Any, *arguments: Any, **options: Any) -> Any:
        count()
        return query(self, *arguments, **options)

    def counted_commit(self: Any) -> None:
        count()
        commit(self)

    pymysql.connections.Connection.query = counted_query
    pymysql.connections.Connection.commit = counted_commit


def _count_in_sqlite(count: Callable[[], None]) -> None:
    class Cursor(sqlite3.Cursor):
        def execute(self, statement: str, values: Any = ()) -> Any:
            count()
            return super().execute(statement, values)

        def executemany(self, statement: str, rows: Iterable[Any]) -> Any:
            def counted() -> Any:
                for row in rows:
                    count()
                    yield row

            return super().executemany(statement, counted())

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def commit(self) -> None:
            count()
            super().commit()

    connect = sqlite3.connect

    def counted_connect(path: Any, factory: type[sqlite3.Connection], **options: Any) -> sqlite3.Connection:
        return connect(path, factory=type("Counted", (Connection, factory), {}), **options)

    sqlite3.connect = counted_connect  # type: ignore[assignment]
