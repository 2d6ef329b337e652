"""``/console/pipelines`` and ``/console/pipelines/{pipeline}``: how each pipeline is, how fast, and what went wrong."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from mainstem.console import charts, listing
from mainstem.console.formats import NOTHING, ago, count, duration, rate, size
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient, GatewayError
from mainstem.console.health.history_charts import charts_of_pipeline
from mainstem.console.health.history_panel import HistoryPanel
from mainstem.console.health.trends import Trends, trend_column
from mainstem.console.listing import Document
from mainstem.console.parts import (
    card,
    column,
    drawing,
    empty,
    figure,
    link,
    linked_figure,
    position,
    problem,
    search_field,
    set_rows,
    set_state,
    show_link,
    state,
    table,
    text,
)
from mainstem.console.pipeline.pipeline_commands import PipelineCommands
from mainstem.console.pipeline.run_log_card import RunLogCard, plan_card
from mainstem.console.records.new_letters import NewLetters, address_of
from mainstem.console.requests import path
from mainstem.model import DATABASE_TOPIC_PREFIX

_LOG_REFRESH_S = 3.0
_TABLES_MAX = 30
_COLUMNS = (
    column("name", "Pipeline", href="address"),
    column("status", "State", state=True),
    column("lag", "Lag", format="count"),
    trend_column("Lag"),
    column("input_rows_per_second", "Rows in", format="rate", classes="wide"),
    column("input_rows", "Rows read", format="count", classes="wide"),
    column("written_rows", "Rows written", format="count", classes="wide"),
    column("micro_batches", "Micro-batches", format="count", classes="wide"),
    column("took", "Last took", align="right", classes="wide"),
)


async def show_all(client: GatewayClient) -> None:
    """Build the list."""
    with page(client, "Pipelines", "Pipelines") as this:
        with card():
            place = ui.element("div").classes("bar")
            shown = table(_COLUMNS, "name", "Pipelines").classes("cards")
            with place:
                search_field("Find a pipeline", shown)
            nothing = empty(
                "No pipelines yet", "A pipeline appears here when it first runs.", "mainstem run examples/flights.py"
            )
            nothing.set_visibility(False)

        trends = Trends(this, "pipeline/*/lag")
        this.begin(listing.PIPELINES, trends.asked)

        async def refresh() -> None:
            await trends.refresh()
            rows = [_row(pipeline) | trends.of(pipeline["name"]) for pipeline in await listing.pipelines(this)]
            set_rows(shown, rows)
            shown.set_visibility(bool(rows))
            nothing.set_visibility(not rows)

        this.every(refresh)


def _row(pipeline: Document) -> Document:
    whole_ms = pipeline.get("durations_ms", {}).get("triggerExecution")
    return {
        **{column["field"]: pipeline.get(column["field"]) for column in _COLUMNS},
        "took": duration(None if whole_ms is None else whole_ms / 1000),
        "address": path("console", "pipelines", pipeline["name"]),
    }


async def show_one(client: GatewayClient, name: str) -> None:
    """Build the page of one pipeline."""
    with page(client, name, "Pipelines", (("Pipelines", "/console/pipelines"),), "Pipeline") as this:
        shown = _Pipeline(this, name)
        await this.fill(shown.refresh)
        this.every(shown.refresh)
        text("Over time", "card-title", "h2")
        HistoryPanel(this, charts_of_pipeline(name), path("console", "pipelines", name), "24h", name)
        this.every(RunLogCard(this, name).refresh, _LOG_REFRESH_S)
        plan_card(this, name)


class _Pipeline:
    """One pipeline, kept fresh."""

    def __init__(self, this: Page, name: str) -> None:
        self._page = this
        self._name = name
        self._known: dict[str, Any] = {}
        with card():
            with ui.element("div").classes("state-line"):
                self._state = state("starting")
                self._new_letters = NewLetters(this)
                self._commands = PipelineCommands(this, name, self.refresh)
            with ui.element("div").classes("figures"):
                labels = (
                    "Lag",
                    "Rows a second",
                    "Rows read",
                    "Rows written",
                    "Micro-batches",
                    "Restarts",
                    "State rows",
                    "Values made null",
                )
                self._figures = [figure(label) for label in labels]
                self._letters = linked_figure("Dead letters")
            self._failure = ui.element("div")
        with card("Micro-batches"):
            label = "Durations of the last micro-batches by phase, and their rows"
            self._chart = drawing(charts.micro_batches([]), label)
            self._no_batches = text("No micro-batch has been reported yet.", "quiet", "p")
        with card("Where it is"):
            self._facts = ui.element("dl").classes("facts")

    async def refresh(self) -> None:
        """Show how the pipeline is now."""
        found = [pipeline for pipeline in await listing.pipelines(self._page) if pipeline["name"] == self._name]
        if not found:
            set_state(self._state, "no pipeline of this name has run")
            raise GatewayError(404, "No such pipeline", f"no pipeline {self._name[:100]!r} has run on this log")
        self._show(found[0])
        letters = listing.dead_letter_topic(found[0])
        known = await self._new_letters.look(letters)
        show_link(self._letters, count(known), address_of(letters) if known else None)

    def _show(self, pipeline: Document) -> None:
        set_state(self._state, pipeline["status"])
        self._commands.show(pipeline)
        words = (
            count(pipeline["lag"]),
            rate(pipeline.get("input_rows_per_second")),
            count(pipeline.get("input_rows")),
            count(pipeline.get("written_rows")),
            count(pipeline.get("micro_batches")),
            count(pipeline.get("restarts")),
            count(pipeline.get("state_rows")),
            count(sum(number for _, number in _nulled_values(pipeline))),
        )
        for shown, word in zip(self._figures, words, strict=True):
            shown.text = word
        if self._is_new("failure", pipeline.get("failure")):
            self._failure.clear()
            with self._failure:
                _show_failure(pipeline.get("failure"))
        recent = pipeline.get("recent", [])
        if self._is_new("recent", recent):
            self._chart.options.clear()
            self._chart.options.update(charts.micro_batches(recent))
            self._chart.update()
        self._chart.set_visibility(bool(recent))
        self._no_batches.set_visibility(not recent)
        names = ("inputs", "outputs", "source", "sink", "tables", "watermark", "watermark_held_by", "trigger", "app")
        facts = {name: pipeline.get(name) for name in (*names, "nulled_values", "database")}
        facts |= {"up": (pipeline.get("uptime_s") or 0) // 5 * 5, "seen": (pipeline.get("seen_ms") or 0) // 5_000}
        if self._is_new("facts", facts):
            self._facts.clear()
            with self._facts:
                _show_facts(pipeline)

    def _is_new(self, part: str, document: Any) -> bool:
        if part in self._known and self._known[part] == document:
            return False
        self._known[part] = document
        return True


def _show_failure(failure: Document | None) -> None:
    if failure is None:
        return
    next_ms = failure["next_try_ms"]
    when = "" if next_ms is None else f" It is tried again in {duration(max(0, next_ms / 1000 - time.time()))}."
    problem(f"Failed {ago(failure['at_ms'], time.time() * 1000)}", failure["text"] + when)


def _nulled_values(pipeline: Document) -> list[tuple[str, int]]:
    """The columns with values that do not fit, by topic, and how many became null."""
    found = pipeline.get("nulled_values", {}).items()
    return [(f"{topic} {column}", number) for topic, columns in found for column, number in columns.items()]


def _database_facts(database: Document) -> list[tuple[str, str]]:
    """A capture: the positions of its database and slot, and the snapshots of its tables, the unfinished first."""
    if not database:
        return []
    tables, safe_bytes = database["tables"], database.get("safe_bytes")
    done = len(tables) - database["snapshots_pending"]
    shown = sorted(tables.items(), key=lambda each: (each[1]["snapshot_done"], each[0]))[:_TABLES_MAX]
    more = f" and {count(len(tables) - _TABLES_MAX)} more" if len(tables) > _TABLES_MAX else ""
    return [
        ("Database captured up to", database["lsn"]),
        ("Slot", f"{database['slot']}, {database.get('slot_status', 'not known')}"),
        ("Database's log behind", size(database.get("lag_bytes"))),
        ("Database's log kept for the slot", size(database.get("kept_bytes"))),
        ("Room before the slot is lost", "no limit" if safe_bytes is None else size(safe_bytes)),
        ("Snapshots", f"{done} of {len(tables)} tables done"),
        ("Tables", ", ".join(_table_words(name, table) for name, table in shown) + more),
    ]


def _table_words(name: str, table: Document) -> str:
    rows = f"{count(table['snapshot_rows'])} rows"
    return f"{name} ({rows} in its snapshot)" if table["snapshot_done"] else f"{name} ({rows} of its snapshot so far)"


def _show_facts(pipeline: Document) -> None:
    for label, names in (("Reads", pipeline["inputs"]), ("Writes", pipeline["outputs"])):
        text(label, "", "dt")
        with ui.element("dd"):
            for number, name in enumerate(names):
                if number:
                    text(", ")
                if name.startswith(DATABASE_TOPIC_PREFIX):
                    text(f"PostgreSQL database {name.removeprefix(DATABASE_TOPIC_PREFIX)}")
                else:
                    link(name, path("console", "topics", name))
    for label, name in (("Has read up to", "source"), ("Has written up to", "sink"), ("Tables joined up to", "tables")):
        if pipeline[name]:
            text(label, "", "dt")
            with ui.element("dd"):
                position(pipeline[name])
    for label, value in (
        *_database_facts(pipeline.get("database", {})),
        ("Values made null", ", ".join(f"{count(number)} in {name}" for name, number in _nulled_values(pipeline))),
        ("Watermark", pipeline.get("watermark")),
        ("Watermark held by", pipeline.get("watermark_held_by")),
        ("Trigger", pipeline.get("trigger")),
        ("App", pipeline.get("app")),
        ("Up for", duration(pipeline.get("uptime_s"))),
        ("Last heard of", ago(pipeline.get("seen_ms"), time.time() * 1000)),
    ):
        text(label, "", "dt")
        text(str(value) if value else NOTHING, "", "dd")
