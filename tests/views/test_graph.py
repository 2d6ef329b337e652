from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.errors import QueryError
from mainstem.pipelines.kinds import Graph
from mainstem.views.requests import Direction, NeighborsQuery, PathQuery
from mainstem.views.stores.graph.graph import GraphStore
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import apply, flight, tombstone


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GraphStore]:
    """A → B → C → D, and A → C twice."""
    opened = GraphStore(tmp_path / "store", StoreDefinition("routes", Graph(source="origin", target="dest")))
    edges = ["AB", "BC", "CD", "AC", "AC"]
    apply(opened, [flight(f"{n}", edge[0], edge[1]) for n, edge in enumerate(edges)])
    yield opened
    opened.close()


def around(store: GraphStore, node: str, hops: int, direction: Direction = "out") -> list[tuple[str, int]]:
    return [(row["node"], row["hops"]) for row in store.query(NeighborsQuery(node, hops, direction)).rows]


def path(store: GraphStore, start: str, end: str, direction: Direction = "out") -> str:
    return "".join(row["node"] for row in store.query(PathQuery(start, end, direction)).rows)


def test_neighbors_come_with_their_distance_nearest_first(store: GraphStore) -> None:
    assert around(store, "A", 1) == [("B", 1), ("C", 1)]
    assert around(store, "A", 2) == [("B", 1), ("C", 1), ("D", 2)]


def test_edges_are_walked_in_the_direction_that_is_asked_for(store: GraphStore) -> None:
    assert around(store, "D", 3) == []
    assert around(store, "D", 1, "in") == [("C", 1)]
    assert around(store, "C", 1, "both") == [("A", 1), ("B", 1), ("D", 1)]


def test_a_node_that_is_not_there_has_no_neighbors(store: GraphStore) -> None:
    assert around(store, "Z", 5) == []


def test_an_edge_lives_as_long_as_a_record_supports_it(store: GraphStore) -> None:
    apply(store, [tombstone("3")], 5)
    assert ("C", 1) in around(store, "A", 1)
    apply(store, [tombstone("4")], 6)
    assert around(store, "A", 1) == [("B", 1)]


def test_a_record_that_changes_moves_its_edge(store: GraphStore) -> None:
    apply(store, [flight("2", "C", "E")], 5)
    assert around(store, "C", 1) == [("E", 1)]
    assert around(store, "D", 1, "both") == []


def test_a_shortest_path_has_a_row_for_each_node(store: GraphStore) -> None:
    assert store.query(PathQuery("A", "D")).rows == [
        {"node": "A", "hops": 0},
        {"node": "C", "hops": 1},
        {"node": "D", "hops": 2},
    ]


def test_of_several_shortest_paths_the_first_in_order_is_answered(store: GraphStore) -> None:
    apply(store, [flight("x", "B", "D")], 5)
    assert path(store, "A", "D") == "ABD"


def test_where_there_is_no_path_there_are_no_rows(store: GraphStore) -> None:
    assert (path(store, "D", "A"), path(store, "D", "A", "both")) == ("", "DCA")
    assert (path(store, "A", "Z"), path(store, "Z", "Z")) == ("", "")
    assert path(store, "A", "A") == "A"


def test_too_many_neighbors_are_an_error_and_not_a_cut(store: GraphStore) -> None:
    apply(store, [flight(f"s{n}", "S", f"T{n}") for n in range(20)], 5)
    with pytest.raises(QueryError, match="over 10 nodes"):
        store.query(NeighborsQuery("S", limit=10))


@pytest.mark.parametrize("field", ["origin", "dest"])
def test_a_record_without_both_ends_is_poison(store: GraphStore, field: str) -> None:
    [poison] = apply(store, [(b"9", b'{"%s": "A"}' % field.encode())], 5)
    assert "is missing or null" in poison.error


def test_numbers_are_nodes_by_their_text(store: GraphStore) -> None:
    apply(store, [(b"9", b'{"origin": 1, "dest": "2"}'), (b"8", b'{"origin": "2", "dest": 3}')], 5)
    assert around(store, "1", 2) == [("2", 1), ("3", 2)]


@pytest.mark.parametrize("seed", range(2))
def test_the_edges_are_those_of_the_records_that_are_left(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = GraphStore(tmp_path / "store", StoreDefinition("routes", Graph(source="origin", target="dest")))
    model: dict[str, tuple[str, str]] = {}
    for step in range(40):
        records = []
        for _ in range(chance.randrange(1, 15)):
            key = f"k{chance.randrange(20)}"
            if chance.random() < 0.4:
                model.pop(key, None)
                records.append(tombstone(key))
            else:
                model[key] = (chance.choice("ABCDEF"), chance.choice("ABCDEF"))
                records.append(flight(key, *model[key]))
        apply(store, records, step * 100)
        for node in "ABCDEF":
            expected = sorted({target for source, target in model.values() if source == node} - {node})
            assert [name for name, _ in around(store, node, 1)] == expected
    store.close()


def test_a_snapshot_closed_before_its_entries_were_read_holds_no_later_one_back(tmp_path: Path) -> None:
    store = GraphStore(tmp_path, StoreDefinition("routes", Graph(source="origin", target="dest")))
    apply(store, [flight(str(number), "A", str(number)) for number in range(3_000)])
    with store.snapshot() as snapshot:
        entries = snapshot.entries()
        next(entries)
    apply(store, [flight("x", "P", "Q")], 3_000)
    with store.snapshot() as newer:
        assert (newer.position, newer.count()) == (store.position, 3_001)
    with pytest.raises(sqlite3.ProgrammingError):
        next(entries)
    store.close()
