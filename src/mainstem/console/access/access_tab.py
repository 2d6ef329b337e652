"""``AccessTab``: a list of the page about access, with its form, its row button and its errors. Used by one page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import Column, card, empty, problem, search_field, set_rows, table, text
from mainstem.console.requests import ConsoleRequest

Document = dict[str, Any]


class AccessTab:
    """A table that is filled by ``refresh``; ``load`` asks for its rows. A row's button calls ``act``."""

    def __init__(
        self,
        page: Page,
        title: str,
        columns: Sequence[Column],
        load: Callable[[], Awaitable[list[Document]]],
        act: Callable[[Document], Awaitable[None]],
    ) -> None:
        self.page = page
        self._load = load
        self._rows: dict[str, Document] = {}
        with card(title):
            with ui.element("div").classes("bar"):
                place = ui.element("div")
            self._table = table(columns, "id", title).classes("cards")
            with place:
                search_field(f"Find in {title}", self._table)
            self._note = ui.element("div").props('aria-live="polite"')
            self.result = ui.element("div").props('aria-live="polite"')
        self._shown = ""

        async def on_act(event: GenericEventArguments) -> None:
            row = self._rows.get(str((event.args or {}).get("id")))  # by our own rows, whatever the browser sends
            if row is not None:
                await act(row)

        self._table.on("act", on_act)

    async def refresh(self) -> None:
        """Show the rows as they are now, or why there are none."""
        try:
            rows = await self._load()
        except GatewayError as error:
            if error.status not in (403, 409):
                raise
            self._rows = {}
            self._tell(error.title, error.detail, "")
            return
        self._rows = {row["id"]: row for row in rows}
        set_rows(self._table, rows)
        self._table.set_visibility(bool(rows))
        if rows:
            self._note.clear()
            self._shown = ""
        else:
            self._tell("Nothing here yet", "The form below adds the first one.", "")

    def _tell(self, headline: str, hint: str, command: str) -> None:
        self._table.set_visibility(False)
        if self._shown != headline + hint:
            self._shown = headline + hint
            self._note.clear()
            with self._note:
                empty(headline, hint, command)

    async def change(self, asked: ConsoleRequest, shown: ConsoleRequest | None = None) -> Any:
        """Send a change, and refresh; None when it is refused, which is then shown.

        ``shown``: the request as the page shows it, where the sent one holds a secret.
        """
        self.result.clear()
        try:
            answer = await self.page.ask(asked, is_listed=shown is None)
        except GatewayError as error:
            with self.result:
                problem(error.title, error.detail)
            return None
        with self.result:
            self.page.show_request(shown or asked)
        await self.refresh()
        return answer


@contextmanager
def change_form(title: str, submit: Callable[[], Awaitable[None]], button: str) -> Iterator[None]:
    """A form in a card, which a console that only reads does not show."""
    with card() as shown, ui.element("details"):
        shown.classes("changes")
        with ui.element("summary"):
            text(title, "card-title summary-title")
        with ui.element("form") as form:
            form.on("submit.prevent", submit)
            yield
            ui.button(button).props("unelevated no-caps type=submit")
