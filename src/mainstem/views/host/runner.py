"""The thread of one view: open the current version, step it until it is stopped, swap it for a successor.

A permanent error stops the view, and its state says why. The thread waits when an error may pass: when the log or a
store's server cannot be reached, when a partition has no leader or cannot read its disk, and when a topic or a schema
does not exist yet.

A rebuilt version is handed over: ``adopt`` leaves it for the thread and waits for the ``Future`` in the ``_HandOver``.
The thread takes it between two steps. It first lets it catch up with the position that readers have seen, so that they
never see it go back; then it completes the future with the version before. If the new version fails while it catches
up, or the disk refuses the swap, the future fails and the old version serves on. If the thread ends, it fails the
future, too.

Concurrency: ``start``, ``adopt``, ``halt`` from any thread; the fields are guarded by a lock that is never held while
the log or a store works.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from mainstem.errors import LogUnavailableError, MainstemError, StorageError, UnavailableError
from mainstem.model import Position
from mainstem.views.status import State
from mainstem.views.stores.store import StoreRewoundError, StoreUnavailableError
from mainstem.views.subscriptions.changes import Changes
from mainstem.views.subscriptions.subscriptions import Subscriptions
from mainstem.views.versions.version import SchemaFoundError, Version

_LOG = logging.getLogger("mainstem.views")
_STEP_WAIT_MS = 500
_RETRIES_S = (0.1, 0.2, 0.5, 1.0, 2.0)


def _ignore_position(position: Position) -> None:
    """The default: no account of positions is kept."""


class NotYetError(UnavailableError):
    """The view's topic, or the topic's schema, does not exist yet."""


@dataclass(frozen=True, slots=True)
class _HandOver:
    """A version that shall take over; ``taken`` gets the version before it.

    ``old_serves``: readers see the old one, so the new one may not be behind it. ``swapped`` is called when the new one
    has caught up, just before it serves; a StorageError of it means that the old one is still the current one.
    """

    version: Version
    swapped: Callable[[], None]
    old_serves: bool
    taken: Future[Version | None]


class ViewRunner:
    """The thread of one view, and the version that it runs."""

    def __init__(
        self,
        name: str,
        open_version: Callable[[], Version],
        changes: Changes,
        watchers: Subscriptions | None = None,
        on_position: Callable[[Position], None] = _ignore_position,
    ) -> None:
        """``open_version`` opens the current version; an error that may pass lets it be tried again.

        ``on_position`` is called with each position that readers can see from then on, in the view's thread.
        """
        self._on_position = on_position
        self._watchers = Subscriptions() if watchers is None else watchers
        self._name = name
        self._open_version = open_version
        self._changes = changes
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._version: Version | None = None
        self._hand_over: _HandOver | None = None
        self._is_running = False
        self._is_retired = False
        self._state: State = "starting"
        self._detail = ""
        self._failures = 0

    @property
    def version(self) -> Version | None:
        """The version that serves; None before the first is open."""
        return self._version

    @property
    def state(self) -> tuple[State, str]:
        """The state, and what it means here."""
        with self._lock:
            return self._state, self._detail

    @property
    def is_retired(self) -> bool:
        """Whether the view is stopped, or being stopped, for good."""
        return self._is_retired

    def start(self) -> None:
        """Begin, or begin again after the thread has ended. Raises UnavailableError after ``retire``."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        if self._is_retired:
            raise UnavailableError(f"view {self._name} is being stopped")
        self._stopping.clear()
        self._state, self._detail = "starting", ""
        self._thread = threading.Thread(target=self._run, name=f"view-{self._name}", daemon=True)
        self._thread.start()
        self._is_running = True

    def adopt(self, version: Version, swapped: Callable[[], None]) -> Version | None:
        """Let ``version`` take over; returns the version before it, which is the caller's to close.

        ``swapped`` is called when ``version`` has caught up, just before it serves. Raises UnavailableError when the
        view is stopped meanwhile, and the error of ``version`` when that cannot catch up.
        """
        with self._lock:
            hand_over = _HandOver(version, swapped, self._is_running, Future())
            if not self._is_running:
                self._start()
            self._hand_over = hand_over
        return hand_over.taken.result()

    def halt(self, state: State, detail: str) -> None:
        """End the thread and close the version; ``start`` and ``adopt`` begin again."""
        self._stopping.set()
        version, thread = self._version, self._thread
        if version is not None:
            version.interrupt()
        if thread is not None and thread.is_alive():
            thread.join()
        self._close_version()
        self._become(state, detail)

    def retire(self) -> None:
        """Halt for good."""
        with self._lock:
            self._is_retired = True
        self.halt("stopped", "its host was stopped")

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except MainstemError as error:
            self._become("stopped", str(error))
        except BaseException as error:  # noqa: BLE001 - the panic of a Rust library is not an Exception
            _LOG.exception("view %s stopped on an unexpected error", self._name)
            self._become("stopped", f"unexpected {type(error).__name__}: {error}; restart the view host or rebuild")
        finally:
            self._end()

    def _end(self) -> None:
        """The thread ends: a version that waits to take over is not taken."""
        with self._lock:
            self._is_running = False
            hand_over = self._hand_over
            reason = self._detail or "its host was stopped"
        if hand_over is not None:
            self._refuse(hand_over, UnavailableError(f"view {self._name} stopped while it was rebuilt: {reason}"))

    def _turn(self) -> None:
        """One step of the version that serves. An error that may be temporary is left for the next turn."""
        try:
            self._take_over()
            if self._version is None:
                self._version = self._open_version()
                self._watchers.opened(self._version.position, is_swap=False)
                self._on_position(self._version.position)
                self._changes.notify()
            moved = self._version.step(_STEP_WAIT_MS, self._watchers.applied)
        except (StoreRewoundError, SchemaFoundError) as error:
            self._close_version()
            self._pause("waiting", str(error))
        except (NotYetError, StoreUnavailableError) as error:
            self._pause("waiting", str(error))
        except MainstemError as error:
            if not _may_pass(error):
                raise
            self._pause("log unavailable", str(error))
        else:
            self._failures = 0
            self._become("catching up" if self._version.lag else "live", "")
            if moved:
                self._on_position(self._version.position)
                self._changes.notify()

    def _take_over(self) -> None:
        """Swap the version for the one that is handed over, if there is one."""
        with self._lock:
            hand_over = self._hand_over
        if hand_over is None:
            return
        version, old = hand_over.version, self._version
        if old is not None and hand_over.old_serves and old.topic_ids == version.topic_ids:
            try:
                self._catch_up(version, old)
            except BaseException as error:
                if _may_pass(error):
                    raise  # the next turn goes on with it
                self._refuse(hand_over, error)  # whatever it is, the old version is sound
                return
        if self._stopping.is_set():
            return  # its position may be before the one that readers have seen: the old version stays
        try:
            hand_over.swapped()
        except StorageError as error:
            if old is None:
                raise
            self._refuse(hand_over, error)
            return
        with self._lock:
            self._version, self._hand_over = version, None
        try:
            self._watchers.opened(version.position, is_swap=True)
            self._on_position(version.position)
            self._changes.notify()
        finally:
            hand_over.taken.set_result(old)

    def _refuse(self, hand_over: _HandOver, error: BaseException) -> None:
        with self._lock:
            self._hand_over = None
        hand_over.taken.set_exception(error)

    def _catch_up(self, version: Version, old: Version) -> None:
        """Let ``version`` apply what ``old`` has shown; short of it only where the log has lost that."""
        while not version.position.covers(old.position) and not self._stopping.is_set():
            if not version.step(_STEP_WAIT_MS) and version.lag == 0:
                break

    def _close_version(self) -> None:
        version, self._version = self._version, None
        if version is not None:
            version.close()

    def _pause(self, state: State, detail: str) -> None:
        if self._stopping.is_set():
            return
        self._become(state, detail)
        self._stopping.wait(_RETRIES_S[min(self._failures, len(_RETRIES_S) - 1)])
        self._failures += 1

    def _become(self, state: State, detail: str) -> None:
        with self._lock:
            if (self._state, self._detail) == (state, detail):
                return
            self._state, self._detail = state, detail
        if state in ("stopped", "deleted"):
            self._watchers.wake_all()
        self._changes.notify()


def _may_pass(error: BaseException) -> bool:
    """Whether the view goes on later without help. An append whose outcome is unknown is repeated: a dead letter."""
    return isinstance(error, LogUnavailableError) or (isinstance(error, MainstemError) and error.retriable)
