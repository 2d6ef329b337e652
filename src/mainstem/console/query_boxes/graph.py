"""Asking a graph view: the nodes around one, or a shortest path; drawn as a graph and listed."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from mainstem.console import charts
from mainstem.console.parts import drawing
from mainstem.console.query_boxes.box import QueryBox, Row, rows_table
from mainstem.console.requests import ConsoleRequest, path

_NODES_MAX = 2_000
_DRAWN_MAX = 400


def show(box: QueryBox) -> None:
    """Build the form."""

    async def ask() -> None:
        node, goal = (start.value or "").strip(), (end.value or "").strip()
        if goal:
            query = {"from": node, "to": goal, "direction": direction.value}
            await box.run(ConsoleRequest(path("views", box.view, "path"), query), _show_path)
        else:
            query = {"node": node, "hops": int(hops.value or 1), "direction": direction.value, "limit": _NODES_MAX}
            await box.run(
                ConsoleRequest(path("views", box.view, "neighbors"), query), lambda rows: _show_around(node, rows)
            )

    with box.form(ask):
        start = ui.input("Node").props("dense outlined clearable").classes("grow")
        end = ui.input("Path to (empty: neighbors)").props("dense outlined clearable").classes("grow")
        hops = ui.number("Hops", value=1, min=1, max=16, precision=0).props("dense outlined").classes("hops")
        hops.bind_visibility_from(end, "value", backward=lambda goal: not goal)
        direction = ui.select(["out", "in", "both"], value="out", label="Direction").props("dense outlined")
        direction.classes("hops")


def _show_around(center: str, rows: Sequence[Row]) -> None:
    """Rings of nodes by their distance. Edges are drawn where the answer tells of them: to the nearest ring."""
    if len(rows) <= _DRAWN_MAX:
        rings = {str(row["node"]): int(row["hops"]) for row in rows}
        drawing(charts.rings(center, rings), "The nodes around it", "chart tall")
    rows_table(rows)


def _show_path(rows: Sequence[Row]) -> None:
    nodes = [str(row["node"]) for row in rows]
    if len(nodes) <= _DRAWN_MAX:
        drawing(charts.chain(nodes), "The path")
    rows_table(rows)
