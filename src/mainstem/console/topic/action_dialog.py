"""``ActionDialog``: a form in a dialog. It shows its plan before it executes it, and the gateway's error if it fails.

Enter submits the form: first the plan, if there is one, then the action. A changed field asks for the plan again. With
``confirm`` the action waits until its name is typed. Used by one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import problem, text


class InvalidFieldError(Exception):
    """A field of the form has no value that can be sent."""


class ActionDialog:
    """The dialog; its fields are built within ``fields``."""

    def __init__(
        self,
        title: str,
        verb: str,
        execute: Callable[[], Awaitable[None]],
        *,
        plan: Callable[[], Awaitable[bool]] | None = None,
        plan_verb: str = "Show what would change",
        confirm: str | None = None,
    ) -> None:
        """``plan`` shows what would happen, and returns whether it is worth executing."""
        self._execute, self._plan = execute, plan
        self._verb, self._plan_verb = verb, plan_verb
        self._confirm = confirm
        self._is_planned = False
        self.dialog = ui.dialog()
        self.dialog.props["aria-label"] = title
        with self.dialog, ui.card().classes("dialog"):
            self.title = text(title, "card-title", "h2")
            with ui.element("form").classes("dialog-form") as form:
                form.on("submit.prevent", self._submit)
                self.fields = ui.element("div")
                self.planned = ui.element("div").props('aria-live="polite"')
                self._name = ui.input(f"Type {confirm} to confirm", on_change=self._show_step)
                self._name.props("dense outlined autocomplete=off").classes("field")
                self._problem = ui.element("div").props('aria-live="polite"')
                with ui.element("div").classes("bar"):
                    self._button = ui.button(verb).props("unelevated no-caps type=submit")
                    ui.button("Cancel", on_click=self.dialog.close).props("flat no-caps")
        self._show_step()

    def open(self) -> None:
        """Open it, as new."""
        self.changed()
        self._name.value = ""
        self.dialog.open()

    def changed(self) -> None:
        """Forget the plan: a field has another value."""
        self._is_planned = False
        self.planned.clear()
        self._problem.clear()
        self._show_step()

    def _show_step(self) -> None:
        is_last = self._plan is None or self._is_planned
        self._button.text = self._verb if is_last else self._plan_verb
        self._button.props("color=negative" if is_last and self._confirm else "color=primary")
        self._name.set_visibility(is_last and self._confirm is not None)
        self._button.set_enabled(not is_last or self._confirm in (None, self._name.value))

    async def _submit(self) -> None:
        is_last = self._plan is None or self._is_planned
        if is_last and self._confirm not in (None, self._name.value):
            return
        self._problem.clear()
        self._button.props("loading")
        try:
            if self._plan is not None and not self._is_planned:
                self.planned.clear()
                self._is_planned = await self._plan()
            else:
                await self._execute()
                self.dialog.close()
        except GatewayError as error:
            self._show_problem(error.title, error.detail)
        except InvalidFieldError as error:
            self._show_problem("Not sent", str(error))
        finally:
            self._button.props(remove="loading")
            self._show_step()

    def _show_problem(self, title: str, detail: str) -> None:
        with self._problem:
            problem(title, detail)
