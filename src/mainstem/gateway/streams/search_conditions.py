"""The conditions of a search: a text in key, value or headers, and comparisons of fields of a JSON value.

    carrier = 'UA' AND delay > 120 AND dest.state != null

A comparison is FIELD OPERATOR VALUE. A field is a name, or names with dots for nested objects; a name of other signs is
written in double quotes. Operators: ``= != < <= > >=``, and ``~`` for a text within a text. A value is a text in single
quotes (two of them for one inside), a number, ``true``, ``false`` or ``null``. All comparisons must hold. A field that
is missing is null; values of different types are unequal, and in no order. Text is compared without regard to case by
``~`` and by the search for a text.

It is no SQL: what a stranger sends is read by one pass of a pattern, and takes time in proportion to its length. Pure
functions; values are immutable.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mainstem.errors import InputError
from mainstem.json_depth import is_too_deep
from mainstem.model import Record

WHERE_CHARS_MAX: Final = 2_000
TEXT_CHARS_MAX: Final = 1_000
COMPARISONS_MAX: Final = 20
_NAME: Final = r'(?:[A-Za-z_][A-Za-z0-9_]*|"[^"]+")'
_COMPARISON: Final = re.compile(
    rf"\s*(?P<field>{_NAME}(?:\.{_NAME})*)\s*(?P<operator><=|>=|!=|<>|=|<|>|~)\s*"
    r"(?P<value>'(?:[^']|'')*'|-?(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?|true|false|null)"
    r"(?=\s|$)\s*",
    re.IGNORECASE,
)
_AND: Final = re.compile(r"and\b", re.IGNORECASE)
_ORDERED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One comparison: the path of the field, the operator, the value."""

    path: tuple[str, ...]
    sign: str
    value: Any

    def holds(self, document: Any) -> bool:
        """Whether it holds for a value."""
        found = document
        for name in self.path:
            found = found.get(name) if isinstance(found, dict) else None
        if self.sign in ("=", "!="):
            return _is_equal(found, self.value) == (self.sign == "=")
        if self.sign == "~":
            return isinstance(found, str) and str(self.value).casefold() in found.casefold()
        are_alike = (_is_number(found) and _is_number(self.value)) or (
            isinstance(found, str) and isinstance(self.value, str)
        )
        return are_alike and _ORDERED[self.sign](found, self.value)


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """The conditions that a record must meet. ``text`` is in lower case; empty: any."""

    text: str
    comparisons: tuple[FieldComparison, ...]

    @classmethod
    def parse(cls, text: str | None, where: str | None) -> SearchConditions:
        """Read what was asked. Raises InputError."""
        comparisons = _comparisons(where or "")
        if not text and not comparisons:
            raise InputError("nothing to search for: give text, where or both")
        return cls((text or "").casefold(), comparisons)

    def hold(self, record: Record) -> bool:
        """Whether a record, as it is shown, has all of it."""
        if self.text and not self._has_text(record):
            return False
        if not self.comparisons:
            return True
        document = _document(record.value)
        return document is not None and all(each.holds(document) for each in self.comparisons)

    def _has_text(self, record: Record) -> bool:
        parts = (record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value)))
        return any(part is not None and self.text in part.decode(errors="replace").casefold() for part in parts)


def _comparisons(where: str) -> tuple[FieldComparison, ...]:
    found: list[FieldComparison] = []
    at = 0
    while at < len(where.rstrip()):
        match = _COMPARISON.match(where, at)
        if match is None:
            raise InputError(
                f"where: cannot read {where[at : at + 60].strip()!r}: write FIELD OPERATOR VALUE, such as delay > 120 "
                "or carrier = 'UA', and AND between several"
            )
        found.append(FieldComparison(_path(match["field"]), match["operator"].replace("<>", "!="), _value(match)))
        if len(found) > COMPARISONS_MAX:
            raise InputError(f"where: at most {COMPARISONS_MAX} comparisons")
        at = match.end()
        joined = _AND.match(where, at)
        if at < len(where) and (joined is None or not where[joined.end() :].strip()):
            raise InputError(f"where: AND and a comparison are expected at {where[at : at + 60].strip()!r}")
        at = at if joined is None else joined.end()
    return tuple(found)


def _path(field: str) -> tuple[str, ...]:
    return tuple(name.strip('"') for name in re.findall(_NAME, field))


def _value(match: re.Match[str]) -> Any:
    written = match["value"]
    if written.startswith("'"):
        return written[1:-1].replace("''", "'")
    return json.loads(written.lower())


def _document(value: bytes | None) -> Any:
    """The JSON object of a value; None if it is none."""
    if value is None or value[:1] != b"{":
        return None
    try:
        text = value.decode()
        return None if is_too_deep(text) else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_equal(found: Any, value: Any) -> bool:
    if _is_number(found) and _is_number(value):
        return bool(found == value)
    return type(found) is type(value) and bool(found == value)
