"""``/``: the flow from topics over pipelines to views, with live rates and lag on the arrows.

A click on a node chooses it: what leads to it and what it leads to stay lit, and a panel shows its numbers and links.
A position that is followed turns the nodes that have reached it green.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from nicegui import context, ui
from nicegui.events import GenericEventArguments

from mainstem.console import listing
from mainstem.console.flow.flow_graph import FlowGraph, connected, graph_of
from mainstem.console.flow.flow_numbers import edge_texts, lags_of, node_texts, totals_of
from mainstem.console.flow.flow_picture import picture
from mainstem.console.flow.follow_bar import FollowBar
from mainstem.console.flow.lag_trends import LagTrends
from mainstem.console.flow.node_panel import NodePanel
from mainstem.console.formats import rate, short
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.listing import Document
from mainstem.console.parts import card, empty, figure, text
from mainstem.console.rates import Rates

_BROWSER_S = 5.0


async def show(client: GatewayClient, search: str) -> None:
    """Build the page."""
    with page(client, "Flow", "Flow") as this:
        _Flow(this, search)


class _Flow:
    """The picture and what changes in it."""

    def __init__(self, this: Page, search: str) -> None:
        self._page = this
        self._client = context.client
        self._rates = Rates()
        self._trends = LagTrends()
        self._drawn: str | None = None
        self._chosen: str | None = None
        self._was_narrow = False
        self._graph = FlowGraph((), ())
        self._documents: dict[str, Document] = {}
        self._rate_of: Mapping[str, float | None] = {}
        this.begin(listing.TOPICS, listing.PIPELINES, listing.VIEWS)
        with card():
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in ("Topics", "Offsets", "Appended", "Pipelines", "Views")]
        with card():
            self._build_bar(search)
            with ui.element("div").classes("flow-with-panel"):
                self._place = ui.html("", sanitize=False).classes("flow")
                self._place.on("click", self._on_click, js_handler="(event) => mainstem.flowClick(event, emit)")
                self._panel = NodePanel(self._choose_nothing)
            self._build_empty()
            with ui.element("div").classes("legend"):
                text("On an arrow: records a second, and the lag in records; wider: more records; red: the lag rises")
                text("Dotted: read as a table")
            self._follow = FollowBar(this, lambda _: self._light())
        this.every(self._refresh)

    def _build_bar(self, search: str) -> None:
        with ui.element("div").classes("bar"):
            self._search = ui.input("Find a topic, pipeline or view", value=search)
            self._search.props("dense outlined clearable type=search").classes("search")
            with ui.element("div").classes("zoom").props('role="group" aria-label="Size of the picture"'):
                for icon, label, step in (("remove", "Smaller", -1), ("add", "Larger", 1), ("fit_screen", "Fit", 0)):
                    made = ui.button(icon=icon).props(f'flat round dense aria-label="{label}" title="{label}"')
                    made.on("click", js_handler=f"() => mainstem.flowZoom({step})")

    def _build_empty(self) -> None:
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

    async def _refresh(self) -> None:
        topics, pipelines, views = await asyncio.gather(
            listing.topics(self._page), listing.pipelines(self._page), listing.views(self._page)
        )
        answered_s = self._page.answered_s(listing.TOPICS)
        search = (self._search.value or "").strip()
        self._graph = graph_of(topics, pipelines, views, search)
        drawn = picture(self._graph, is_vertical=await self._is_narrow()) if self._graph.columns else ""
        if drawn != self._drawn:
            self._drawn = drawn
            self._place.set_content(drawn)
        self._empty.set_visibility(not drawn and not search)
        self._unmatched.set_visibility(not drawn and bool(search))
        self._documents = {
            **{f"topic:{topic['name']}": topic for topic in topics},
            **{f"pipeline:{pipeline['name']}": pipeline for pipeline in pipelines},
            **{f"view:{view['name']}": view for view in views},
        }
        self._rate_of = self._rates.look(totals_of(topics, pipelines, views), answered_s)
        self._show_figures(topics, len(pipelines), len(views))
        if drawn:
            self._show_numbers(topics, pipelines, views)
            self._light()
        self._show_chosen()

    async def _is_narrow(self) -> bool:
        narrow = "return matchMedia('(max-width: 760px)').matches"
        with suppress(TimeoutError):  # a browser that is busy: as it was
            self._was_narrow = bool(await self._client.run_javascript(narrow, timeout=_BROWSER_S))
        return self._was_narrow

    def _show_numbers(
        self, topics: Sequence[Document], pipelines: Sequence[Document], views: Sequence[Document]
    ) -> None:
        lags = lags_of(pipelines, views)
        texts, lines = edge_texts(self._graph, self._rate_of, lags, self._trends.look(lags))
        texts |= node_texts(self._graph, topics, pipelines, views)
        self._run(f"setTimeout(() => mainstem.flow({json.dumps(texts)}, {json.dumps(lines)}), 0)")

    def _light(self) -> None:
        """Light what is connected with the chosen node, and what the followed position has reached."""
        lit = None if self._chosen is None else sorted(connected(self._graph, self._chosen))
        self._run(
            f"setTimeout(() => mainstem.flowLight({json.dumps(lit)}, {json.dumps(sorted(self._follow.reached))}), 0)"
        )

    def _run(self, code: str) -> None:
        self._client.run_javascript(code)

    def _on_click(self, event: GenericEventArguments) -> None:
        node = event.args
        known = {each.id for column in self._graph.columns for each in column}
        if not isinstance(node, str) or node not in known:
            return
        self._chosen = None if node == self._chosen else node
        self._show_chosen()
        self._light()

    def _choose_nothing(self) -> None:
        self._chosen = None
        self._show_chosen()
        self._light()

    def _show_chosen(self) -> None:
        nodes = {node.id: node for column in self._graph.columns for node in column}
        if self._chosen not in nodes:
            self._chosen = None
            self._panel.hide()
            self._follow.offer(None)
            return
        node = nodes[self._chosen]
        before = [nodes[edge.source] for edge in self._graph.edges if edge.target == node.id]
        after = [nodes[edge.target] for edge in self._graph.edges if edge.source == node.id]
        document = self._documents.get(node.id, {})
        self._panel.show(node, document, self._rate_of, before, after)
        self._follow.offer(node.name if node.kind == "topic" and document else None)

    def _show_figures(self, topics: Sequence[Document], pipelines: int, views: int) -> None:
        shown = [topic for topic in topics if not listing.is_own_topic(topic)]
        known = [value for topic in shown if (value := self._rate_of[f"topic:{topic['name']}"]) is not None]
        offsets: Any = sum(topic["offsets"] for topic in shown)
        appended = rate(sum(known) if known else None)
        words = (f"{len(shown):,}", short(offsets), appended, f"{pipelines:,}", f"{views:,}")
        for figure_shown, word in zip(self._figures, words, strict=True):
            figure_shown.text = word
