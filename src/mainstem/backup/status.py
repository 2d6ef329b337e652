"""How a backup is doing: a file of metrics in the run directory, which the gateway adds to its page.

``mainstem_backup_held_until_seconds`` is the time up to which all durable records are in the store. It stops when the
backup stops, whatever the reason; so a reader computes the lag from its own clock. It also stops when the log writes no
checkpoint although its files grow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mainstem.broker.metrics.text_format import counter, gauge
from mainstem.clock import Clock
from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import StorageError

STATUS_FILE: Final = "backup.prom"
_ERROR_CHARACTERS_MAX: Final = 300
_LOG: Final = logging.getLogger(__name__)


class BackupStatus:
    """Of one process; used by one thread. ``path`` None keeps it in memory alone."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._started_ms = clock.time_ms()
        self.held_until_ms: int | None = None
        self.point = 0
        self.stored_bytes = 0
        self.failures = 0
        self.damages: list[str] = []
        self.left_out: list[str] = []
        self.last_error = ""
        self._failed_ms = 0
        self._is_unknown = False

    def held(self, until_ms: int | None, point: int, left_out: Sequence[str] = (), behind: str = "") -> None:
        """All that was durable at this time is in the store, but for partitions that were left out, for these reasons.

        The time stays while there are any, and while it is not known. ``behind`` says why the time is an old one.
        """
        self.left_out = list(left_out)
        self._is_unknown = bool(behind) and self.held_until_ms is None and until_ms is None
        if until_ms is not None and not left_out:
            self.held_until_ms = until_ms
        self.point = point
        self.last_error, self._failed_ms = behind[:_ERROR_CHARACTERS_MAX], self._clock.time_ms()
        self.publish()

    def failed(self, error: str) -> None:
        """A try has failed; there will be another."""
        self.failures += 1
        self.last_error, self._failed_ms = error[:_ERROR_CHARACTERS_MAX], self._clock.time_ms()
        self.publish()

    def publish(self) -> None:
        """Write the file. A disk that refuses must not stop the backup."""
        if self._path is None:
            return
        try:
            replace_file(LOCAL_FILES, self._path, self.text().encode(), sync=False)
        except StorageError as error:
            _LOG.warning("the backup's metrics cannot be written: %s", error)

    def text(self) -> str:
        """In Prometheus' text format."""
        since_ms = 0 if self._is_unknown else self._started_ms
        held_ms = since_ms if self.held_until_ms is None else self.held_until_ms
        error = [({"error": self.last_error}, self._failed_ms / 1000)] if self.last_error else []
        found = gauge(
            "mainstem_backup_held_until_seconds",
            "The time up to which the backup has all that was durable; until that is known, when it started; 0 after a "
            "minute in which it has lacked records",
            [({}, held_ms / 1000)],
        )
        found += gauge("mainstem_backup_point", "The number of the newest point of the backup", [({}, self.point)])
        found += counter(
            "mainstem_backup_stored_bytes_total", "Bytes that were stored since its start", [({}, self.stored_bytes)]
        )
        found += counter("mainstem_backup_failures_total", "Tries that failed since its start", [({}, self.failures)])
        found += gauge(
            "mainstem_backup_damages", "Places of the log that its backup found damaged", [({}, len(self.damages))]
        )
        found += gauge(
            "mainstem_backup_partitions_left_out",
            "Partitions that the last round left out: old segments of them are not in the store",
            [({}, len(self.left_out))],
        )
        if error:
            found += gauge("mainstem_backup_last_error_seconds", "When the backup failed last, and how", error)
        return found
