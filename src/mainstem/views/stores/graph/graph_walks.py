"""Walks over a graph view's edges: breadth first, a level a statement, so that they cost what they visit.

Answers are sorted, and the same for the same edges. Pure of state; for one thread at a time with its connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from mainstem.errors import QueryError
from mainstem.views.requests import Direction, NeighborsQuery, PathQuery
from mainstem.views.stores.sql.query_bounds import AnswerSize
from mainstem.views.stores.store import Row

_VARIABLES = 500
_VISITED_MAX = 1_000_000
_ALONG = "SELECT DISTINCT target FROM edges WHERE source IN ({})"
_AGAINST = "SELECT DISTINCT source FROM edges WHERE target IN ({})"
_STATEMENTS: dict[Direction, tuple[str, ...]] = {"out": (_ALONG,), "in": (_AGAINST,), "both": (_ALONG, _AGAINST)}
_REVERSED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def neighbors(connection: sqlite3.Connection, request: NeighborsQuery) -> list[Row]:
    """The nodes within ``request.hops``, each with its distance, nearest first."""
    seen = {request.node}
    rows: list[Row] = []
    frontier = {request.node}
    size = AnswerSize()
    for hops in range(1, request.hops + 1):
        frontier = _step(connection, frontier, request.direction) - seen
        seen |= frontier
        size.add(sum(map(len, frontier)))
        rows += [{"node": node, "hops": hops} for node in sorted(frontier)]
        if len(rows) > request.limit:
            raise QueryError(f"over {request.limit} nodes are within {hops} hops: ask for fewer, or raise `limit`")
        if not frontier:
            break
    return rows


def shortest_path(connection: sqlite3.Connection, request: PathQuery) -> list[Row]:
    """The nodes of a shortest path, in order; of several, the one whose nodes sort first."""
    levels = _levels_to(connection, request)
    if not levels:
        return []
    node = request.start
    rows: list[Row] = [{"node": node, "hops": 0}]
    for hops, level in enumerate(reversed(levels[:-1]), start=1):
        node = min(_step(connection, {node}, request.direction) & level)
        rows.append({"node": node, "hops": hops})
    return rows


def where_in(connection: sqlite3.Connection, statement: str, values: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Run ``statement``, whose ``{}`` is a list of values, over values in any number."""
    text = statement.format(",".join("?" * _VARIABLES))
    remaining = iter(values)
    while chunk := list(islice(remaining, _VARIABLES)):
        # Filled up with one of the values, so that the statement stays the same and is prepared once.
        yield from connection.execute(text, chunk + chunk[:1] * (_VARIABLES - len(chunk))).fetchall()


def _levels_to(connection: sqlite3.Connection, request: PathQuery) -> list[set[str]]:
    """The nodes at distance 0, 1, … to the end of the path, up to the level that has its start; none if none has."""
    if not _exists(connection, request.end):
        return []
    levels = [{request.end}]
    seen = {request.end}
    while request.start not in levels[-1]:
        level = _step(connection, levels[-1], _REVERSED[request.direction]) - seen
        if not level:
            return []
        seen |= level
        if len(seen) > _VISITED_MAX:
            raise QueryError(f"the path would lead over more than {_VISITED_MAX} nodes")
        levels.append(level)
    return levels


def _step(connection: sqlite3.Connection, nodes: set[str], direction: Direction) -> set[str]:
    return {row[0] for statement in _STATEMENTS[direction] for row in where_in(connection, statement, nodes)}


def _exists(connection: sqlite3.Connection, node: str) -> bool:
    found = "SELECT EXISTS (SELECT 1 FROM edges WHERE source = ?1) OR EXISTS (SELECT 1 FROM edges WHERE target = ?1)"
    return bool(connection.execute(found, (node,)).fetchone()[0])
