"""A capture that runs in this process, and what its topics hold."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.capture import Capture, CaptureCounts
from mainstem.postgres.captured_state import read_state
from mainstem.postgres.connector import Connector
from tests.support.eventually import eventually
from tests.support.postgres import PostgresDatabase

TIMEOUT_S = 60


class RunningCapture:
    """One run of a capture, in a thread."""

    def __init__(self, log: Log, settings: CaptureSettings, *, again: bool = False) -> None:
        self.log = log
        self.settings = settings
        self.counts = CaptureCounts()
        self.notes: list[str] = []
        self.error: BaseException | None = None
        self.ready = threading.Event()
        self._again = again
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        capture = Capture(self.settings, self.log, self.counts, self.notes.append)
        try:
            capture.run(self._stopping, again=self._again, on_ready=self.ready.set)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self) -> RunningCapture:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            return  # another capture may have the slot
        with closing(psycopg2.connect(self.settings.dsn)) as connection, connection.cursor() as cursor:
            eventually(lambda: self._is_let_go(cursor), "the server has let go of the slot", TIMEOUT_S)

    def _is_let_go(self, cursor: Any) -> bool:
        """Whether the next capture may have the slot: the server's own process ends after the connection."""
        cursor.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", (self.settings.slot,))
        return cursor.fetchone() is None

    def covers(self, lsn: int) -> bool:
        """Whether all before ``lsn`` is in the log, and each snapshot is done."""
        if self.error is not None:
            raise self.error
        return self.counts.lsn >= lsn and all(table.is_done for table in self.counts.tables.values())

    def caught_up(self, database: PostgresDatabase) -> None:
        """Wait until it has everything that the database has committed now."""
        lsn = current_lsn(database)
        eventually(lambda: self.covers(lsn), "the capture has caught up", TIMEOUT_S)

    def failed(self) -> BaseException:
        """Wait until it fails."""
        eventually(lambda: self.error is not None, "the capture fails", TIMEOUT_S)
        assert self.error is not None
        return self.error


class Shop:
    """A database, a log, and captures of the one into the other."""

    def __init__(self, log: Log, database: PostgresDatabase, name: str) -> None:
        self.log = log
        self.database = database
        self.name = name

    def execute(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        return self.database.execute(statement, values)

    def settings(self, *tables: str, **options: Any) -> CaptureSettings:
        return CaptureSettings.of(self.name, self.database.dsn, tables or ("orders",), **options)

    def capture(self, *tables: str, again: bool = False, **options: Any) -> RunningCapture:
        return RunningCapture(self.log, self.settings(*tables, **options), again=again)

    def capture_changes(self, *statements: str, tables: tuple[str, ...] = ()) -> RunningCapture:
        """Run one capture: all that is there, and then these statements."""
        with self.capture(*tables) as capture:
            capture.caught_up(self.database)
            for statement in statements:
                self.execute(statement)
            capture.caught_up(self.database)
        return capture

    def records(self, table: str = "orders") -> list[tuple[str, Any]]:
        """Keys and values of a table's topic, in order."""
        found = self.log.read(f"{self.name}.{table}")
        return [((each.key or b"").decode(), None if each.value is None else json.loads(each.value)) for each in found]

    def fold(self, table: str = "orders") -> dict[str, Any]:
        """The latest value of each key of a table's topic."""
        latest = dict(self.records(table))
        return {key: value for key, value in latest.items() if value is not None}

    def rows(self, table: str = "orders", key: str = "id") -> dict[str, Any]:
        """The table, each row as PostgreSQL's own JSON, by its key."""
        return {str(row[0]): row[1] for row in self.execute(f"SELECT {key}::text, to_jsonb(t) FROM {table} t")}

    def position(self) -> Position:
        return read_state(self.log, self.name).sink


class RunningConnector:
    """A connector, in a thread: captures again and again, and publishes its state."""

    def __init__(self, shop: Shop, settings: CaptureSettings | None = None) -> None:
        self.notes: list[str] = []
        self.error: BaseException | None = None
        self.is_ready = threading.Event()
        self._connector = Connector(settings or shop.settings(), shop.log, self.notes.append, app="test")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._connector.run(self.is_ready.set)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self) -> RunningConnector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connector.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


def current_lsn(database: PostgresDatabase) -> int:
    from mainstem.model import parse_lsn

    return parse_lsn(database.execute("SELECT pg_current_wal_lsn()::text")[0][0])


@pytest.fixture
def shop(mainstem_log: Log, postgres_database: PostgresDatabase) -> Shop:
    return Shop(mainstem_log, postgres_database, "s" + postgres_database.name.replace("_", "-"))
