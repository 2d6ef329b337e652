"""The console's charts as ECharts options. Color-blind readers can distinguish the colors (Okabe and Ito's palette).

Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8a8f98", "#b8a800")
_GREY = "#8b97a5"
_FAINT = "rgba(139, 151, 165, 0.25)"
_WHOLE = "triggerExecution"
# Spark's phases in the order in which they happen; others, if there are any, come after.
_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch")
_POINTS_MAX = 500


def _base() -> dict[str, Any]:
    return {
        "color": list(COLORS),
        "animation": False,
        "backgroundColor": "transparent",
        "textStyle": {"fontFamily": "Roboto, sans-serif"},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {
            "top": 0,
            "left": 0,
            "itemWidth": 12,
            "itemHeight": 10,
            "textStyle": {"color": _GREY},
            "type": "scroll",
        },
        "grid": {"left": 8, "right": 8, "top": 48, "bottom": 4, "containLabel": True},
    }


def _axis(kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {"color": _GREY, "align": more.pop("align", "left")},
        "axisLabel": {"color": _GREY, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": _FAINT}},
        "splitLine": {"show": more.pop("lines", kind == "value"), "lineStyle": {"color": _FAINT}},
        **more,
    }


def micro_batches(recent: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The durations of micro-batches, stacked by phase, and the rows that each read."""
    named = {phase for batch in recent for phase in batch["durations_ms"]} - {_WHOLE}
    phases = [phase for phase in _PHASES if phase in named] + sorted(named - set(_PHASES))
    bars = [
        {
            "name": phase,
            "type": "bar",
            "stack": "phases",
            "barMaxWidth": 34,
            "data": [batch["durations_ms"].get(phase, 0) for batch in recent],
        }
        for phase in phases
    ]
    rows = {
        "name": "rows in",
        "type": "line",
        "yAxisIndex": 1,
        "symbol": "circle",
        "symbolSize": 5,
        "lineStyle": {"color": _GREY, "width": 1.5},
        "itemStyle": {"color": _GREY},
        "data": [batch["input_rows"] for batch in recent],
    }
    return {
        **_base(),
        "xAxis": _axis("category", data=[f"#{batch['batch_id']}" for batch in recent]),
        "yAxis": [_axis("value", "ms"), _axis("value", "rows", lines=False, align="right")],
        "series": [*bars, rows],
    }


def of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A chart of a query's rows: a text or time against numbers, or two numbers. None where no two columns fit."""
    if not 2 <= len(rows) <= _POINTS_MAX:
        return None
    names = list(rows[0])
    numbers = [name for name in names if all(_is_number(row.get(name)) for row in rows)]
    words = [
        name for name in names if name not in numbers and all(isinstance(row.get(name), str | None) for row in rows)
    ]
    if words and numbers:
        across, values = words[0], numbers[:4]
    elif len(numbers) >= 2:
        across, values = numbers[0], numbers[1:5]
    else:
        return None
    labels = [str(row.get(across)) for row in rows]
    if len(set(labels)) < len(labels):
        return None  # several rows for one label: no chart that would be true
    kind = "bar" if across in words and len(rows) <= 60 else "line"
    series: list[dict[str, Any]] = [
        {
            "name": name,
            "type": kind,
            "barMaxWidth": 34,
            "showSymbol": False,
            "data": [_drawn(row.get(name)) for row in rows],
        }
        for name in values
    ]
    axes = [_axis("value")]
    if len(values) == 2 and _are_far_apart([[row.get(name) for row in rows] for name in values]):
        series[1]["yAxisIndex"] = 1
        axes = [_axis("value", values[0]), _axis("value", values[1], lines=False, align="right")]
    return {**_base(), "xAxis": _axis("category", data=labels), "yAxis": axes, "series": series}


def over_time(
    series: Mapping[str, Sequence[tuple[float, float]]], unit: str = "", marks: Sequence[tuple[float, str, bool]] = ()
) -> dict[str, Any]:
    """Lines over time: of each name, its points as milliseconds and value.

    ``marks``: upright lines, each with its label, and whether it is shown; else it is shown under the pointer.
    """
    lines: list[dict[str, Any]] = [
        {"name": name, "type": "line", "showSymbol": False, "data": [list(point) for point in points]}
        for name, points in series.items()
    ]
    if marks:  # in a line of their own without a name: the legend cannot hide them with another
        lines.append({"type": "line", "data": [], "markLine": _mark_lines(marks)})
    return {**_base(), "xAxis": _axis("time"), "yAxis": _axis("value", unit), "series": lines}


def _mark_lines(marks: Sequence[tuple[float, str, bool]]) -> dict[str, Any]:
    label = {"formatter": "{b}", "position": "insideEndTop", "color": _GREY, "fontSize": 10}
    return {
        "symbol": "none",
        "animation": False,
        "lineStyle": {"color": _GREY, "type": "dashed", "width": 1},
        "label": {**label, "width": 130, "overflow": "truncate"},
        "emphasis": {"label": {"show": True}},
        "data": [{"xAxis": at_ms, "name": words, "label": {"show": is_shown}} for at_ms, words, is_shown in marks],
    }


def rings(center: str, hops: Mapping[str, int]) -> dict[str, Any]:
    """A node in the middle, the others on rings by their hops. Only the edges to the first ring are known and drawn."""
    by_ring: dict[int, list[str]] = {}
    for name, distance in hops.items():
        if name != center:
            by_ring.setdefault(distance, []).append(name)
    places: list[tuple[str, float, float, int]] = [(center, 0.0, 0.0, 0)]
    for distance, names in sorted(by_ring.items()):
        steps = 1 + len(names) // 24  # many nodes are placed in a zigzag, so that their names do not cover each other
        for number, name in enumerate(sorted(names)):
            angle = 2 * math.pi * number / len(names) + distance * 0.35
            radius = 100 * (distance - 0.28 * (number % steps) / steps)
            places.append((name, radius * math.cos(angle), radius * math.sin(angle), distance))
    edges = [(center, name) for name in by_ring.get(1, ())]
    names_of = {0: "the node", **{distance: f"{distance} hop{'s' * (distance > 1)}" for distance in by_ring}}
    return _graph(places, edges, names_of, len(places) <= 120)


def chain(nodes: Sequence[str]) -> dict[str, Any]:
    """Nodes from left to right, and the edges between them."""
    places = [(name, 120.0 * number, 18.0 * (number % 2), min(number, 1)) for number, name in enumerate(nodes)]
    return _graph(places, list(pairwise(nodes)), {0: "from", 1: "on the way"}, True)


def _graph(
    places: Sequence[tuple[str, float, float, int]],
    edges: Sequence[tuple[str, str]],
    categories: Mapping[int, str],
    is_labelled: bool,
) -> dict[str, Any]:
    order = sorted(categories)
    data = [
        {"name": name, "x": x, "y": y, "category": order.index(kind), "symbolSize": 22 if kind == 0 else 11}
        for name, x, y, kind in places
    ]
    series = {
        "type": "graph",
        "layout": "none",
        "roam": "move",
        "top": 56,
        "bottom": 24,
        "categories": [{"name": categories[kind]} for kind in order],
        "label": {"show": is_labelled, "position": "bottom", "color": _GREY, "fontSize": 11},
        "labelLayout": {"hideOverlap": True},
        "lineStyle": {"color": _GREY, "opacity": 0.45},
        "data": data,
        "links": [{"source": source, "target": target} for source, target in edges],
    }
    legend = {**_base()["legend"], "data": [categories[kind] for kind in order]}
    return {**_base(), "tooltip": {"confine": True}, "legend": legend, "series": [series]}


def _are_far_apart(columns: Sequence[Sequence[float | None]]) -> bool:
    """Whether one of two columns would not be seen on the other's axis."""
    low, high = sorted(max((abs(value) for value in column if value is not None), default=0) for column in columns)
    return high > 8 * low


def _drawn(value: Any) -> Any:
    """A number as a browser takes it: whole ones beyond 64 bits have no place in what is sent."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
