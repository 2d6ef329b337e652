"""The numbers in the flow's picture: the text of each node and arrow, and how each arrow is drawn. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mainstem.console import listing
from mainstem.console.flow.flow_graph import Edge, FlowGraph
from mainstem.console.flow.flow_picture import lag_id, line_id, text_ids
from mainstem.console.formats import rate, short

Documents = Sequence[Mapping[str, Any]]
Texts = dict[str, tuple[str, str | None]]
Lines = dict[str, tuple[float, bool]]

_GOOD = frozenset({"running", "waiting", "live", "finished"})
_UNDER_WAY = frozenset({"starting", "catching up", "restarting", "paused", "log unavailable", "host unreachable"})
_THIN, _WIDEST = 1.5, 7.0


def totals_of(topics: Documents, pipelines: Documents, views: Documents) -> dict[str, int]:
    """The counters whose rates the picture shows, by node, and by pipeline and input."""
    totals = {f"topic:{topic['name']}": listing.total(topic["end"]) for topic in topics}
    totals |= {f"view:{view['name']}": listing.total(view["position"]) for view in views}
    for pipeline in pipelines:
        for topic in pipeline["inputs"]:
            totals[f"read:{pipeline['name']}:{topic}"] = listing.total(pipeline["source"], topic)
    return totals


def lags_of(pipelines: Documents, views: Documents) -> dict[str, int | None]:
    """The lag of each pipeline and view."""
    lags: dict[str, int | None] = {f"pipeline:{pipeline['name']}": pipeline["lag"] for pipeline in pipelines}
    return lags | {f"view:{view['name']}": view["lag"] for view in views}


def node_texts(graph: FlowGraph, topics: Documents, pipelines: Documents, views: Documents) -> Texts:
    """The last line of each node, and whether it is good."""
    ids, _ = text_ids(graph)
    said = {f"topic:{topic['name']}": (f"{topic['offsets']:,} offsets", None) for topic in topics}
    texts: Texts = {ids[node]: text for node, text in said.items() if node in ids}
    for kind, entries, word in (("pipeline", pipelines, "status"), ("view", views, "state")):
        for entry in entries:
            node = f"{kind}:{entry['name']}"
            if node in ids:
                texts[ids[node]] = (entry[word], quality(kind, entry[word]))
    return texts


def edge_texts(
    graph: FlowGraph, rates: Mapping[str, float | None], lags: Mapping[str, int | None], rising: Collection[str]
) -> tuple[Texts, Lines]:
    """The texts of the arrows; and of each arrow its width, by its rate, and whether the lag behind it rises."""
    _, ids = text_ids(graph)
    texts: Texts = {}
    lines: Lines = {}
    for edge in graph.edges:
        if edge.is_table:
            continue
        per_second = edge_rate(edge, rates)
        texts[ids[edge]] = (rate(per_second), None)
        lines[line_id(ids[edge])] = (width(per_second), edge.target in rising)
        if edge.target in lags:
            mark = " ↑" if edge.target in rising else ""
            texts[lag_id(ids[edge])] = (f"lag {short(lags[edge.target])}{mark}", "bad" if mark else "")
    return texts, lines


def width(per_second: float | None) -> float:
    """The width of an arrow: one step wider for each tenfold rate."""
    return _THIN if not per_second else round(min(_WIDEST, _THIN + math.log10(1 + per_second)), 2)


def edge_rate(edge: Edge, rates: Mapping[str, float | None]) -> float | None:
    """How many records pass an arrow in a second."""
    kind, _, name = edge.target.partition(":")
    if kind == "topic":
        return rates.get(edge.target)
    source = edge.source.partition(":")[2]
    return rates.get(edge.target if kind == "view" else f"read:{name}:{source}")


def quality(kind: str, word: str) -> str:
    """Whether a state is good, bad, or under way."""
    if (kind, word) == ("view", "waiting"):
        return "warn"  # for what is missing; a pipeline waits when it has derived all that is in the log
    return "good" if word in _GOOD else "warn" if word in _UNDER_WAY else "bad"
