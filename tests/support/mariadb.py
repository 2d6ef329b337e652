"""A pytest plugin: MariaDB for any test, a private server in a temporary directory.

``mariadb_server`` is one server for the session and starts with the first test that asks. ``mariadb_database`` is an
empty database in it, for one test. A test that kills or restarts the server may do so with these: every call returns
when the server answers again.

``root`` connects without a password, over loopback (``dsn``). Under the system's root the server runs as ``mysql``, or
``nobody``. It ends with the process that started it, also when that is killed. So start it from the main thread: Linux
sends the signal when the starting thread ends. A commit is in the system's memory when it is answered: tests kill
processes, not the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.memory import directory_in_memory
from tests.support.ports import free_port

_START_S = 120
_STOP_S = 60
_SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "nosync",
    "performance-schema": "off",
    "skip-name-resolve": "on",
    "character-set-server": "latin1",
    "sql-mode": "",
    "default-time-zone": "+05:00",
}
"""Some of them other than a sink's session needs, so that its own settings are tested."""


class MariaDBUnavailableError(RuntimeError):
    """MariaDB's server is not installed on this machine."""


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MariaDBUnavailableError("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    return found


@dataclass
class MariaDBTestServer:
    """One server. ``settings`` are added to those of every test's server."""

    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self._mariadbd = _program("mariadbd")
        self._install = _program("mariadb-install-db")
        self._user = _system_user()
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="mainstem-maria-", dir=directory_in_memory()))
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)

    def create(self) -> None:
        """Make the server's files, and start it."""
        options = ["--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        command = [*self._as_user(), self._install, *options, "--skip-test-db", "--skip-name-resolve"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_S, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        places = {"datadir": self._data, "socket": self.directory / "s", "pid-file": self.directory / "pid"}
        settings = {**_SETTINGS, **self.settings, "port": self.port, **places}
        options = [f"--{name}={value}" for name, value in settings.items()]
        server = [*self._as_user("--pdeathsig", "KILL"), self._mariadbd, "--no-defaults", *options]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(server, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers, f"MariaDB answers at {self.directory}", _START_S)

    def stop(self) -> None:
        """Kill the server; the next start recovers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)
            self._process = None

    def restart(self) -> None:
        """Kill the server and start it again at the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its files."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str, user: str = "root", password: str = "") -> str:
        """The address over loopback."""
        return f"mariadb://{user}{':' if password else ''}{password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None) -> Any:
        """A connection of PyMySQL, which commits each statement by itself and reads ``"names"``."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,
            connect_timeout=10,
            init_command="SET sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,PIPES_AS_CONCAT', time_zone = '+00:00'",
        )

    def execute(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as root, in a connection of its own; the rows that it returns."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _as_user(self, *options: str) -> list[str]:
        if self._user is None:
            return ["setpriv", *options, "--"] if options else []
        user = ["--reuid", str(self._user.pw_uid), "--regid", str(self._user.pw_gid), "--clear-groups"]
        return ["setpriv", *user, *options, "--"]

    def _answers(self) -> bool:
        import pymysql

        assert self._process is not None
        if self._process.poll() is not None:
            text = (self.directory / "server.log").read_text(errors="replace")
            raise AssertionError(f"MariaDB ended at its start:\n{text[-4000:]}")
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True


def _system_user() -> pwd.struct_passwd | None:
    """The user to run as; None when this process is not root and runs it itself."""
    if os.geteuid() != 0:
        return None
    for name in ("mysql", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise MariaDBUnavailableError("MariaDB should not run as root, and there is neither a user mysql nor nobody")


@dataclass(frozen=True)
class MariaDBDatabase:
    """An empty database of a server, for one test."""

    server: MariaDBTestServer
    name: str

    @property
    def dsn(self) -> str:
        """Its address, for root."""
        return self.server.dsn(self.name)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as root, in a connection of its own; the rows that it returns."""
        return self.server.execute(statement, self.name)

    def connect(self) -> Any:
        """A connection of PyMySQL, which commits each statement by itself."""
        return self.server.connect(self.name)

    def kill_connections(self) -> None:
        """End every other connection to the database."""
        import pymysql

        query = f"SELECT id FROM information_schema.processlist WHERE db = '{self.name}' AND id <> connection_id()"
        for (number,) in self.execute(query):
            with suppress(pymysql.err.MySQLError):  # it has ended by itself
                self.server.execute(f"KILL {number}")


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBTestServer]:
    """One server for the session of tests."""
    try:
        server = MariaDBTestServer()
    except MariaDBUnavailableError as error:
        pytest.skip(str(error))
    try:
        server.create()
        yield server
    finally:
        server.close()


@pytest.fixture
def mariadb_database(mariadb_server: MariaDBTestServer) -> Iterator[MariaDBDatabase]:
    """An empty database in the session's server."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    mariadb_server.execute(f"CREATE DATABASE {name}")
    yield MariaDBDatabase(mariadb_server, name)
    mariadb_server.execute(f"DROP DATABASE IF EXISTS {name}")
