"""The answers of a metrics view: its figures as rows. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mainstem.clock import utc_time
from mainstem.errors import QueryError
from mainstem.pipelines.kinds import Metrics
from mainstem.views.requests import MetricsQuery
from mainstem.views.stores.metrics.figures import Figures, ValueFigures
from mainstem.views.stores.store import Row

TOMBSTONES = "tombstones"
_NO_NUMBERS = ValueFigures(0, 0, 0.0, 0.0, ())
_EVERYTHING = MetricsQuery(series=True, buckets=True)


def rows_of(request: MetricsQuery, kind: Metrics, figures: Mapping[tuple[str, ...], Figures]) -> list[Row]:
    """The rows that answer ``request``, sorted by their labels. Raises QueryError."""
    over = kind.by if request.over is None else tuple(filter(None, request.over))
    chosen = [text.split("=", 1) for text in request.labels]
    for name in (*over, *(name for name, _ in chosen)):
        if name not in kind.by:
            labels = ", ".join(kind.by) or "none"
            raise QueryError(f"the view has no label {name!r}; its labels are: {labels}")
    wanted = [(kind.by.index(name), text) for name, text in chosen]
    places = [kind.by.index(name) for name in over]
    found: dict[tuple[str, ...], Figures] = {}
    for combination, each in figures.items():
        if all(combination[place] == text for place, text in wanted):
            shown = tuple(combination[place] for place in places)
            found[shown] = found[shown].plus(each, kind.minutes) if shown in found else each
    if len(found) > request.limit:
        raise QueryError(f"the answer has {len(found)} rows, over the limit of {request.limit}: ask for fewer labels")
    return [_row(dict(zip(over, labels, strict=True)), found[labels], kind, request) for labels in sorted(found)]


def entries_of(kind: Metrics, figures: Mapping[tuple[str, ...], Figures]) -> list[tuple[str, Row]]:
    """Every figure, for digests: each with a name, and with what the rounded ones do not show."""
    entries = []
    for labels, each in figures.items():
        row = _row(dict(zip(kind.by, labels, strict=True)), each, kind, _EVERYTHING)
        row["exact_sums"] = {name: each.values[name].exact_sum() for name in sorted(each.values)}
        entries.append((json.dumps(labels, ensure_ascii=False), row))
    return entries


def _row(labels: Mapping[str, str], figures: Figures, kind: Metrics, request: MetricsQuery) -> Row:
    values = {name: _value(figures.values.get(name, _NO_NUMBERS), kind, request) for name in kind.values}
    row: Row = {"labels": labels, "records": figures.records, "values": values}
    if request.series:
        row["series"] = [
            {"minute": utc_time(minute * 60_000), "records": records}
            for minute, records in sorted(figures.minutes.items())
        ]
    return row


def _value(figures: ValueFigures, kind: Metrics, request: MetricsQuery) -> dict[str, Any]:
    total = figures.sum
    has_any = figures.count > 0
    answer: dict[str, Any] = {
        "count": figures.count,
        "sum": total,
        "mean": total / figures.count if has_any and total is not None else None,
        "min": figures.low if has_any else None,
        "max": figures.high if has_any else None,
    }
    if request.quantiles:
        answer["quantiles"] = {
            f"{quantile:g}": figures.quantile(quantile, kind.buckets) if has_any else None
            for quantile in request.quantiles
        }
    if request.buckets:
        bounds = [*kind.buckets, None]  # None: without a bound
        counts = figures.buckets if has_any else (0,) * len(bounds)
        answer["buckets"] = [{"le": bound, "count": n} for bound, n in zip(bounds, _running(counts), strict=True)]
    return answer


def _running(counts: tuple[int, ...]) -> list[int]:
    running, total = [], 0
    for count in counts:
        total += count
        running.append(total)
    return running
