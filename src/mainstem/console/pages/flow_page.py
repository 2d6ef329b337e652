"""``/``: the flow from topics over pipelines to views, with live rates and lag on the arrows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from nicegui import context, ui

from mainstem.console import listing
from mainstem.console.flow.flow_graph import Edge, FlowGraph, graph_of
from mainstem.console.flow.flow_picture import lag_id, picture, text_ids
from mainstem.console.formats import rate, short
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.listing import Document
from mainstem.console.parts import card, empty, figure, text
from mainstem.console.rates import Rates

_GOOD = frozenset({"running", "waiting", "live", "finished"})
_UNDER_WAY = frozenset({"starting", "catching up", "restarting", "log unavailable", "host unreachable"})

Texts = dict[str, tuple[str, str | None]]


async def show(client: GatewayClient, search: str) -> None:
    """Build the page."""
    with page(client, "Flow", "Flow") as this:
        _Flow(this, search)


class _Flow:
    """The picture and what changes in it."""

    def __init__(self, this: Page, search: str) -> None:
        self._page = this
        self._rates = Rates()
        self._drawn: str | None = None
        with card():
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in ("Topics", "Offsets", "Appended", "Pipelines", "Views")]
        with card():
            with ui.element("div").classes("bar"):
                self._search = ui.input("Find a topic, pipeline or view", value=search)
                self._search.props("dense outlined clearable type=search").classes("search")
            self._place = ui.html("", sanitize=False).classes("flow")
            self._empty = empty(
                "Nothing flows yet",
                "Topics, pipelines and views appear here as soon as there are any.",
                "mainstem run APP.py",
            )
            self._unmatched = empty(
                "Nothing has that in its name", "The picture shows what matches, and what is next to it."
            )
            self._empty.set_visibility(False)
            self._unmatched.set_visibility(False)
            with ui.element("div").classes("legend"):
                text("On an arrow: records a second; below it, the lag in records")
                text("Dotted: read as a table")
        this.every(self._refresh)

    async def _refresh(self) -> None:
        topics = await listing.topics(self._page)
        pipelines, views = await listing.pipelines(self._page), await listing.views(self._page)
        search = (self._search.value or "").strip()
        graph = graph_of(topics, pipelines, views, search)
        drawn = picture(graph) if graph.columns else ""
        if drawn != self._drawn:
            self._drawn = drawn
            self._place.set_content(drawn)
        self._empty.set_visibility(not drawn and not search)
        self._unmatched.set_visibility(not drawn and bool(search))
        texts = self._texts(graph, topics, pipelines, views)
        if drawn:
            context.client.run_javascript(f"setTimeout(() => mainstem.flow({json.dumps(texts)}), 0)")

    def _texts(
        self, graph: FlowGraph, topics: Sequence[Document], pipelines: Sequence[Document], views: Sequence[Document]
    ) -> Texts:
        totals = {f"topic:{topic['name']}": listing.total(topic["end"]) for topic in topics}
        totals |= {f"view:{view['name']}": listing.total(view["position"]) for view in views}
        for pipeline in pipelines:
            for topic in pipeline["inputs"]:
                totals[f"read:{pipeline['name']}:{topic}"] = listing.total(pipeline["source"], topic)
        rates = self._rates.look(totals, time.monotonic())
        offsets = {topic["name"]: topic["offsets"] for topic in topics}
        shown = [topic for topic in topics if not listing.is_own_topic(topic)]
        appended = [rates[f"topic:{topic['name']}"] for topic in shown]
        self._tell(
            len(shown),
            sum(topic["offsets"] for topic in shown),
            sum(value for value in appended if value is not None) if any(v is not None for v in appended) else None,
            len(pipelines),
            len(views),
        )
        node_ids, edge_ids = text_ids(graph)
        lags = {f"pipeline:{pipeline['name']}": pipeline["lag"] for pipeline in pipelines}
        lags |= {f"view:{view['name']}": view["lag"] for view in views}
        texts: Texts = {}
        for name, count in offsets.items():
            if f"topic:{name}" in node_ids:
                texts[node_ids[f"topic:{name}"]] = (f"{count:,} offsets", None)
        for kind, entries, word in (("pipeline", pipelines, "status"), ("view", views, "state")):
            for entry in entries:
                if f"{kind}:{entry['name']}" in node_ids:
                    quality = _quality(kind, entry[word])
                    texts[node_ids[f"{kind}:{entry['name']}"]] = (entry[word], quality)
        for edge in graph.edges:
            if not edge.is_table:
                texts[edge_ids[edge]] = (_edge_rate(edge, rates), None)
                if edge.target in lags:
                    texts[lag_id(edge_ids[edge])] = (f"lag {short(lags[edge.target])}", None)
        return texts

    def _tell(self, topics: int, offsets: int, appended: float | None, pipelines: int, views: int) -> None:
        words = (f"{topics:,}", short(offsets), rate(appended), f"{pipelines:,}", f"{views:,}")
        for shown, word in zip(self._figures, words, strict=True):
            shown.text = word


def _edge_rate(edge: Edge, rates: Mapping[str, float | None]) -> str:
    kind, _, name = edge.target.partition(":")
    if kind == "topic":
        return rate(rates.get(edge.target))
    source = edge.source.partition(":")[2]
    return rate(rates.get(edge.target if kind == "view" else f"read:{name}:{source}"))


def _quality(kind: str, word: str) -> str:
    if (kind, word) == ("view", "waiting"):
        return "warn"  # for what is missing; a pipeline waits when it has derived all there is
    return "good" if word in _GOOD else "warn" if word in _UNDER_WAY else "bad"
