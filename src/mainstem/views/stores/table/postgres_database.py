"""PostgreSQL as the database of a sink's table.

A session reads and writes times in UTC and ISO 8601, whatever the server's settings are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from mainstem.errors import DefinitionError, MainstemError, StorageError, ViewStoppedError
from mainstem.pipelines.kinds import Postgres
from mainstem.postgres_dsn import PostgresDsn
from mainstem.views.stores.table.database import LOCK_TIMEOUT_S, STATEMENT_TIMEOUT_S, Database, Session
from mainstem.views.stores.table.postgres_dialect import PostgresDialect

try:
    import psycopg2
    from psycopg2 import extensions
except ImportError:  # the extra is not installed: `PostgresDsn` raises the error
    psycopg2 = None

DSN_VARIABLE: Final = "MAINSTEM_POSTGRES_DSN"
_VERSION_MIN: Final = 12
_SETTINGS: Final = (
    "SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 1; SET standard_conforming_strings = on; "
    "SET synchronous_commit = on; "
    f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'; SET statement_timeout = '{STATEMENT_TIMEOUT_S}s'; "
    "SET idle_in_transaction_session_timeout = 600000"
)
_LATER: Final = frozenset({"23503", "25006", "25P03", "40001", "40P01", "55006", "55P03", "57014"})
"""SQLSTATEs of what may work later, beside the classes below. 23503: the row of a foreign key may still come."""
_LATER_CLASSES: Final = frozenset({"08", "28", "3D", "53", "57", "58"})
_CHANGED: Final = frozenset({"42P01", "42703", "42P10", "42804", "428C9", "22001", "0A000"})
"""A table or column that is not there, no unique key, other types, a generated column, a text that is too long."""
_DATES: Final = (1082, 1114, 1184)


class PostgresServer(Database):
    """A database of PostgreSQL, by its DSN."""

    dialect = PostgresDialect()

    def __init__(self, kind: Postgres) -> None:
        """Raises MissingDependencyError, DefinitionError for a missing DSN, ConfigError for one that cannot be read."""
        super().__init__()
        self._dsn = PostgresDsn(_found(kind.dsn))
        self.address = self._dsn.address
        self.errors = (psycopg2.Error,)

    def open(self) -> Session:
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

    def open_reader(self) -> Session:
        session = self.open()
        with session.cursor() as cursor:
            # A verification takes its state first, and then replays the topic.
            cursor.execute("SET idle_in_transaction_session_timeout = 0")
        session.commit()
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        return session

    def begin(self, session: Session) -> None:
        """Nothing: psycopg2 begins a transaction with its first statement."""

    begin_snapshot = begin

    def walking(self, session: Session) -> Any:
        return session.cursor(name="walk")

    def refusal(self, error: Any) -> str | None:
        code = error.pgcode or ""
        return error.diag.message_primary if code[:2] == "22" or code in ("54000", "54001") else None

    def cancel(self, session: Session) -> None:
        # The request is another connection: a server that does not answer holds up a thread that nothing waits for.
        def ask() -> None:
            with suppress(psycopg2.Error):
                session.cancel()

        threading.Thread(target=ask, name="sink-cancel", daemon=True).start()

    def ours(self, error: Any) -> MainstemError:
        code = error.pgcode or ""
        said = self._dsn.line(error)
        is_broken = not code and not isinstance(error, psycopg2.ProgrammingError)
        if is_broken or code in _LATER or code[:2] in _LATER_CLASSES:
            return self._later(said)
        if code == "42501":
            return ViewStoppedError(
                f"the database at {self.address} refused: {said}; the sink's user needs CREATE and USAGE on the "
                "schema, TEMPORARY on the database, and to own the table"
            )
        if code in _CHANGED:
            return self._changed(said)
        return self._constraint(said) if code[:2] == "23" else self._refused(said)

    def _check_version(self, number: int) -> None:
        if number < _VERSION_MIN * 10_000:
            raise StorageError(
                f"the server at {self.address} is PostgreSQL {number // 10_000}: a sink needs {_VERSION_MIN} or newer"
            )


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
