"""Asking a metrics view: figures by label, as charts and as a table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from mainstem.console import charts
from mainstem.console.parts import drawing
from mainstem.console.query_boxes.box import QueryBox, Row, rows_table
from mainstem.console.requests import ConsoleRequest, path

_LINES_MAX = 12
_QUANTILES = (0.5, 0.99)


def show(box: QueryBox) -> None:
    """Build the form."""

    async def ask() -> None:
        query: dict[str, Any] = {"quantile": _QUANTILES, "series": "true", "label": _words(only.value) or None}
        query["over"] = [""] if together.value else _words(over.value) or None
        await box.run(ConsoleRequest(path("views", box.view, "metrics"), query), _show_rows)

    with box.form(ask):
        over = ui.input("By labels, with commas (empty: all)").props("dense outlined clearable").classes("grow")
        only = ui.input("Only with, e.g. origin=JFK").props("dense outlined clearable").classes("grow")
        together = ui.checkbox("All together").props("dense")


def _show_rows(rows: Sequence[Row]) -> None:
    named = [(_label(row), row) for row in rows]
    lines = {
        name: [(_ms(point["minute"]), point["records"]) for point in row.get("series", [])]
        for name, row in sorted(named, key=lambda each: -int(each[1]["records"]))[:_LINES_MAX]
    }
    if any(len(points) > 1 for points in lines.values()):
        drawing(charts.over_time(lines, "records a minute"), "Records a minute")
    flat = [_flat(row) for row in rows]
    bars = [{"label": name, "records": row["records"]} for name, row in named]
    chart = charts.of_rows(bars)
    if chart is not None:
        drawing(chart, "Records by label")
    rows_table(flat)


def _flat(row: Row) -> Row:
    """Labels, records, and the figures of each value, as columns."""
    flat: Row = {**row["labels"], "records": row["records"]}
    for name, figures in row["values"].items():
        for figure in ("mean", "min", "max", "sum"):
            flat[f"{name} {figure}"] = figures[figure]
        for quantile, value in (figures.get("quantiles") or {}).items():
            flat[f"{name} p{float(quantile) * 100:g}"] = value
    return flat


def _label(row: Mapping[str, Any]) -> str:
    return ", ".join(str(text) for text in row["labels"].values()) or "all"


def _ms(minute: str) -> float:
    try:
        return datetime.datetime.fromisoformat(minute).timestamp() * 1000
    except ValueError:
        return float(minute) * 1000


def _words(written: str | None) -> list[str]:
    return [word.strip() for word in (written or "").split(",") if word.strip()]
