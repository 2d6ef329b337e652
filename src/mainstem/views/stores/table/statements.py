"""Statements for any driver: SQL with quoted names and with values that the driver hands over. Pure but for the cursor.

Every product reads names in double quotes: SQLite and PostgreSQL by the standard, MariaDB by its ``sql_mode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class Sql(str):
    """A part of a statement that is SQL already: a quoted name, a type, an expression."""

    __slots__ = ()


def quoted(*parts: str) -> Sql:
    """A name as a quoted identifier, its parts joined by dots."""
    return Sql(".".join('"' + part.replace('"', '""') + '"' for part in parts))


def listed(parts: Iterable[str], between: str = ", ") -> Sql:
    """Parts that are SQL already, joined."""
    return Sql(between.join(parts))


class Cursor:
    """A cursor of any driver. Each ``{}`` in a statement is a part: SQL that was composed already, or a value.

    Values are handed to the driver as parameters. A ``%`` or ``?`` in a name has no meaning.
    """

    def __init__(self, raw: Any, placeholder: str) -> None:
        self.raw = raw
        self._placeholder = placeholder

    def run(self, statement: str, *parts: Any) -> None:
        """Execute a statement."""
        self.raw.execute(*self._composed(statement, parts))

    def run_many(self, statement: Sql, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement whose placeholders are the driver's own, once for each row."""
        self.raw.executemany(statement, rows)

    def row(self) -> Any:
        """The next row, or None."""
        return self.raw.fetchone()

    def rows(self) -> list[Any]:
        """The rows that are left."""
        found: list[Any] = list(self.raw.fetchall())
        return found

    @property
    def changed(self) -> int:
        """How many rows the last statement matched."""
        return int(self.raw.rowcount)

    def _composed(self, statement: str, parts: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
        pieces = statement.split("{}")
        assert len(pieces) == len(parts) + 1, statement
        texts = [self._escaped(pieces[0])]
        values = []
        for part, piece in zip(parts, pieces[1:], strict=True):
            if isinstance(part, Sql):
                texts.append(self._escaped(part))
            else:
                texts.append(self._placeholder)
                values.append(part)
            texts.append(self._escaped(piece))
        return "".join(texts), tuple(values)

    def _escaped(self, text: str) -> str:
        return text.replace("%", "%%") if self._placeholder == "%s" else text
