"""The rows that changed between two moments, as a table: what went is struck out, what came is green. Stateless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.console.formats import one_line
from mainstem.console.parts import column, set_rows, table, text

_COLUMNS_MAX = 30
_CELL_CHARS_MAX = 200
_KEY = "_key"

_CELL = """
<q-td :props="props" :data-label="props.col.label">
  <span v-if="typeof props.value !== 'object' || props.value === null">{{ props.value }}</span>
  <span v-else class="changed">
    <del v-if="props.value.was !== null"><span class="said">before: </span>{{ props.value.was }}</del>
    <ins v-if="props.value.is !== null"><span class="said">after: </span>{{ props.value.is }}</ins>
  </span>
</q-td>
"""

_Change = Mapping[str, Any]


def show_changes(changes: Sequence[_Change]) -> None:
    """Build the table."""
    names = [name for name in _names(changes) if name != _KEY]
    columns = [column("key", "Key", classes="mono"), column("what", "Change")]
    columns += [column(f"field {name}", name, sortable=False) for name in names[:_COLUMNS_MAX]]
    shown = table(columns, "key", "Changes").classes("cards changes")
    shown.add_slot("body-cell", _CELL)
    set_rows(shown, [cells(change, names[:_COLUMNS_MAX]) for change in changes])
    if len(names) > _COLUMNS_MAX:
        text(f"{len(names) - _COLUMNS_MAX} more columns are not shown; the code below gets all.", "quiet", "p")


def cells(change: _Change, names: Sequence[str]) -> dict[str, Any]:
    """One changed row: of each field its text, or what it was and what it is."""
    before, after = change["before"], change["after"]
    row: dict[str, Any] = {"key": change["key"], "what": what_happened(change)}
    for name in names:
        was, became = (_shown(side, name) for side in (before, after))
        row[f"field {name}"] = was if was == became else {"was": was, "is": became}
    return row


def what_happened(change: _Change) -> str:
    """The change in a word."""
    if change["before"] is None:
        return "added"
    return "removed" if change["after"] is None else "changed"


def _names(changes: Sequence[_Change]) -> list[str]:
    sides = [side for change in changes for side in (change["before"], change["after"]) if side]
    return list(dict.fromkeys(name for side in sides for name in side))


def _shown(side: Mapping[str, Any] | None, name: str) -> str | None:
    if side is None or name not in side:
        return None
    value = side[name]
    return one_line("null" if value is None else value, _CELL_CHARS_MAX)
