"""A file of SQLite as the database of a sink's table, through Python's own module.

The file is in WAL mode: readers see one state, and do not wait. Writers take turns; one waits at most two seconds
for another, and then the view repeats. A commit is on the disk when it returns (``synchronous=FULL``). SQLite's foreign
keys are not checked, as in every connection that does not ask for it. A transaction goes on only while the path still
names the file that was opened: SQLite would write to a file that was replaced or removed, for as long as it is open.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mainstem.errors import MainstemError, StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SQLite
from mainstem.views.stores.table.database import Database, Session
from mainstem.views.stores.table.sqlite_dialect import SQLiteDialect

_BUSY_S: Final = 2.0
_VERSION_MIN: Final = (3, 25, 0)
"""The first one with ``ON CONFLICT DO UPDATE`` and ``legacy_alter_table``."""
_LATER: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended error codes have the primary one in their lowest byte."""


class _Connection(sqlite3.Connection):
    """A connection that knows which file it has opened."""

    file: tuple[int, int] | None = None


class SQLiteFile(Database):
    """A file of SQLite."""

    dialect = SQLiteDialect()
    placeholder = "?"
    errors = (sqlite3.Error,)

    def __init__(self, kind: SQLite) -> None:
        """Raises StorageError where Python's SQLite is too old."""
        super().__init__()
        self.address = str(Path(kind.path).resolve())
        if sqlite3.sqlite_version_info < _VERSION_MIN:
            wanted = ".".join(map(str, _VERSION_MIN))
            raise StorageError(f"Python's SQLite is {sqlite3.sqlite_version}: a sink needs {wanted} or newer")

    def open(self) -> Session:
        session = sqlite3.connect(
            self.address, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, factory=_Connection
        )
        try:
            [[mode]] = session.execute("PRAGMA journal_mode=WAL")
            if mode != "wal":
                raise StorageError(f"the file {self.address} cannot be in WAL mode: put it on a local file system")
            session.execute("PRAGMA synchronous=FULL")
            # A view or a trigger names the table; it goes on with the one that takes its place.
            session.execute("PRAGMA legacy_alter_table=ON")
            session.file = self._file()
        except BaseException:
            session.close()
            raise
        return session

    def begin(self, session: Session) -> None:
        self._begin(session, "BEGIN IMMEDIATE")

    def begin_snapshot(self, session: Session) -> None:
        self._begin(session, "BEGIN")

    def walking(self, session: Session) -> Any:
        return session.cursor()

    def refusal(self, error: Any) -> str | None:
        """None: a column of SQLite holds any value, but for the constraints of the user's."""
        return None

    def cancel(self, session: Session) -> None:
        with suppress(sqlite3.ProgrammingError):  # the applier has closed it meanwhile
            session.interrupt()

    def ours(self, error: Any) -> MainstemError:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        said = str(error)
        if code in _LATER:
            return self._later(said)
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return ViewStoppedError(
                f"the database at {self.address} refused: {said}; the view host must be able to write the file and "
                "its directory"
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return StorageError(f"the file {self.address} cannot be read: {said}; name another file")
        if code == sqlite3.SQLITE_CONSTRAINT:
            return self._constraint(said)
        return self._changed(said) if code == sqlite3.SQLITE_ERROR else self._refused(said)

    def _begin(self, session: Session, statement: str) -> None:
        session.execute(statement)
        if self._file() != session.file:
            raise ViewStoppedError(
                f"the file {self.address} was replaced or removed while the sink had it open: stop the view host, "
                "remove its files -wal and -shm unless they came with the new file, and start it again"
            )

    def _file(self) -> tuple[int, int] | None:
        """The device and the number of the file at the path; None while there is none."""
        try:
            found = Path(self.address).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
