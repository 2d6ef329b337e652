"""The flow's graph as SVG: nodes are links, so the keyboard reaches them; numbers have ids, so they change in place.

Arrows bend in the first part of the gap between two columns; the rest is straight and has the label, its rate above and
the target's lag below, so that no arrow runs through a label. All names are escaped, because every user who may create
a topic can choose them. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from mainstem.console.flow.flow_graph import Edge, FlowGraph, FlowNode

_WIDTH, _HEIGHT = 156, 62
_GAP_X, _GAP_Y = 100, 18
_BEND = 44
_MARGIN = 10
_NAME_MAX = 20
_BESIDE = 2
_GAP_LAYERS = 74

Point = tuple[float, float]


def text_ids(graph: FlowGraph) -> tuple[dict[str, str], dict[Edge, str]]:
    """The ids of the texts that change: of each node, and of each arrow."""
    nodes = [node for column in graph.columns for node in column]
    return (
        {node.id: f"flow-node-{number}" for number, node in enumerate(nodes)},
        {edge: f"flow-edge-{number}" for number, edge in enumerate(graph.edges)},
    )


def lag_id(edge_id: str) -> str:
    """The id of an arrow's second text. Of several arrows into one node the last has it: the lag is the node's."""
    return f"{edge_id}-lag"


def line_id(edge_id: str) -> str:
    """The id of an arrow's line."""
    return f"{edge_id}-line"


def picture(graph: FlowGraph, *, is_vertical: bool = False) -> str:
    """The whole picture as an SVG element, from left to right; ``is_vertical``: from top to bottom."""
    node_ids, edge_ids = text_ids(graph)
    corners, width, height = _layers(graph) if is_vertical else _columns(graph)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [f'<svg {size} style="--width: {width:.0f}px" role="group" aria-label="The flow">']
    parts.append(
        '<defs><marker id="flow-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/></marker></defs>'
    )
    parts += _edges(graph, corners, edge_ids, is_vertical)
    parts += [_node(node, corners[node.id], node_ids[node.id]) for column in graph.columns for node in column]
    return "".join([*parts, "</svg>"])


def _columns(graph: FlowGraph) -> tuple[dict[str, Point], float, float]:
    """The corners of the nodes from left to right, and the size of the picture."""
    rows = max((len(column) for column in graph.columns), default=0)
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    width = 2 * _MARGIN + len(graph.columns) * (_WIDTH + _GAP_X) - _GAP_X
    corners: dict[str, Point] = {}
    for index, column in enumerate(graph.columns):
        used = len(column) * (_HEIGHT + _GAP_Y) - _GAP_Y
        top = (height - used) / 2
        for row, node in enumerate(column):
            corners[node.id] = (_MARGIN + index * (_WIDTH + _GAP_X), top + row * (_HEIGHT + _GAP_Y))
    return corners, width, height


def _layers(graph: FlowGraph) -> tuple[dict[str, Point], float, float]:
    """The corners of the nodes from top to bottom, two beside each other, and the size of the picture."""
    width = 2 * _MARGIN + _BESIDE * (_WIDTH + _GAP_Y) - _GAP_Y
    corners: dict[str, Point] = {}
    top: float = _MARGIN
    for column in graph.columns:
        for first in range(0, len(column), _BESIDE):
            row = column[first : first + _BESIDE]
            left = (width - len(row) * (_WIDTH + _GAP_Y) + _GAP_Y) / 2
            for number, node in enumerate(row):
                corners[node.id] = (left + number * (_WIDTH + _GAP_Y), top)
            top += _HEIGHT + _GAP_Y
        top += _GAP_LAYERS - _GAP_Y
    return corners, width, top - _GAP_LAYERS + _MARGIN if graph.columns else top


def _edges(graph: FlowGraph, corners: Mapping[str, Point], ids: Mapping[Edge, str], is_vertical: bool) -> list[str]:
    into: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge)
    lines: list[str] = []
    labels: list[str] = []
    for target, edges in into.items():
        edges.sort(key=lambda edge: corners[edge.source][0 if is_vertical else 1])
        last = next((edge for edge in reversed(edges) if not edge.is_table), None)
        for number, edge in enumerate(edges, 1):
            share = number / (len(edges) + 1)
            drawn, (x, y) = (_down if is_vertical else _across)(corners[edge.source], corners[target], share)
            kind = "edge table" if edge.is_table else "edge"
            lines.append(
                f'<path class="{kind}" id="{line_id(ids[edge])}" data-source="{escape(edge.source, quote=True)}" '
                f'data-target="{escape(edge.target, quote=True)}" marker-end="url(#flow-tip)" d="{drawn}"/>'
            )
            if not edge.is_table:
                labels.append(_label(ids[edge], x - 5 if is_vertical else x - 10, y - 8 if is_vertical else y - 5))
            if edge is last:
                place = (x + 5, y - 8, "start") if is_vertical else (x - 10, y + 14)
                labels.append(_label(lag_id(ids[edge]), *place))
    return lines + labels


def _across(source: Point, target: Point, share: float) -> tuple[str, Point]:
    """The line of an arrow from left to right, and where it ends. It bends before its label."""
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT / 2
    x2, y2 = target[0] - 1, target[1] + _HEIGHT * share
    bent, half = x2 - _GAP_X + _BEND, _BEND / 2
    line = (
        f"M{x1:.0f} {y1:.1f} H{bent - _BEND:.0f} C{bent - half:.0f} {y1:.1f} {bent - half:.0f} {y2:.1f} "
        f"{bent:.0f} {y2:.1f} H{x2:.0f}"
    )
    return line, (x2, y2)


def _down(source: Point, target: Point, share: float) -> tuple[str, Point]:
    """The line of an arrow from top to bottom, and where it ends. It bends before its label."""
    x1, y1 = source[0] + _WIDTH / 2, source[1] + _HEIGHT
    x2, y2 = target[0] + _WIDTH * share, target[1] - 1
    bent, half = y2 - _GAP_LAYERS + _BEND, _BEND / 2
    line = (
        f"M{x1:.1f} {y1:.0f} V{bent - _BEND:.0f} C{x1:.1f} {bent - half:.0f} {x2:.1f} {bent - half:.0f} "
        f"{x2:.1f} {bent:.0f} V{y2:.0f}"
    )
    return line, (x2, y2)


def _label(text_id: str, x: float, y: float, anchor: str = "end") -> str:
    return f'<text class="edge-label" id="{text_id}" text-anchor="{anchor}" x="{x:.0f}" y="{y:.1f}"/>'


def _node(node: FlowNode, corner: Point, text_id: str) -> str:
    x, y = corner
    name = node.name if len(node.name) <= _NAME_MAX else node.name[: _NAME_MAX - 1] + "…"
    address, chosen_by = escape(node.address, quote=True), escape(node.id, quote=True)
    return (
        f'<a class="{node.kind}" data-node="{chosen_by}" href="{address}" aria-label="{escape(node.label)} '
        f'{escape(node.name, quote=True)}"><title>{escape(node.name)}</title>'
        f'<rect x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>'
        f'<text class="kind" x="{x + 12:.0f}" y="{y + 19:.1f}">{escape(node.label.upper())}</text>'
        f'<text x="{x + 12:.0f}" y="{y + 36:.1f}">{escape(name)}</text>'
        f'<text class="sub" id="{text_id}" x="{x + 12:.0f}" y="{y + 53:.1f}"/></a>'
    )
