"""Follows a small compacted topic in a thread: each of its records is given to ``take``, from the first one on.

A log that is away is tried again; a topic that is not there yet is looked for now and then. Records that cannot be read
are stepped over, each with a line in the log.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.client.read.reader import Follower
from mainstem.errors import AuthorizationError, LogUnavailableError, MainstemError
from mainstem.model import Position, Record

_LOG = logging.getLogger("mainstem.client")
_RETRY_S = 0.5
_STEP_BYTES = 1 << 20


class TopicFollower(ABC):
    """Gives every record of a topic to ``take``, in a thread. ``start`` and ``stop`` once, from one thread."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._stopping = threading.Event()
        self._follower: Follower | None = None
        self._position = Position()
        self._is_refused = False
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"follower-of-{topic}", daemon=True)

    @abstractmethod
    def take(self, record: Record) -> None:
        """Take note of a record, in the follower's thread."""

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following; returns when the thread has ended."""
        self._stopping.set()
        follower = self._follower
        if follower is not None:
            follower.close()
        if self._thread.is_alive():
            self._thread.join()

    def wait_for(self, position: Position, timeout_s: float) -> bool:
        """Wait until all records before ``position`` were taken; whether that was in time. From any thread.

        Also True if this client may not read the topic: waiting would not help.
        """
        with self._moved:
            return self._moved.wait_for(lambda: self._is_refused or self._position.covers(position), timeout_s)

    def _is_at(self, position: Position, *, is_refused: bool = False) -> None:
        with self._moved:
            self._position, self._is_refused = position, is_refused
            self._moved.notify_all()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except AuthorizationError as error:
                self._is_at(Position(), is_refused=True)
                _LOG.debug("topic %s cannot be followed: %s", self._topic, error)
            except MainstemError as error:  # no such topic yet, or the log is away
                _LOG.debug("topic %s cannot be followed: %s", self._topic, error)
            except Exception as error:  # noqa: BLE001 - who started it relies on this thread
                failed(f"follower of {self._topic}", error)
            self._stopping.wait(_RETRY_S)

    def _follow(self) -> None:
        with self._log.follow(self._topic, start="earliest", on_damaged="skip") as follower:
            self._follower = follower
            self._is_at(Position())
            damaged = 0
            while not self._stopping.is_set():
                try:
                    records = follower.take(_STEP_BYTES)
                except LogUnavailableError:
                    self._stopping.wait(_RETRY_S)  # the follower goes on where it was
                    continue
                for damage in follower.damaged[damaged:]:
                    damaged += 1
                    _LOG.warning("skipped: %s", damage)
                for record in records:
                    self.take(record)
                self._is_at(follower.position)
