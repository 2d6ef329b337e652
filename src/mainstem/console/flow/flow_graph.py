"""The flow as a graph: topics, the pipelines between them, the views behind them; and the place of each in the picture.

1. Connected topics are shown; of the others a few, and one node for the rest.
2. A node's column is the longest way to it from a topic that nothing derives.
3. In a column, nodes are in the order of the middle of what leads to them, so that few arrows cross.

Pure functions over the gateway's documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from mainstem.console.requests import path
from mainstem.model import DATABASE_TOPIC_PREFIX, Position

NodeKind = Literal["topic", "pipeline", "view"]

_SOURCE, _TARGET = attrgetter("source"), attrgetter("target")
_LONE_TOPICS_MAX = 6
_COLUMNS_MAX = 64


@dataclass(frozen=True)
class FlowNode:
    """A topic, a pipeline or a view. ``id`` is unique over all kinds."""

    id: str
    kind: NodeKind
    name: str
    address: str
    label: str = ""


@dataclass(frozen=True)
class Edge:
    """From a topic to its reader, or from a pipeline to its output; ``is_table``: read as a table."""

    source: str
    target: str
    is_table: bool = False


@dataclass(frozen=True)
class FlowGraph:
    """Nodes by column, top to bottom, and the arrows between them."""

    columns: tuple[tuple[FlowNode, ...], ...]
    edges: tuple[Edge, ...]


def graph_of(
    topics: Iterable[Mapping[str, Any]],
    pipelines: Iterable[Mapping[str, Any]],
    views: Iterable[Mapping[str, Any]],
    search: str = "",
) -> FlowGraph:
    """The graph of what the gateway lists; with ``search``, of what has that in its name, and its neighbors."""
    nodes: dict[str, FlowNode] = {}
    edges: list[Edge] = []

    def add(kind: NodeKind, name: str, label: str = "") -> str:
        node = FlowNode(f"{kind}:{name}", kind, name, path("console", f"{kind}s", name), label or kind)
        return nodes.setdefault(node.id, node).id

    def add_source(topic: str, pipeline: str) -> str:
        """A topic; or a database, whose page is that of its capture."""
        if not topic.startswith(DATABASE_TOPIC_PREFIX):
            return add("topic", topic)
        name, page = topic.removeprefix(DATABASE_TOPIC_PREFIX), path("console", "pipelines", pipeline)
        node = FlowNode(f"topic:{topic}", "topic", name, page, "PostgreSQL")
        return nodes.setdefault(node.id, node).id

    for pipeline in pipelines:
        name = add("pipeline", pipeline["name"])
        edges += [Edge(add_source(topic, pipeline["name"]), name) for topic in pipeline["inputs"]]
        tables = Position.parse(pipeline["tables"]).topics if pipeline["tables"] else frozenset()
        edges += [Edge(add("topic", topic), name, True) for topic in sorted(tables - set(pipeline["inputs"]))]
        edges += [Edge(name, add("topic", topic)) for topic in pipeline["outputs"]]
    for view in views:
        edges.append(Edge(add("topic", view["topic"]), add("view", view["name"], view["kind"])))
    lone = sorted(
        topic["name"]
        for topic in topics
        if f"topic:{topic['name']}" not in nodes and not topic["internal"] and not topic["name"].startswith("__")
    )
    if search:
        for name in lone:
            add("topic", name)
        return _laid_out(*_matching(nodes, edges, search.lower()))
    for name in lone[:_LONE_TOPICS_MAX]:
        add("topic", name)
    if len(lone) > _LONE_TOPICS_MAX:
        rest = FlowNode("more", "topic", f"{len(lone) - _LONE_TOPICS_MAX} more topics", "/console/topics", "topics")
        nodes[rest.id] = rest
    return _laid_out(nodes, edges)


def connected(graph: FlowGraph, node: str) -> frozenset[str]:
    """A node, all that leads to it, and all that it leads to."""
    found = {node}
    for near, far in ((_TARGET, _SOURCE), (_SOURCE, _TARGET)):
        unread = [node]
        while unread:
            here = unread.pop()
            others = {far(edge) for edge in graph.edges if near(edge) == here} - found
            found |= others
            unread += others
    return frozenset(found)


def _matching(nodes: dict[str, FlowNode], edges: list[Edge], search: str) -> tuple[dict[str, FlowNode], list[Edge]]:
    found = {node.id for node in nodes.values() if search in node.name.lower()}
    near = [edge for edge in edges if edge.source in found or edge.target in found]
    kept = found | {edge.source for edge in near} | {edge.target for edge in near}
    return {name: node for name, node in nodes.items() if name in kept}, near


def _laid_out(nodes: Mapping[str, FlowNode], edges: Sequence[Edge]) -> FlowGraph:
    columns = _columns(nodes, edges)
    ordered: list[list[FlowNode]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for name, node in nodes.items():
        ordered[columns[name]].append(node)
    into: dict[str, list[str]] = {name: [] for name in nodes}
    out_of: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        into[edge.target].append(edge.source)
        out_of[edge.source].append(edge.target)
    for column in ordered:
        column.sort(key=lambda node: (not out_of[node.id] and not into[node.id], node.id == "more", node.name))
    for neighbors, sweep in ((into, ordered), (out_of, ordered[::-1]), (into, ordered)):
        place = {node.id: index for column in ordered for index, node in enumerate(column)}
        for column in sweep:
            _sort_by_middle(column, neighbors, place)
    return FlowGraph(tuple(tuple(column) for column in ordered), tuple(edges))


def _sort_by_middle(column: list[FlowNode], neighbors: Mapping[str, Sequence[str]], place: dict[str, int]) -> None:
    def middle(node: FlowNode) -> float:
        around = neighbors[node.id]
        return sum(place[name] for name in around) / len(around) if around else place[node.id] + 0.25

    column.sort(key=middle)
    place.update({node.id: index for index, node in enumerate(column)})


def _columns(nodes: Mapping[str, FlowNode], edges: Sequence[Edge]) -> dict[str, int]:
    """The longest way to each node; a pipeline that reads what it writes ends the counting, not the program."""
    columns = dict.fromkeys(nodes, 0)
    for _ in range(min(len(nodes), _COLUMNS_MAX)):
        moved = False
        for edge in edges:
            if columns[edge.target] <= columns[edge.source] < _COLUMNS_MAX - 1:
                columns[edge.target] = columns[edge.source] + 1
                moved = True
        if not moved:
            break
    used = sorted(set(columns.values()))
    return {name: used.index(column) for name, column in columns.items()}
