"""The charts over time: which series each shows. Pure functions.

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
    """``series``: the patterns, each with the name of its line, in which ``*`` is what the pattern's ``*`` fitted.

    ``hides_zero``: without a value other than zero there is nothing to show.
    """

    title: str
    unit: str
    series: tuple[tuple[str, str], ...]
    scale: float = 1.0
    hides_zero: bool = False


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


def charts_of_pipeline(name: str) -> tuple[HistoryChart, ...]:
    """The charts of one pipeline."""
    return tuple(
        HistoryChart(title, unit, ((f"pipeline/{name}/{measure}", label),), hides_zero=title in _OF_SOME_PIPELINES)
        for title, unit, measure, label in (
            ("Rows in", "rows/s", "rows_in_per_s", "rows"),
            ("Lag", "records", "lag", "lag"),
            ("Micro-batches", "ms", "batch_ms", "duration"),
            ("State", "rows", "state_rows", "rows"),
            ("Dead letters", "records", "dead_letters", "dead letters"),
        )
    )


def patterns(shown: Sequence[HistoryChart]) -> list[str]:
    """The series that charts ask for."""
    return [pattern for chart in shown for pattern, _ in chart.series]


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
    has_points = any(value for points in shown.values() for _, value in points) if chart.hides_zero else bool(shown)
    return Drawn(charts.over_time(shown, chart.unit, marks), has_points, len(order) - len(shown))


_OF_SOME_PIPELINES: Final = ("State", "Dead letters")
_TOTALS: Final = frozenset({"all topics"})


def _label(chart: HistoryChart, name: str) -> str | None:
    for pattern, label in chart.series:
        before, star, after = pattern.partition("*")
        if not star and name == pattern:
            return label
        if star and name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after):
            return label.replace("*", name[len(before) : len(name) - len(after)])
    return None
