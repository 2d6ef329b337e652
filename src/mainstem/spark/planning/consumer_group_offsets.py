"""A stream's offsets, committed to a consumer group, so that every tool for Kafka shows the lag of a Spark query.

The group is for others to look at: the query goes on from its checkpoint and never reads it. So committing must neither
fail the query nor hold it up: a thread of its own, with its own connection, commits the newest position, once a second
at most. A failure is logged once, and tried again with the next position. After a permanent refusal (the group has
members, an ACL is missing) nothing more is committed.

``reached``, ``flush`` and ``stop`` belong to the stream's thread; everything shared is under one condition.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

from mainstem.client.wire.admin.group_admin import commit_offsets
from mainstem.errors import InputError, MainstemError
from mainstem.model import Position
from mainstem.spark.clients import borrowed
from mainstem.spark.options.options import LogOptions

_PAUSE_S = 1.0
_TIMEOUT_S = 5.0
_STOP_S = 1.0


class ConsumerGroupOffsets:
    """Commits a stream's positions to its consumer group. Its thread starts with the first position and is a daemon."""

    def __init__(self, log: LogOptions, group: str) -> None:
        self.group = group
        self._log = replace(log, timeout_s=min(log.timeout_s, _TIMEOUT_S))
        self._changed = threading.Condition()
        self._wanted = Position()
        self._done = Position()
        self._is_flushing = False
        self._is_over = False
        self._complained = False
        self._thread: threading.Thread | None = None

    def reached(self, position: Position) -> None:
        """All before ``position`` is processed."""
        with self._changed:
            if self._is_over or position == self._wanted:
                return
            self._wanted = position
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mainstem-group-offsets", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> None:
        """Wait until what was reached is committed, cannot be, or the time is over."""
        with self._changed:
            self._is_flushing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or self._wanted == self._done, timeout_s)

    def stop(self) -> None:
        """``flush``, and end the thread."""
        if self._thread is None:
            return
        self.flush(_STOP_S)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._wanted != self._done)
                if self._is_over:
                    return
                position, self._is_flushing = self._wanted, False
            is_done = self._commit(position)
            with self._changed:
                if is_done:
                    self._done = position
                    self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_over or self._is_flushing, _PAUSE_S)

    def _commit(self, position: Position) -> bool:
        """Whether ``position`` is committed."""
        try:
            with borrowed(self._log) as client:
                commit_offsets(client, self.group, position)
        except InputError as error:  # it will not be otherwise next time
            self._complain(error, "they are no longer committed")
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            return False
        except MainstemError as error:
            self._complain(error, "tried again with the next ones")
            return False
        self._complained = False
        return True

    def _complain(self, error: MainstemError, then: str) -> None:
        if not self._complained:
            said = f"a query's offsets cannot be committed to group {self.group}: {error}; {then}, the query goes on"
            print(f"mainstem: {said}", file=sys.stderr)  # noqa: T201 - the only voice of a process of Spark's
        self._complained = True
