"""``confirm_by_name``: the question before something is deleted for good. It takes the name, typed once more."""

from __future__ import annotations

from nicegui import ui

from mainstem.console.parts import text


async def confirm_by_name(title: str, consequences: str, name: str, action: str) -> str | None:
    """Ask, and wait for the answer. Returns what was typed, which is ``name``; None when it is not wanted.

    The button works only while the field holds the name. Call it from the handler of a click.
    """
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        text(title, "card-title", "h2")
        text(consequences, "", "p")
        with ui.element("form") as form:
            typed = (
                ui.input(f"Type {name} to go on").props("dense outlined autofocus autocomplete=off").classes("field")
            )
            with ui.element("div").classes("bar"):
                button = ui.button(action).props("unelevated no-caps type=submit color=negative")
                button.bind_enabled_from(typed, "value", backward=lambda value: (value or "").strip() == name)
                ui.button("Leave it", on_click=lambda: dialog.submit(None)).props("flat no-caps")

        def submit() -> None:
            given = (typed.value or "").strip()
            if given == name:
                dialog.submit(given)

        form.on("submit.prevent", submit)
    answer: str | None = await dialog
    dialog.delete()
    return answer
