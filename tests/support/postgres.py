"""A pytest plugin: PostgreSQL for any test, a private cluster in a temporary directory.

``postgres_cluster`` is one cluster for the session and starts with the first test that asks. ``postgres_database`` is
an empty database in it, for one test. A test that kills or restarts a cluster may do so with these: every call returns
when the cluster answers again.

A superuser without a password connects over the Unix socket (``dsn``); over loopback every user needs a password
(``tcp_dsn``). Logical decoding is on. ``fsync`` is off: tests kill processes, not the machine.

PostgreSQL refuses to run as root. Under root it runs as the system's user ``postgres``, or ``nobody``. It ends with the
process that started it, also when that is killed. So start it from the main thread: Linux sends the signal when the
starting thread ends.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.eventually import eventually
from tests.support.memory import directory_in_memory
from tests.support.ports import free_port

_START_S = 120
_STOP_S = 60
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "fsync": "off",
    "max_wal_size": "256MB",
    "timezone": "UTC",
    "log_statement": "none",
    "log_min_messages": "warning",
    "lc_messages": "C",
    "listen_addresses": "127.0.0.1",
}
_ACCESS = """
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
"""


class PostgresUnavailableError(RuntimeError):
    """PostgreSQL's server is not installed on this machine."""


def postgres_programs() -> Path:
    """The directory of PostgreSQL's programs, the newest version first.

    Raises:
        PostgresUnavailableError: when there is none.
    """
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda place: -float(place.parts[-3]))
    found = next((str(place) for place in places), None) or shutil.which("postgres")
    if found is None:
        raise PostgresUnavailableError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return Path(found).parent


def _system_user() -> pwd.struct_passwd | None:
    """The user to run as; None when this process is not root and runs it itself."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresUnavailableError("PostgreSQL cannot run as root, and there is neither a user postgres nor nobody")


@dataclass
class PostgresCluster:
    """One cluster. ``settings`` are added to those of every test's cluster."""

    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self._programs = postgres_programs()
        self._user = _system_user()
        self._process: subprocess.Popen[bytes] | None = None
        # Not below pytest's own directories: another user cannot enter these, and a socket's path is short.
        self.directory = Path(tempfile.mkdtemp(prefix="mainstem-pg-", dir=directory_in_memory()))
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)

    def create(self) -> None:
        """Make the cluster's files, and start it."""
        initdb = [self._programs / "initdb", "-D", self._data, "-U", "postgres", "-E", "UTF8"]
        options = ["--locale=C.UTF-8", "--auth=trust", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [*self._as_user(), *map(str, initdb), *options],
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        settings = {**_SETTINGS, **self.settings, "port": str(self.port), "unix_socket_directories": self.directory}
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write(lines)
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        server = [*self._as_user("--pdeathsig", "QUIT"), str(self._programs / "postgres"), "-D", str(self._data)]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(server, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers, f"PostgreSQL answers at {self.directory}", _START_S)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop the server and wait for its end. ``immediate`` leaves a crash behind, which the next start recovers."""
        if self._process is not None:
            self._process.send_signal(_SIGNALS[mode])
            self._process.wait(_STOP_S)
            self._process = None

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "immediate") -> None:
        """Stop the server and start it again at the same address."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove its files."""
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """The address over the Unix socket: every user comes in without a password."""
        return f"host={self.directory} port={self.port} dbname={database} user={user}"

    def tcp_dsn(self, database: str, user: str, password: str) -> str:
        """The address over loopback, as a URL; the server checks the password."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres", **options: Any) -> Any:
        """A psycopg2 connection of the superuser, which commits each statement by itself."""
        import psycopg2

        connection = psycopg2.connect(self.dsn(database), connect_timeout=10, **options)
        connection.autocommit = True
        return connection

    def execute(self, statement: Any, values: Any = None, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, in a connection of its own; the rows that it returns."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def drop_slot(self, slot: str) -> None:
        """Drop a replication slot that is about to be free."""
        self.until_free(slot)
        self.execute("SELECT pg_drop_replication_slot(%s)", (slot,))

    def until_free(self, slot: str) -> None:
        """Wait until the server has ended the walsender of a connection that is closed."""
        free = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        eventually(lambda: self.execute(free, (slot,)), f"no walsender has slot {slot}")

    @property
    def log_text(self) -> str:
        """What the server has logged."""
        return (self.directory / "server.log").read_text(errors="replace")

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _as_user(self, *options: str) -> list[str]:
        if self._user is None:
            return ["setpriv", *options, "--"] if options else []
        user = ["--reuid", str(self._user.pw_uid), "--regid", str(self._user.pw_gid), "--clear-groups"]
        return ["setpriv", *user, *options, "--"]

    def _answers(self) -> bool:
        import psycopg2

        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended at its start:\n{self.log_text[-4000:]}")
        try:
            psycopg2.connect(self.dsn(), connect_timeout=5).close()
        except psycopg2.OperationalError:
            return False
        return True


@dataclass(frozen=True)
class PostgresDatabase:
    """An empty database of a cluster, for one test."""

    cluster: PostgresCluster
    name: str

    @property
    def dsn(self) -> str:
        """Its address over the Unix socket, for the superuser."""
        return self.cluster.dsn(self.name)

    def execute(self, statement: Any, values: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, in a connection of its own; the rows that it returns."""
        return self.cluster.execute(statement, values, self.name)

    def connect(self, **options: Any) -> Any:
        """A psycopg2 connection of the superuser, which commits each statement by itself."""
        return self.cluster.connect(self.name, **options)

    def terminate_backends(self) -> int:
        """End every other connection to the database; how many there were."""
        ended = self.cluster.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.name,)
        )
        return len(ended)


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[PostgresCluster]:
    """One cluster for the session of tests."""
    try:
        cluster = PostgresCluster()
    except PostgresUnavailableError as error:
        pytest.skip(str(error))
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def postgres_database(postgres_cluster: PostgresCluster) -> Iterator[PostgresDatabase]:
    """An empty database in the session's cluster."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres_cluster.execute(f"CREATE DATABASE {name}")
    yield PostgresDatabase(postgres_cluster, name)
    slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s AND NOT active"
    started = time.monotonic()
    while True:  # a walsender that a test left behind ends within a moment
        postgres_cluster.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        postgres_cluster.execute(slots, (name,))
        try:
            postgres_cluster.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        except Exception:
            if time.monotonic() > started + _STOP_S:
                raise
