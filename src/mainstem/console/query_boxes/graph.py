"""Asking a graph view: the nodes around one, or a shortest path; drawn as a graph and listed.

A click on a node, in the picture or in the list, asks for its neighbors. The node asked for is in the page's address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments

from mainstem.console import charts
from mainstem.console.parts import drawing
from mainstem.console.query_boxes.box import QueryBox, Row, rows_table
from mainstem.console.requests import ConsoleRequest, path

_NODES_MAX = 2_000
_DRAWN_MAX = 400
_HOPS_MAX = 16
_DIRECTIONS = ("out", "in", "both")

Go = Callable[[str], Any]


def show(box: QueryBox) -> None:
    """Build the form; a node in the page's address is asked for at once."""
    _GraphBox(box)


class _GraphBox:
    """The form, and the way from node to node."""

    def __init__(self, box: QueryBox) -> None:
        self._box = box
        address = box.address()
        hops, direction = address.get("hops", ""), address.get("direction", "")
        with box.form(self._ask):
            self._start = ui.input("Node", value=address.get("node", "")).props("dense outlined clearable")
            self._start.classes("grow")
            self._end = ui.input("Path to (empty: neighbors)").props("dense outlined clearable").classes("grow")
            self._hops = ui.number("Hops", value=1, min=1, max=_HOPS_MAX, precision=0).props("dense outlined")
            self._hops.classes("hops").bind_visibility_from(self._end, "value", backward=lambda goal: not goal)
            self._direction = ui.select(list(_DIRECTIONS), value="out", label="Direction").props("dense outlined")
            self._direction.classes("hops")
        if hops in map(str, range(1, _HOPS_MAX + 1)):
            self._hops.value = int(hops)
        if direction in _DIRECTIONS:
            self._direction.value = direction
        if self._start.value:
            ui.timer(0, self._ask, once=True)

    async def _ask(self) -> None:
        node, goal = (self._start.value or "").strip(), (self._end.value or "").strip()
        direction = self._direction.value
        if goal:
            asked = {"from": node, "to": goal, "direction": direction}
            show_path = partial(_show_path, go=self._go)
            await self._box.run(ConsoleRequest(path("views", self._box.view, "path"), asked), show_path)
            return
        query = {"node": node, "hops": int(self._hops.value or 1), "direction": direction}
        ui.navigate.history.replace(f"{path('console', 'views', self._box.view)}?{urlencode(query)}")
        asked_around = ConsoleRequest(path("views", self._box.view, "neighbors"), {**query, "limit": _NODES_MAX})
        await self._box.run(asked_around, partial(_show_around, node, go=self._go))

    async def _go(self, node: str) -> None:
        """Ask for the neighbors of a node of the answer."""
        self._start.value, self._end.value = node, ""
        await self._ask()


def _show_around(center: str, rows: Sequence[Row], go: Go) -> None:
    """Rings of nodes by their distance. Edges are drawn where the answer tells of them: to the nearest ring."""
    if len(rows) <= _DRAWN_MAX:
        rings = {str(row["node"]): int(row["hops"]) for row in rows}
        _clickable(charts.rings(center, rings), "The nodes around it; the list below has them, too", "chart tall", go)
    rows_table(rows, "node", go)


def _show_path(rows: Sequence[Row], go: Go) -> None:
    nodes = [str(row["node"]) for row in rows]
    if len(nodes) <= _DRAWN_MAX:
        _clickable(charts.chain(nodes), "The path; the list below has its nodes, too", "chart", go)
    rows_table(rows, "node", go)


def _clickable(options: dict[str, Any], label: str, classes: str, go: Go) -> None:
    """A picture whose nodes lead on. It is drawn on a canvas: with the keyboard one takes the list."""

    def clicked(event: GenericEventArguments) -> Any:
        return go(str(event.args["name"])) if event.args.get("dataType") == "node" else None

    drawing(options, label, classes).on("componentClick", clicked, args=["dataType", "name"])
