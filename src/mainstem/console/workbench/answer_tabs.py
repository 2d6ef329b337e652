"""An answer of the workbench: as rows, chart, JSON and code; and the buttons that download it. Used by one page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from nicegui import ui
from nicegui.element import Element

from mainstem.console import charts
from mainstem.console.formats import count, cut, pretty
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import drawing, empty, text
from mainstem.console.query_boxes.box import Row, rows_table
from mainstem.console.requests import ConsoleRequest
from mainstem.console.workbench import downloads

_ROWS, _CHART, _JSON, _CODE = "Rows", "Chart", "JSON", "Copy as"
_JSON_CHARS_MAX = 50_000
_FILES = (("CSV", "csv", "text/csv"), ("JSON", "json", "application/json"), ("Parquet", "parquet", "application/x"))


class AnswerTabs:
    """One answer. ``asked`` is the request that it answers."""

    def __init__(self, page: Page, asked: ConsoleRequest, rows: Sequence[Row], view: str) -> None:
        self._page = page
        self._asked = asked
        self._rows = rows
        self._view = view
        self._chart = charts.of_rows(rows)
        with ui.element("div").classes("bar"):
            choices = [_ROWS, *([] if self._chart is None else [_CHART]), _JSON, _CODE]
            self._choice = ui.toggle(choices, value=_ROWS, on_change=self._choose)
            self._choice.props('dense no-caps unelevated aria-label="Show the answer as"').classes("choice")
            if rows:
                with ui.element("div").classes("downloads"):
                    for label, ending, media_type in _FILES:
                        made = ui.button(label, icon="download", on_click=self._download(ending, media_type))
                        made.props("flat dense no-caps").tooltip(f"Download {count(len(rows))} rows as {label}")
        self._place: Element = ui.element("div")
        self._choose()

    def _choose(self) -> None:
        self._place.clear()
        with self._place:
            what = self._choice.value
            if what == _CODE:
                self._page.show_request(self._asked)
            elif not self._rows:
                empty("No rows", "The view answered, and nothing matches.")
            elif what == _CHART and self._chart is not None:
                drawing(self._chart, "Chart of the answer")
            elif what == _JSON:
                shown, left_out = cut(pretty(list(self._rows)), _JSON_CHARS_MAX)
                text(shown, "value", "pre").props("tabindex=0")
                if left_out:
                    text(f"{left_out:,} more characters are not shown; a download has all of it.", "quiet", "p")
            else:
                rows_table(self._rows)

    def _download(self, ending: str, media_type: str) -> Callable[[], object]:
        async def download() -> None:
            if ending == "parquet":
                content = await asyncio.to_thread(downloads.as_parquet, self._rows, await self._types())
            else:
                content = await asyncio.to_thread(
                    downloads.as_csv if ending == "csv" else downloads.as_json, self._rows
                )
            ui.download.content(content, f"{self._view}.{ending}", media_type)

        return download

    async def _types(self) -> list[str]:
        """The types of the answer's columns, where the database names them for the query."""
        body = {"query": "DESCRIBE\n" + self._asked.body["query"], "limit": 10_000}
        asked = ConsoleRequest(self._asked.path, self._asked.query, "POST", body)
        try:
            answer = await self._page.ask(asked, is_listed=False)
        except GatewayError:
            return []
        return [str(row["column_type"]) for row in answer["rows"]]
