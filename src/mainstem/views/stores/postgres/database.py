"""Connections to PostgreSQL, and its errors as ours: one line each, without the password.

* *It may work later* (the server is away or starts, a lock or a statement took too long, the connection broke, a
  deadlock, no room, a wrong password): StoreUnavailableError. The view waits and repeats.
* *It will not work by itself* (a missing privilege, a constraint of the user's, a table that is gone): StorageError,
  which stops the view.

A session reads and writes times in UTC and ISO 8601, whatever the server's settings are. psycopg2 is loaded with this
module where it is installed; a store without it raises MissingDependencyError. Functions are safe from any thread; a
connection is one thread's at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

from mainstem.errors import DefinitionError, MainstemError, StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SINKS_TABLE
from mainstem.postgres_dsn import PostgresDsn
from mainstem.views.stores.store import StoreUnavailableError

try:
    import psycopg2
    from psycopg2 import extensions, sql
except ImportError:  # the extra is not installed: `PostgresDsn` raises the error
    psycopg2 = None

T = TypeVar("T")
DSN_VARIABLE: Final = "MAINSTEM_POSTGRES_DSN"
Session: TypeAlias = Any
"""A connection of psycopg2."""
_VERSION_MIN: Final = 12
LOCK_TIMEOUT_MS: Final = 10_000
STATEMENT_TIMEOUT_MS: Final = 300_000
_SETTINGS: Final = (
    "SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 1; SET standard_conforming_strings = on; "
    "SET synchronous_commit = on; "
    f"SET lock_timeout = {LOCK_TIMEOUT_MS}; SET statement_timeout = {STATEMENT_TIMEOUT_MS}; "
    "SET idle_in_transaction_session_timeout = 600000"
)
_LATER: Final = frozenset({"23503", "25006", "25P03", "40001", "40P01", "55006", "55P03", "57014"})
"""SQLSTATEs of what may work later, beside the classes below. 23503: the row of a foreign key may still come."""
_LATER_CLASSES: Final = frozenset({"08", "28", "3D", "53", "57", "58"})
_CHANGED: Final = frozenset({"42P01", "42703", "42P10", "42804", "428C9", "22001", "0A000"})
"""A table or column that is not there, no unique key, other types, a generated column, a text that is too long."""
_DATES: Final = (1082, 1114, 1184)
_IDLE_MAX: Final = 2


class Database:
    """The database that one DSN names. Thread-safe."""

    def __init__(self, dsn: str | None) -> None:
        """Raises MissingDependencyError, DefinitionError for a missing DSN, ConfigError for one that cannot be read."""
        self._dsn = PostgresDsn(_found(dsn))
        self.address = self._dsn.address
        """Where it is, without the user and the password."""
        self._lock = threading.Lock()
        self._idle: list[Session] = []

    def connect(self) -> Session:
        """A new connection, which begins a transaction with its first statement. Raises StoreUnavailableError."""
        with self.translated():
            session = self._dsn.connect()
            try:
                self._check_version(session.server_version)
                with session.cursor() as cursor:
                    cursor.execute(_SETTINGS)
                session.commit()
            except BaseException:
                session.close()
                raise
            _read_any_date(session)
            return session

    def begin_reading(self, read: Callable[[Any], T]) -> tuple[Session, T]:
        """A connection whose transaction sees one state of the database, and what ``read`` reads of it first.

        It is the caller's until ``give_back``. Raises StoreUnavailableError, and as ``read`` does.
        """
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            session = idle or self._reader()
            try:
                with self.translated(), session.cursor() as cursor:
                    return session, read(cursor)
            except StoreUnavailableError:
                close(session)
                if idle is None:
                    raise  # a connection that was idle may have been broken for long: the next one is tried
            except BaseException:
                close(session)
                raise

    def _reader(self) -> Session:
        session = self.connect()
        with self.translated():
            with session.cursor() as cursor:
                # A verification takes its state first, and then replays the topic.
                cursor.execute("SET idle_in_transaction_session_timeout = 0")
            session.commit()
            session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        return session

    def give_back(self, session: Session) -> None:
        """End the reader's transaction, and keep the connection for the next one."""
        try:
            session.rollback()
        except psycopg2.Error:
            close(session)
        with self._lock:
            if not session.closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(session)
                return
        close(session)

    def close(self) -> None:
        """Close what readers left open."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            close(session)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the database's errors as ours."""
        try:
            yield
        except psycopg2.Error as error:
            raise self._ours(error) from None  # its text may be long, and repeat what the DSN says

    def _ours(self, error: Any) -> MainstemError:
        code = error.pgcode or ""
        said = self._dsn.line(error)
        is_broken = not code and not isinstance(error, psycopg2.ProgrammingError)
        if is_broken or code in _LATER or code[:2] in _LATER_CLASSES:
            return StoreUnavailableError(f"for the database at {self.address}: {said}")
        if code == "42501":
            return ViewStoppedError(
                f"the database at {self.address} refused: {said}; the sink's user needs CREATE and USAGE on the "
                "schema, TEMPORARY on the database, and to own the table"
            )
        if code in _CHANGED:
            return ViewStoppedError(
                f"the database at {self.address} refused: {said}; the sink's table or {SINKS_TABLE} was changed by "
                "another program: rebuild the sink"
            )
        if code[:2] == "23":
            return StorageError(
                f"the database at {self.address} refused rows: {said}; take the constraint away, or correct the topic"
            )
        return StorageError(f"the database at {self.address} refused: {said}")

    def _check_version(self, number: int) -> None:
        if number < _VERSION_MIN * 10_000:
            raise StorageError(
                f"the server at {self.address} is PostgreSQL {number // 10_000}: a sink needs {_VERSION_MIN} or newer"
            )


def run(cursor: Any, statement: str, *parts: Any) -> None:
    """Execute a statement; each ``{}`` in it is a part: SQL that was composed already, or a value.

    Values are quoted here: as parameters they would give ``%`` in the names of tables and columns a meaning.
    """
    composed = [part if isinstance(part, sql.Composable) else sql.Literal(part) for part in parts]
    cursor.execute(sql.SQL(statement).format(*composed))


def is_data_error(error: Any) -> bool:
    """Whether the database refused a value, as it does at each repeat."""
    return (error.pgcode or "")[:2] == "22" or error.pgcode in ("54000", "54001")


def cancel(session: Session) -> None:
    """Ask the server to end the statement of a connection that another thread uses. Returns at once.

    The request is a connection of its own: a server that does not answer holds up a thread that nothing waits for.
    """

    def ask() -> None:
        with suppress(psycopg2.Error):
            session.cancel()

    threading.Thread(target=ask, name="sink-cancel", daemon=True).start()


def close(session: Session) -> None:
    """Close a connection, whatever state it is in."""
    with suppress(psycopg2.Error):
        session.close()


def _found(dsn: str | None) -> str:
    found = dsn if dsn is not None else os.environ.get(DSN_VARIABLE)
    if not found:
        raise DefinitionError(
            "the DSN of the database is missing: give it to Postgres(…), or set the environment variable "
            f"{DSN_VARIABLE}"
        )
    return found


def _read_any_date(session: Session) -> None:
    """Read dates and times that Python lacks (infinity, BC) as their text."""
    for number in _DATES:
        known = extensions.string_types[number]
        reader = extensions.new_type((number,), f"MAINSTEM_{number}", _or_text(known))
        extensions.register_type(reader, session)


def _or_text(known: Callable[[str | None, Any], Any]) -> Callable[[str | None, Any], Any]:
    def read(text: str | None, cursor: Any) -> Any:
        try:
            return known(text, cursor)
        except (ValueError, OverflowError, psycopg2.Error):
            return text

    return read
