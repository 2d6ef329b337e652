"""What needs a whole graph: its edges are loaded into rustworkx for the one question. Pure of state.

Only edges are loaded, each once with its number of records, so a graph of few edges is cheap however many records it
has. Over ``_EDGES_MAX`` the question is refused, because it would take memory and minutes.
"""

from __future__ import annotations

import sqlite3

import rustworkx

from mainstem.errors import QueryError
from mainstem.views.requests import Components, Rank
from mainstem.views.stores.store import Row

_EDGES_MAX = 5_000_000


def components(connection: sqlite3.Connection, request: Components) -> list[Row]:
    """Each node with its component; see the request."""
    graph = _load(connection)
    found = [sorted(graph[index] for index in part) for part in rustworkx.weakly_connected_components(graph)]
    found.sort(key=lambda nodes: (-len(nodes), nodes[0]))
    rows: list[Row] = [{"node": node, "component": nodes[0]} for nodes in found for node in nodes]
    if len(rows) > request.limit:
        raise QueryError(f"the graph has {len(rows)} nodes, over the limit of {request.limit}: raise `limit`")
    return rows


def rank(connection: sqlite3.Connection, request: Rank) -> list[Row]:
    """The first nodes by PageRank; see the request."""
    graph = _load(connection)
    if not len(graph):
        return []
    ranks = rustworkx.pagerank(graph, weight_fn=float)
    rows: list[Row] = [{"node": graph[index], "rank": share} for index, share in ranks.items()]
    rows.sort(key=lambda row: (-row["rank"], row["node"]))
    return rows[: request.limit]


def _load(connection: sqlite3.Connection) -> rustworkx.PyDiGraph:
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    if count > _EDGES_MAX:
        raise QueryError(f"the graph has {count} edges; over {_EDGES_MAX} this question is not answered")
    graph = rustworkx.PyDiGraph()
    index_of: dict[str, int] = {}
    for source, target, records in connection.execute("SELECT source, target, records FROM edges ORDER BY 1, 2"):
        for node in (source, target):
            if node not in index_of:
                index_of[node] = graph.add_node(node)
        graph.add_edge(index_of[source], index_of[target], records)
    return graph
