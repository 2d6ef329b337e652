"""The rules for comparing one key's records in a topic with a batch: equal, held back, or a difference. Pure.

There are two rules. ``MULTISET``, for rows that never change: the topic has each record as often as the batch.
``LATEST``, for rows that change: the topic's latest value of the key is one that the batch gives.

Two values are alike when their bytes are the same, or when their JSON differs only in the last digits of floating
columns: a sum of DOUBLEs depends on the order of its parts, and that order varies from run to run.
"""

from __future__ import annotations

import datetime
import enum
import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

UNKNOWN: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)
"""Stands for a watermark whose time is unknown."""
DOUBLE_TOLERANCE: Final = 1e-9
FLOAT_TOLERANCE: Final = 1e-6
_LEAST_MARGIN: Final = FLOAT_TOLERANCE * FLOAT_TOLERANCE


class Rule(enum.StrEnum):
    """How a topic is compared."""

    MULTISET = "each record"
    LATEST = "the latest value of each key"


class DifferenceKind(enum.StrEnum):
    """The kind of difference between a key's records when their bytes differ on the two sides."""

    ROUNDING = "rounding"
    HELD_BACK = "held back"
    UNDECIDED = "may be held back"
    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    NOT_JUDGED = "not judged"

    @property
    def is_difference(self) -> bool:
        return self in (DifferenceKind.MISSING, DifferenceKind.EXTRA, DifferenceKind.CHANGED)


@dataclass(frozen=True, slots=True)
class Side:
    """A value of a key, how often the batch gives it and the topic has it, and where the topic has it first."""

    value: bytes | None
    expected: int
    actual: int
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class ComparedKey:
    """A finding about ``count`` records; ``partition`` and ``offset`` are those of the actual one."""

    finding: DifferenceKind
    expected: bytes | None
    actual: bytes | None
    partition: int | None
    offset: int | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """The rules for one topic.

    ``tolerances`` are those of its floating columns. ``watermark``: a missing row counts as held back while the
    watermark has not passed the row's time in the column ``event_time``. If no column has the time (None), or the
    watermark is UNKNOWN, the row may be held back, and this cannot be decided. Without a watermark (None) no row is.
    """

    rule: Rule
    tolerances: Mapping[str, float] = field(default_factory=dict)
    watermark: datetime.datetime | None = None
    event_time: str | None = None
    not_judged: frozenset[DifferenceKind] = frozenset()

    def judge(self, key: bytes | None, sides: Sequence[Side]) -> Iterator[ComparedKey]:
        """The findings for one key's records. Records without a key are compared together if they share a ``shape``."""
        found = self._latest(sides) if self.rule is Rule.LATEST else self._multiset(key, sides)
        for one in found:
            yield replace(one, finding=DifferenceKind.NOT_JUDGED) if one.finding in self.not_judged else one

    def alike(self, one: bytes | None, other: bytes | None) -> bool:
        """Whether two values are equal within the tolerances."""
        if one == other:
            return True
        if one is None or other is None or not self.tolerances:
            return False
        first, second = _row(one), _row(other)
        if not first or first.keys() != second.keys():
            return False
        return all(_close(value, second[name], self.tolerances.get(name, 0.0)) for name, value in first.items())

    def _latest(self, sides: Sequence[Side]) -> Iterator[ComparedKey]:
        expected = [side for side in sides if side.expected]
        actual = next((side for side in sides if side.actual), None)
        if actual is None:
            waiting = [self._waits(side.value) for side in expected]
            due = next((number for number, finding in enumerate(waiting) if finding is None), 0)
            yield ComparedKey(waiting[due] or DifferenceKind.MISSING, expected[due].value, None, None, None)
        elif not expected:
            yield ComparedKey(DifferenceKind.EXTRA, None, actual.value, actual.partition, actual.offset)
        elif all(side.value != actual.value for side in expected):
            alike = any(self.alike(side.value, actual.value) for side in expected)
            finding = DifferenceKind.ROUNDING if alike else DifferenceKind.CHANGED
            yield ComparedKey(finding, expected[0].value, actual.value, actual.partition, actual.offset)

    def _multiset(self, key: bytes | None, sides: Sequence[Side]) -> Iterator[ComparedKey]:
        wanted = [_Left(side, side.expected - side.actual) for side in sides if side.expected > side.actual]
        found = [_Left(side, side.actual - side.expected) for side in sides if side.actual > side.expected]
        yield from self._rounded(wanted, found)
        for left in wanted:
            if left.count and (waits := self._waits(left.side.value)) is not None:
                yield ComparedKey(waits, left.side.value, None, None, None, left.count)
                left.count = 0
        if key is not None:
            for one, other in zip(_left(wanted), _left(found), strict=False):
                yield from _paired(one, other, DifferenceKind.CHANGED)
        for left in wanted:
            if left.count:
                yield ComparedKey(DifferenceKind.MISSING, left.side.value, None, None, None, left.count)
        for left in found:
            if left.count:
                side = left.side
                yield ComparedKey(DifferenceKind.EXTRA, None, side.value, side.partition, side.offset, left.count)

    def _rounded(self, wanted: list[_Left], found: list[_Left]) -> Iterator[ComparedKey]:
        if not self.tolerances or not wanted:
            return
        candidates: dict[str, list[tuple[float, _Left]]] = {}
        for other in found:
            candidates.setdefault(self.shape(other.side.value), []).append((self._number(other.side.value), other))
        for near in candidates.values():
            near.sort(key=lambda each: each[0])
        for one in wanted:
            near, number = candidates.get(self.shape(one.side.value), []), self._number(one.side.value)
            margin = 2 * max(self.tolerances.values()) * abs(number) + _LEAST_MARGIN
            for at in range(bisect_left(near, number - margin, key=lambda each: each[0]), len(near)):
                if near[at][0] > number + margin or not one.count:
                    break
                if self.alike(one.side.value, near[at][1].side.value):
                    yield from _paired(one, near[at][1], DifferenceKind.ROUNDING)

    def shape(self, value: bytes | None) -> str:
        """The part of a value that is equal in all values alike to it, even when their bytes differ."""
        row = _row(value)
        return json.dumps([(name, each) for name, each in row.items() if name not in self.tolerances])

    def _number(self, value: bytes | None) -> float:
        """A number that is near in two values that are alike: the first in a floating column; 0.0 where none is."""
        numbers = (each for name, each in _row(value).items() if name in self.tolerances)
        return next((each for each in map(_finite, numbers) if each is not None), 0.0)

    def _waits(self, value: bytes | None) -> DifferenceKind | None:
        """The finding for a missing row that the watermark may hold back; None when the row is due."""
        if self.watermark is None:
            return None
        if self.event_time is None:
            return DifferenceKind.UNDECIDED
        try:
            time = json.loads(value or b"null")[self.event_time]
            if _parsed(time["end"] if isinstance(time, dict) else time) <= self.watermark:
                return None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # a row without a time: nothing says that it waits
        return DifferenceKind.UNDECIDED if self.watermark == UNKNOWN else DifferenceKind.HELD_BACK


def _finite(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _row(value: bytes | None) -> dict[str, Any]:
    """The JSON object; an empty one if the value is not a JSON object."""
    try:
        row = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


@dataclass(slots=True)
class _Left:
    """The records of a side that are not paired yet."""

    side: Side
    count: int


def _left(sides: list[_Left]) -> list[_Left]:
    return [left for left in sides if left.count]


def _paired(one: _Left, other: _Left, finding: DifferenceKind) -> Iterator[ComparedKey]:
    """As many of both as there are."""
    if count := min(one.count, other.count):
        place = (other.side.partition, other.side.offset)
        yield ComparedKey(finding, one.side.value, other.side.value, *place, count)
        one.count -= count
        other.count -= count


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if not tolerance:
        return bool(one == other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        first, second = _finite(one), _finite(other)
        if first is None or second is None:
            return bool(one == other)
        return math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance * tolerance)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _close(each, another, tolerance) for each, another in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(value, other[name], tolerance) for name, value in one.items())
    return bool(one == other)


def _parsed(text: str) -> datetime.datetime:
    """A time as topics have it; one without an offset is in UTC."""
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
