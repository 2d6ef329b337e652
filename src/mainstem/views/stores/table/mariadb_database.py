"""MariaDB as the database of a sink's table, through PyMySQL.

A session reads names in double quotes and text without escapes, is strict about values, and has its times in UTC,
whatever the server's settings are.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from mainstem.errors import (
    ConfigError,
    DefinitionError,
    MainstemError,
    MissingDependencyError,
    StorageError,
    ViewStoppedError,
)
from mainstem.pipelines.kinds import MariaDB
from mainstem.views.stores.table.database import LOCK_TIMEOUT_S, STATEMENT_TIMEOUT_S, Database, Session
from mainstem.views.stores.table.mariadb_dialect import MariaDBDialect

try:
    import pymysql
    from pymysql.constants import CLIENT
    from pymysql.cursors import SSCursor
except ImportError:  # the extra is not installed: `MariaDBServer` raises the error
    pymysql = None

DSN_VARIABLE: Final = "MAINSTEM_MARIADB_DSN"
_CONNECT_S: Final = 10
_READ_S: Final = 2 * STATEMENT_TIMEOUT_S
_VERSION_MIN: Final = (10, 6)
"""The first one in which the exchange of two tables survives a crash."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.\d+-MariaDB")
_TLS: Final = frozenset({"ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity"})
_OPTIONS: Final = _TLS | {"unix_socket"}
_WRONG: Final = "the DSN of the database cannot be read: write it as mariadb://USER:PASSWORD@HOST:PORT/DATABASE"
_SETTINGS: Final = (
    "SET sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION', "
    "time_zone = '+00:00', innodb_lock_wait_timeout = {lock_s}, lock_wait_timeout = {lock_s}, "
    "max_statement_time = {statement_s}, tx_isolation = '{isolation}', tx_read_only = {read_only}"
)
_LATER: Final = frozenset(
    {
        *(0, 2002, 2003, 2006, 2013, 2014, 2026, 2055),  # the connection
        *(1020, 1205, 1213, 1412, 1613, 1637),  # locks, and rows or tables that another transaction has changed
        *(1021, 1040, 1041, 1045, 1049, 1053, 1114, 1129, 1130, 1158, 1159, 1160, 1161, 1203, 1290, 1836),  # the server
        *(1317, 1927, 1969),  # ended from outside, or after too long
        1452,  # the row of a foreign key may still come
    }
)
_PRIVILEGES: Final = frozenset({1044, 1142, 1143, 1227, 1370})
_CHANGED: Final = frozenset({1054, 1146, 1264, 1265, 1292, 1364, 1366, 1406, 1906})
"""A table or column that is not there, or that does not take the sink's values."""
_CONSTRAINTS: Final = frozenset({1048, 1062, 1451, 1557, 1586, 4025})


class MariaDBServer(Database):
    """A database of MariaDB, by its DSN."""

    dialect = MariaDBDialect()

    def __init__(self, kind: MariaDB) -> None:
        """Raises MissingDependencyError, DefinitionError for a missing DSN, ConfigError for one that cannot be read."""
        super().__init__()
        if pymysql is None:
            raise MissingDependencyError(
                "MariaDB needs PyMySQL, which is not installed: pip install 'mainstem[mariadb]'"
            )
        self.errors = (pymysql.err.MySQLError,)
        self._parameters = _parameters(_found(kind.dsn))
        self._tls: dict[str, Any] = {}
        self.address = "{host}:{port}/{database}".format_map(self._parameters)

    def open(self) -> Session:
        return self._open(
            {
                "lock_s": LOCK_TIMEOUT_S,
                "statement_s": STATEMENT_TIMEOUT_S,
                "isolation": "READ-COMMITTED",
                "read_only": 0,
            }
        )

    def open_reader(self) -> Session:
        # A verification reads the whole table.
        return self._open({"lock_s": LOCK_TIMEOUT_S, "statement_s": 0, "isolation": "REPEATABLE-READ", "read_only": 1})

    def begin(self, session: Session) -> None:
        """Nothing: the server begins a transaction with the first statement."""

    begin_snapshot = begin

    def walking(self, session: Session) -> Any:
        return session.cursor(SSCursor)

    def refusal(self, error: Any) -> str | None:
        """None: `MariaDBDialect` finds each value that the server would refuse."""
        return None

    def cancel(self, session: Session) -> None:
        # The request is another connection: a server that does not answer holds up a thread that nothing waits for.
        number = session.thread_id()

        def ask() -> None:
            with suppress(*self.errors), closing(pymysql.connect(**self._parameters, **self._tls)) as other:
                other.kill(number)

        threading.Thread(target=ask, name="sink-cancel", daemon=True).start()

    def ours(self, error: Any) -> MainstemError:
        code, said = _code(error), self._said(error)
        if code in _LATER:
            return self._later(said)
        if code in _PRIVILEGES:
            return ViewStoppedError(
                f"the database at {self.address} refused: {said}; the sink's user needs SELECT, INSERT, UPDATE, "
                "DELETE, CREATE, ALTER and DROP on the database"
            )
        if code in _CHANGED:
            return self._changed(said)
        if code == 1048:  # see `mariadb_dialect`: the key would be null
            said = "a row with another key has the same value in a unique index"
        return self._constraint(said) if code in _CONSTRAINTS else self._refused(said)

    def _open(self, settings: Mapping[str, Any]) -> Session:
        try:
            session = pymysql.connect(**self._parameters, **self._tls)
        except self.errors:
            self._tls = {}  # the server may have other certificates, or none, from now on
            raise
        if not self._parameters.keys() & _TLS:
            # The client would read the machine's certificates again for each connection, for 50 ms.
            has_tls = session.server_capabilities & CLIENT.SSL
            self._tls = {"ssl": session.ctx} if has_tls else {"ssl_disabled": True}
        try:
            self._check_version(session.get_server_info())
            with session.cursor() as cursor:
                cursor.execute(_SETTINGS.format_map(settings))
        except BaseException:
            session.close()
            raise
        return session

    def _check_version(self, version: str) -> None:
        found = _VERSION.search(version)
        if found is None or tuple(map(int, found.groups())) < _VERSION_MIN:
            wanted = ".".join(map(str, _VERSION_MIN))
            raise StorageError(f"the server at {self.address} is {version}: a sink needs MariaDB {wanted} or newer")

    def _said(self, error: Any) -> str:
        text = str(error.args[1] if len(error.args) > 1 else error) or type(error).__name__
        password = self._parameters["password"]
        line = " ".join(text.split())
        return line.replace(password, "…") if password else line


def _parameters(dsn: str) -> dict[str, Any]:
    """The parameters of a connection. Raises ConfigError, without the text, which may have a password."""
    try:
        url = urlsplit(dsn)
        port = url.port
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        raise ConfigError(_WRONG) from None
    database = unquote(url.path.removeprefix("/"))
    if url.scheme not in ("mariadb", "mysql") or not database:
        raise ConfigError(_WRONG)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ConfigError(f"the DSN has unknown options: {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")
    return {
        "host": url.hostname or "localhost",
        "port": port or 3306,
        "user": unquote(url.username or "") or None,
        "password": unquote(url.password or "") or os.environ.get("MYSQL_PWD", ""),
        "database": database,
        "charset": "utf8mb4",
        "collation": "utf8mb4_nopad_bin",
        "autocommit": False,
        "connect_timeout": _CONNECT_S,
        "read_timeout": _READ_S,
        "write_timeout": _READ_S,
        "client_flag": CLIENT.FOUND_ROWS,
        **{name: value == "true" if value in ("true", "false") else value for name, value in options.items()},
    }


def _code(error: Any) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _found(dsn: str | None) -> str:
    found = dsn if dsn is not None else os.environ.get(DSN_VARIABLE)
    if not found:
        raise DefinitionError(
            f"the DSN of the database is missing: give it to MariaDB(…), or set the environment variable {DSN_VARIABLE}"
        )
    return found
