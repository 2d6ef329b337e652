"""The charts of the page History: which series each shows. Pure functions.

A chart shows the few series with the greatest values; the others are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mainstem.console import charts

SHOWN_MAX: Final = 7
_MEGABYTE: Final = 1e6

Points = Sequence[Sequence[float]]


class HistoryChart(NamedTuple):
    """``series``: the patterns, each with the name of its line, in which ``*`` is what the pattern's ``*`` fitted."""

    title: str
    unit: str
    series: tuple[tuple[str, str], ...]
    scale: float = 1.0


CHARTS: Final = (
    HistoryChart(
        "Records in", "records/s", (("node/records_in_per_s", "all topics"), ("topic/*/records_in_per_s", "*"))
    ),
    HistoryChart(
        "Bytes in and out", "MB/s", (("node/bytes_in_per_s", "in"), ("node/bytes_out_per_s", "out")), 1 / _MEGABYTE
    ),
    HistoryChart(
        "Lag",
        "records",
        (("pipeline/*/lag", "pipeline *"), ("view/*/lag", "view *"), ("group/*/lag", "group *")),
    ),
    HistoryChart("Micro-batches", "ms", (("pipeline/*/batch_ms", "*"),)),
    HistoryChart("Applied by views", "records/s", (("view/*/records_per_s", "*"),)),
    HistoryChart("Time to apply, of views", "ms", (("view/*/apply_ms", "*"),)),
    HistoryChart("Sync to the disk, 99th percentile", "ms", (("node/flush_p99_ms", "slowest of 100"),)),
    HistoryChart("Memory of the log", "MB", (("node/memory_bytes", "in use"),), 1 / _MEGABYTE),
    HistoryChart("CPU of the log", "%", (("node/cpu_percent", "of one core"),)),
    HistoryChart("Free disk", "GB", (("node/disk_free_bytes", "free"),), 1e-9),
)
PATTERNS: Final = tuple(pattern for chart in CHARTS for pattern, _ in chart.series)


class Drawn(NamedTuple):
    """A chart's options, whether there is a point in it, and how many lines were left out."""

    options: dict[str, Any]
    has_points: bool
    left_out: int


def drawn(chart: HistoryChart, series: Mapping[str, Points], marks: Sequence[tuple[float, str, bool]] = ()) -> Drawn:
    """The chart over what the gateway answered, by the names of series. ``marks``: see ``over_time``."""
    lines = {label: points for name, points in series.items() if (label := _label(chart, name)) is not None and points}
    order = sorted(lines, key=lambda label: (label not in _TOTALS, -max(value for _, value in lines[label])))
    shown = {label: [(at, value * chart.scale) for at, value in lines[label]] for label in order[:SHOWN_MAX]}
    return Drawn(charts.over_time(shown, chart.unit, marks), bool(shown), len(order) - len(shown))


_TOTALS: Final = frozenset({"all topics"})


def _label(chart: HistoryChart, name: str) -> str | None:
    for pattern, label in chart.series:
        before, star, after = pattern.partition("*")
        if not star and name == pattern:
            return label
        if star and name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after):
            return label.replace("*", name[len(before) : len(name) - len(after)])
    return None
