"""The small parts that pages are made of: text, links, cards, figures, tables, copy buttons.

Values from the log are always shown as text or as data, never as markup. Stateless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

Column = dict[str, Any]

_CELL = """
<q-td :props="props" :class="props.col.cls" :data-label="props.col.label">
  <a v-if="props.col.href" :href="props.row[props.col.href]" class="link">{{ props.value }}</a>
  <span v-else-if="props.col.bar" class="with-bar">
    <span class="track" aria-hidden="true"><span :style="{ width: props.row[props.col.bar] + '%' }"></span></span>
    <span>{{ props.value }}</span>
  </span>
  <button v-else-if="props.col.pick" type="button" class="as-link link" :title="props.col.pick"
    @click="$parent.$emit('act', props.row)">{{ props.value }}</button>
  <q-btn v-else-if="props.col.action" flat dense no-caps size="13px" :label="props.col.action" class="changes"
    :aria-label="props.col.action + ' ' + props.row[props.col.of]" @click="$parent.$emit('act', props.row)"></q-btn>
  <svg v-else-if="props.col.spark" v-show="props.row[props.col.spark]" class="spark" viewBox="0 0 96 22" role="img"
    :aria-label="props.row[props.col.spark]?.label">
    <title>{{ props.row[props.col.spark]?.label }}</title><polyline :points="props.row[props.col.spark]?.points" />
  </svg>
  <span v-else-if="props.col.state" class="state" :data-state="props.value">{{ props.value }}</span>
  <span v-else>{{ props.value }}</span>
</q-td>
"""


class Tag(TextElement):
    """Any HTML element that holds text."""

    def __init__(self, tag: str, content: str = "") -> None:
        super().__init__(tag=tag, text=content)


def text(content: str, classes: str = "", tag: str = "span") -> Tag:
    """Text."""
    made = Tag(tag, content)
    if classes:
        made.classes(classes)
    return made


def link(content: str, address: str, classes: str = "link") -> Tag:
    """A link within the console."""
    made = text(content, classes, "a")
    made.props["href"] = address
    return made


def position(content: str) -> Tag:
    """A position, copied by a click."""
    made = text(content or "nothing yet", "position", "button")
    made.props["type"] = "button"
    made.props["title"] = "Copy the position"
    made.on("click", js_handler="(event) => mainstem.copy(event.currentTarget.textContent.trim(), event)")
    return made


def state(word: str) -> Tag:
    """A state, as a word with a sign and a color that depend on it."""
    made = text(word, "state")
    made.props["data-state"] = word
    return made


def set_state(made: Tag, word: str) -> None:
    """Change what ``state`` shows."""
    if made.text != word:
        made.text = word
        made.props["data-state"] = word
        made.update()


def set_text_of(made: Tag, word: str) -> None:
    """Change a text, if it is another."""
    if made.text != word:
        made.text = word


@contextmanager
def card(title: str = "") -> Iterator[Element]:
    """A section with a heading."""
    with ui.element("section").classes("card") as made:
        if title:
            text(title, "card-title", "h2")
        yield made


def figure(label: str) -> Tag:
    """A number under its label; the number is the tag's text."""
    with ui.element("div").classes("figure"):
        text(label, "figure-label")
        return text("–", "figure-value")


def linked_figure(label: str) -> Tag:
    """A number under its label that may be a link: see ``show_link``."""
    with ui.element("div").classes("figure"):
        text(label, "figure-label")
        return link("–", "#", "figure-value")


def show_link(shown: Tag, word: str, address: str | None) -> None:
    """Show a word, as a link where it has an address."""
    if (shown.text, shown.props.get("href")) == (word, address):
        return
    shown.text = word
    if address is None:
        shown.props.pop("href", None)
    else:
        shown.props["href"] = address
    shown.classes(add="link" if address else "", remove="" if address else "link")
    shown.update()


def empty(headline: str, hint: str, command: str = "") -> Element:
    """The text for an empty list, with a hint how to fill it."""
    with ui.element("div").classes("empty") as made:
        text(headline, "empty-headline", "p")
        text(hint, "quiet", "p")
        if command:
            text(command, "", "code")
    return made


def drawing(options: Mapping[str, Any], label: str, classes: str = "chart") -> ui.echart:
    """A chart by ECharts' options; ``label`` describes it to those who do not see it."""
    made = ui.echart(dict(options)).classes(classes).props("role=img")
    made.props["aria-label"] = label
    return made


def column(name: str, label: str, **more: Any) -> Column:
    """A column of ``table``. ``href``: the field with the cell's address; ``format``: a function of console.js.

    ``bar``: the field with the length of a bar, from 0 to 100. ``action``: a button's label; a click is the table's
    event ``act``, with the row; ``of`` is the field that names the row. ``pick``: the cell is such a button itself, and
    this is its hint.
    ``spark``: the field with a line, as ``health.trends`` makes it.
    """
    made: Column = {"name": name, "label": label, "field": name, "align": "left", "sortable": True}
    if "format" in more:
        made[":format"] = f"value => mainstem.{more.pop('format')}(value)"
        made["align"] = "right"
    classes = more.pop("classes", "")
    header = " ".join(word for word in classes.split() if word in ("wide", "number"))
    return {**made, "cls": classes, "headerClasses": header, **more}


def table(columns: Sequence[Column], row_key: str, label: str, rows_a_page: int = 25) -> ui.table:
    """A table whose rows are replaced as data; sorted and paged in the browser."""
    made = ui.table(
        columns=list(columns), rows=[], row_key=row_key, pagination={"rowsPerPage": rows_a_page, "sortBy": None}
    )
    made.props('flat dense :rows-per-page-options="[25, 50, 100, 0]" no-data-label="Nothing here"').classes("table")
    made.props["rows-per-page-label"] = "Rows a page"
    made.props["aria-label"] = label
    made.add_slot("body-cell", _CELL)
    return made


def set_rows(made: ui.table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Show other rows, if they are others. The pager hides where one page is enough."""
    as_list = [dict(row) for row in rows]
    if made.rows != as_list:
        made.rows = as_list
        made.props["hide-bottom"] = 0 < len(as_list) <= made.pagination["rowsPerPage"]


def search_field(label: str, shown: ui.table, value: str = "") -> ui.input:
    """A field that filters a table while one types."""
    field = ui.input(label, value=value).props("dense outlined clearable type=search").classes("search")
    field.bind_value_to(shown, "filter")
    return field


def on_first_open(details: Element, build: Callable[[], None]) -> None:
    """Build the content of a ``details`` element when it is opened for the first time."""
    is_built = False

    def toggled() -> None:
        nonlocal is_built
        if not is_built:
            is_built = True
            build()

    details.on("toggle", toggled)


def problem(title: str, detail: str) -> Element:
    """The box that shows an error of the gateway."""
    with ui.element("div").classes("problem").props('role="alert"') as made:
        text(title, "problem-title", "strong")
        text(detail)
    return made
