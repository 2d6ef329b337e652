"""Where topics, pipelines and views stand in the flow's picture, and that names in it are no markup."""

from __future__ import annotations

import re
from typing import Any

from mainstem.console.flow.flow_graph import Edge, graph_of
from mainstem.console.flow.flow_picture import picture


def topic(name: str) -> dict[str, Any]:
    return {"name": name, "internal": False}


def pipeline(name: str, reads: str, writes: str, tables: str = "") -> dict[str, Any]:
    return {"name": name, "inputs": [reads], "outputs": [writes], "tables": tables}


def names(columns: tuple[tuple[Any, ...], ...]) -> list[list[str]]:
    return [[node.name for node in column] for column in columns]


def test_a_node_stands_behind_all_that_leads_to_it() -> None:
    views = [{"name": "v", "topic": "c", "kind": "sql"}]
    graph = graph_of([], [pipeline("p", "a", "b"), pipeline("q", "b", "c", "t/0:1")], views)
    assert names(graph.columns) == [["a", "t"], ["p"], ["b"], ["q"], ["c"], ["v"]]
    assert Edge("topic:t", "pipeline:q", is_table=True) in graph.edges


def test_a_pipeline_that_reads_what_it_writes_is_drawn_too() -> None:
    graph = graph_of([], [pipeline("p", "a", "b"), pipeline("q", "b", "a")], [])
    assert {node.name for column in graph.columns for node in column} == {"a", "b", "p", "q"}
    assert picture(graph).endswith("</svg>")


def test_of_many_topics_that_nothing_reads_a_few_are_shown() -> None:
    graph = graph_of([topic(f"t{number:03d}") for number in range(100)], [], [])
    assert names(graph.columns)[0][-1] == "94 more topics"
    assert names(graph_of([topic("abc"), topic("xyz")], [], [], "b").columns) == [["abc"]]


def test_a_name_is_never_markup() -> None:
    views = [{"name": '<img src=x onerror="alert(1)">', "topic": "a", "kind": "<b>"}]
    assert "<img" not in picture(graph_of([], [], views))
    assert "<b>" not in picture(graph_of([], [], views))


def test_arrows_bend_before_their_labels_and_the_lag_of_a_node_is_told_once() -> None:
    joining = {"name": "p", "inputs": ["t", "u"], "outputs": ["out"], "tables": ""}
    drawn = picture(graph_of([topic("t"), topic("u"), topic("out")], [joining], [], ""))
    ends = [(float(bent), float(end)) for bent, end in re.findall(r"([\d.]+) [\d.]+ H(\d+)\"", drawn)]
    assert len(ends) == 3
    assert all(end - bent >= 50 for bent, end in ends)
    assert len(re.findall(r'id="flow-edge-\d+"', drawn)) == 3
    assert len(re.findall(r'id="flow-edge-\d+-lag"', drawn)) == 2  # one of p, one of out, which nobody fills


def test_a_captured_database_is_a_source_with_its_capture_s_page() -> None:
    capture = pipeline("shop", "__mainstem_postgres.shop", "shop.orders")
    graph = graph_of([], [capture], [])
    database = graph.columns[0][0]
    assert (database.name, database.label, database.address) == ("shop", "PostgreSQL", "/console/pipelines/shop")
