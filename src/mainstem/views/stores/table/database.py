"""The connections to one database that holds a sink's table, and its errors as ours: one line each, without a password.

* *It may work later* (the server is away or starts, a lock or a statement took too long, the connection broke, a
  deadlock, no room, a wrong password): StoreUnavailableError. The view waits and repeats.
* *It will not work by itself* (a missing privilege, a constraint of the user's, a table that is gone): StorageError,
  which stops the view.

Each product has a ``Database`` and a ``Dialect`` (`views.stores.table.dialect`). Its driver is loaded with its module,
where it is installed; a store without it raises MissingDependencyError. Functions are safe from any thread; a
connection is one thread's at a time.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from mainstem.errors import MainstemError, StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SINKS_TABLE
from mainstem.views.stores.store import StoreUnavailableError
from mainstem.views.stores.table.dialect import Dialect
from mainstem.views.stores.table.statements import Cursor

T = TypeVar("T")
LOCK_TIMEOUT_S: Final = 10
STATEMENT_TIMEOUT_S: Final = 300
Session: TypeAlias = Any
"""A connection of the product's driver, as Python's database API describes it."""
_IDLE_MAX: Final = 2


class Database(ABC):
    """The database that a sink's kind names. Thread-safe."""

    dialect: ClassVar[Dialect]
    placeholder: ClassVar[str] = "%s"
    errors: tuple[type[Exception], ...]
    """The errors that the driver raises."""
    address: str
    """Where it is, without the user and the password."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Session] = []

    # ---- by product

    @abstractmethod
    def open(self) -> Session:
        """A new connection with the settings that a sink needs. Raises the driver's errors, StorageError."""

    @abstractmethod
    def ours(self, error: Any) -> MainstemError:
        """An error of the driver as ours."""

    @abstractmethod
    def refusal(self, error: Any) -> str | None:
        """The database's words, where it refused a value and would refuse it at each repeat; None for other errors."""

    @abstractmethod
    def cancel(self, session: Session) -> None:
        """End the statement of a connection that another thread uses. Returns at once."""

    @abstractmethod
    def begin(self, session: Session) -> None:
        """Begin a transaction that writes."""

    # For most, a reader's connection is as a writer's.
    def open_reader(self) -> Session:
        """A new connection for transactions that read, for as long as a verification takes."""
        return self.open()

    @abstractmethod
    def begin_snapshot(self, session: Session) -> None:
        """Begin a transaction that sees one state from its first statement on, and writes nothing."""

    @abstractmethod
    def walking(self, session: Session) -> Any:
        """A cursor that does not hold all rows of its answer at once."""

    # ---- for all

    def connect(self) -> Session:
        """A new connection. Raises StoreUnavailableError, StorageError."""
        with self.translated():
            return self.open()

    @contextmanager
    def writing(self, session: Session) -> Iterator[Cursor]:
        """A transaction of a connection, committed at the end. After an error the caller closes the connection."""
        with self.translated():
            self.begin(session)
            raw = session.cursor()
            try:
                yield Cursor(raw, self.placeholder)
                session.commit()
            finally:
                raw.close()

    def cursor(self, raw: Any) -> Cursor:
        """A driver's cursor as ours."""
        return Cursor(raw, self.placeholder)

    def begin_reading(self, read: Callable[[Cursor], T]) -> tuple[Session, T]:
        """A connection whose transaction sees one state of the database, and what ``read`` reads of it first.

        It is the caller's until ``give_back``. Raises StoreUnavailableError, and as ``read`` does.
        """
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            session = idle or self._reader()
            try:
                with self.translated():
                    self.begin_snapshot(session)
                    return session, read(self.cursor(session.cursor()))
            except StoreUnavailableError:
                self.close_session(session)
                if idle is None:
                    raise  # a connection that was idle may have been broken for long: the next one is tried
            except BaseException:
                self.close_session(session)
                raise

    def _reader(self) -> Session:
        with self.translated():
            return self.open_reader()

    def give_back(self, session: Session) -> None:
        """End the reader's transaction, and keep the connection for the next one."""
        try:
            session.rollback()
        except self.errors:
            self.close_session(session)
            return
        with self._lock:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append(session)
                return
        self.close_session(session)

    def close(self) -> None:
        """Close what readers left open."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            self.close_session(session)

    def close_session(self, session: Session) -> None:
        """Close a connection, whatever state it is in."""
        try:
            session.close()
        except self.errors:
            return  # it was broken: the server has forgotten it, or will

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the database's errors as ours."""
        try:
            yield
        except self.errors as error:
            raise self.ours(error) from None  # its text may be long, and repeat what the DSN says

    # ---- errors, for the products

    def _later(self, said: str) -> MainstemError:
        return StoreUnavailableError(f"for the database at {self.address}: {said}")

    def _changed(self, said: str) -> MainstemError:
        return ViewStoppedError(
            f"the database at {self.address} refused: {said}; the sink's table or {SINKS_TABLE} was changed by "
            "another program: rebuild the sink"
        )

    def _constraint(self, said: str) -> MainstemError:
        return StorageError(
            f"the database at {self.address} refused rows: {said}; take the constraint away, or correct the topic"
        )

    def _refused(self, said: str) -> MainstemError:
        return StorageError(f"the database at {self.address} refused: {said}")
