"""How a mirror is doing, as a file in Prometheus' text format: ``mainstem mirror --metrics FILE``.

A node's gateway adds the file ``mirror.prom`` of its run directory to ``/metrics``.
``mainstem_mirror_level_until_seconds`` is the time up to which the target has all that the source had. It stops when
the mirror stops, whatever the reason; so a reader computes the lag from its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.broker.metrics.text_format import counter, gauge
from mainstem.clock import Clock
from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import StorageError

if TYPE_CHECKING:
    from mainstem.mirror.mirror import MirrorReport


class MirrorMetrics:
    """The file of one mirror; used by one thread. ``note`` gets a line when the disk refuses."""

    def __init__(self, path: Path, clock: Clock, note: Callable[[str], None]) -> None:
        self._path = path
        self._clock = clock
        self._note = note
        self._started_ms = clock.time_ms()

    def publish(self, report: MirrorReport) -> None:
        """Write the file. A disk that refuses must not stop the mirror."""
        text = metrics_text(report, self._started_ms, self._clock.time_ms())
        try:
            replace_file(LOCAL_FILES, self._path, text.encode(), sync=False)
        except StorageError as error:
            self._note(f"the mirror's metrics cannot be written: {error}")


def metrics_text(report: MirrorReport, started_ms: int, now_ms: int) -> str:
    """In Prometheus' text format. ``started_ms``: when the mirror started; both times since 1970."""
    level_ms = started_ms if report.lag_s is None else now_ms - report.lag_s * 1000
    return (
        gauge(
            "mainstem_mirror_level_until_seconds",
            "The time up to which the mirror has all of its source; before the first time, when it started",
            [({}, level_ms / 1000)],
        )
        + gauge("mainstem_mirror_lag_records", "Offsets of the source to copy", [({}, report.lag_records)])
        + counter("mainstem_mirror_copied_bytes_total", "Bytes copied since its start", [({}, report.copied_bytes)])
        + gauge("mainstem_mirror_partitions", "Partitions that are copied", [({}, report.partitions)])
        + gauge(
            "mainstem_mirror_topics_set_aside",
            "Topics that are not copied, because the target's topic differs or a right is missing",
            [({}, len(report.set_aside))],
        )
    )
