"""``QueryWatch``: ends queries that run over their time, or take the process's memory.

DuckDB checks for an interrupt between pieces of work only: one call of a function over one huge value cannot be
interrupted, and some functions allocate outside of DuckDB's own memory limit. So there are two steps:

1. A query over its time, and all queries when the process holds more than ``memory_max`` bytes, are interrupted.
2. A query that still runs ``OVERRUN_S`` after its interrupt calls ``on_runaway``: the process that runs it then ends
   itself and is started again (`views.stores.sql.query_server`; a view host, for queries that it runs itself). By
   default it is logged.

One instance for each process; its thread runs while queries do. Thread-safe.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from mainstem.background import failed
from mainstem.errors import ConfigError

_LOG: Final = logging.getLogger("mainstem.views")
OVERRUN_S: Final = 5.0
_LOOK_S: Final = 0.05
_MEMORY_MAX: Final = "MAINSTEM_VIEW_MEMORY_MAX"
_GROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_MEMORY: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Interruptible(Protocol):
    """A cursor at work."""

    def interrupt(self) -> None:
        """Ask the work to end. From any thread."""


@dataclass(slots=True)
class WatchedQuery:
    """A query that runs. ``ended_by``: why it was interrupted; empty while it was not."""

    cursor: Interruptible
    text: str
    timeout_s: float
    until_s: float
    ended_by: str = ""
    interrupted_s: float = 0.0


class QueryWatch:
    """See the head of the file."""

    def __init__(self, memory_max: int | None = None, overrun_s: float = OVERRUN_S) -> None:
        """``memory_max``: bytes that the process may hold; half of the machine's memory unless given."""
        self.memory_max = memory_max or machine_memory_bytes() // 2
        self.overrun_s = overrun_s
        self.on_runaway: Callable[[WatchedQuery, str], None] = lambda query, reason: _LOG.error(reason)
        self._changed = threading.Condition()
        self._running: list[WatchedQuery] = []
        self._is_looking = False

    def begin(self, cursor: Interruptible, text: str, timeout_s: float) -> WatchedQuery:
        """Watch a query from now on, until ``end``."""
        query = WatchedQuery(cursor, text, timeout_s, time.monotonic() + timeout_s)
        with self._changed:
            self._running.append(query)
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look, name="watch queries", daemon=True).start()
        return query

    def end(self, query: WatchedQuery) -> None:
        """The query is over. After this returns it is not interrupted any more."""
        with self._changed:
            self._running.remove(query)

    def stop(self) -> None:
        """Interrupt all queries, as the process stops. One that goes on is a runaway like any other."""
        with self._changed:
            for query in self._running:
                query.until_s = time.monotonic()

    def _look(self) -> None:
        while True:
            with self._changed:
                if not self._running:
                    self._changed.wait(1.0)  # queries come one after the other: keep the thread for the next one
                if not self._running:
                    self._is_looking = False
                    return
                try:
                    self._look_once()
                except Exception as error:  # noqa: BLE001 - without this thread no query would be ended
                    failed("query watch", error)
                self._changed.wait(_LOOK_S)

    def _look_once(self) -> None:
        now_s = time.monotonic()
        is_full = private_bytes() > self.memory_max
        for query in self._running:
            if not query.ended_by and (is_full or now_s >= query.until_s):
                query.ended_by = "memory" if is_full else "time"
                query.interrupted_s = now_s
            if query.ended_by:
                query.cursor.interrupt()  # again and again: an interrupt between two statements is lost
                if now_s >= query.interrupted_s + self.overrun_s:
                    query.interrupted_s = now_s
                    self._run_away(query)

    def _run_away(self, query: WatchedQuery) -> None:
        self.on_runaway(
            query,
            f"a query still runs {self.overrun_s:g} s after it was interrupted, because of its {query.ended_by}: "
            f"{query.text[:500]!r}",
        )


def memory_limit() -> int | None:
    """The value of ``MAINSTEM_VIEW_MEMORY_MAX`` in bytes; None if it is not set. Raises ConfigError."""
    text = os.environ.get(_MEMORY_MAX, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"invalid {_MEMORY_MAX}={text!r}: give a number of bytes, such as 4294967296")
    return int(text)


def machine_memory_bytes() -> int:
    """The memory that processes may use here: the machine's, or less where a control group says so."""
    machine_bytes = _PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError), _GROUP_LIMIT.open() as file:  # no file, or "max": no limit
        return min(machine_bytes, int(file.read()))
    return machine_bytes


def private_bytes() -> int:
    """The memory that this process holds, without the files that it maps; 0 where the system does not say."""
    try:
        _, resident, shared, *_ = map(int, _MEMORY.read_text().split())
    except OSError:
        return 0
    return (resident - shared) * _PAGE_BYTES


WATCH: Final = QueryWatch()
"""The process's own."""
