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
_SCALE_MIN = 0.78

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


def picture(graph: FlowGraph) -> str:
    """The whole picture as an SVG element."""
    node_ids, edge_ids = text_ids(graph)
    rows = max((len(column) for column in graph.columns), default=0)
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    width = 2 * _MARGIN + len(graph.columns) * (_WIDTH + _GAP_X) - _GAP_X
    corners = _corners(graph, height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = f"min-width: {width * _SCALE_MIN:.0f}px"  # a narrow screen scales it so far, then it scrolls
    parts = [f'<svg {size} style="{style}" role="group" aria-label="The flow">']
    parts.append(
        '<defs><marker id="flow-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="var(--quiet)"/></marker></defs>'
    )
    parts += _edges(graph, corners, edge_ids)
    parts += [_node(node, corners[node.id], node_ids[node.id]) for column in graph.columns for node in column]
    return "".join([*parts, "</svg>"])


def _corners(graph: FlowGraph, height: float) -> dict[str, Point]:
    corners: dict[str, Point] = {}
    for index, column in enumerate(graph.columns):
        used = len(column) * (_HEIGHT + _GAP_Y) - _GAP_Y
        top = (height - used) / 2
        for row, node in enumerate(column):
            corners[node.id] = (_MARGIN + index * (_WIDTH + _GAP_X), top + row * (_HEIGHT + _GAP_Y))
    return corners


def _edges(graph: FlowGraph, corners: Mapping[str, Point], ids: Mapping[Edge, str]) -> list[str]:
    into: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge)
    lines: list[str] = []
    labels: list[str] = []
    for target, edges in into.items():
        edges.sort(key=lambda edge: corners[edge.source][1])
        last = next((edge for edge in reversed(edges) if not edge.is_table), None)
        for number, edge in enumerate(edges, 1):
            x1, y1 = corners[edge.source][0] + _WIDTH, corners[edge.source][1] + _HEIGHT / 2
            x2, y2 = corners[target][0] - 1, corners[target][1] + _HEIGHT * number / (len(edges) + 1)
            bent, half = x2 - _GAP_X + _BEND, _BEND / 2
            kind = "edge table" if edge.is_table else "edge"
            lines.append(
                f'<path class="{kind}" marker-end="url(#flow-tip)" '
                f'd="M{x1:.0f} {y1:.1f} H{bent - _BEND:.0f} C{bent - half:.0f} {y1:.1f} {bent - half:.0f} {y2:.1f} '
                f'{bent:.0f} {y2:.1f} H{x2:.0f}"/>'
            )
            if not edge.is_table:
                labels.append(_label(ids[edge], x2, y2 - 5))
            if edge is last:
                labels.append(_label(lag_id(ids[edge]), x2, y2 + 13))
    return lines + labels


def _label(text_id: str, x: float, y: float) -> str:
    return f'<text class="edge-label" id="{text_id}" text-anchor="end" x="{x - 10:.0f}" y="{y:.1f}"/>'


def _node(node: FlowNode, corner: Point, text_id: str) -> str:
    x, y = corner
    name = node.name if len(node.name) <= _NAME_MAX else node.name[: _NAME_MAX - 1] + "…"
    return (
        f'<a class="{node.kind}" href="{escape(node.address, quote=True)}" aria-label="{escape(node.label)} '
        f'{escape(node.name, quote=True)}"><title>{escape(node.name)}</title>'
        f'<rect x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>'
        f'<text class="kind" x="{x + 12:.0f}" y="{y + 18:.1f}">{escape(node.label.upper())}</text>'
        f'<text x="{x + 12:.0f}" y="{y + 35:.1f}">{escape(name)}</text>'
        f'<text class="sub" id="{text_id}" x="{x + 12:.0f}" y="{y + 52:.1f}"/></a>'
    )
