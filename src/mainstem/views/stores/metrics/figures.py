"""A metrics view's ``Figures`` of some records, which can be added in any order, and their computation from a batch.

Invariant: adding figures is commutative and associative to the last bit, so that they depend on the records alone, not
on their order and not on how they were cut into batches. That decides how each is kept:

* A sum is exact, as the sum of the doubles without rounding: a whole number of 2^-1074, the smallest double. It is
  rounded to a double only when it is shown.
* The rate is kept for the latest minutes *that have records*: whether a minute is among them can only change from yes
  to no as records come, so no record of a minute that is kept was ever left out; and one record with a time far in the
  future takes the place of one minute, not of all.

Immutable; safe from any thread.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa

_UNIT_BITS = 1074  # the smallest double is 2**-1074
_UNITS_IN_ONE = 1 << _UNIT_BITS
_FRACTION_BITS = 53
_LOW_BITS = 26
_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class ValueFigures:
    """Of one value's numbers: how many, their exact sum in units of 2^-1074, extremes, and how many in each bucket."""

    count: int
    units: int
    low: float
    high: float
    buckets: tuple[int, ...]

    def plus(self, other: ValueFigures) -> ValueFigures:
        """Those of both."""
        return ValueFigures(
            self.count + other.count,
            self.units + other.units,
            min(self.low, other.low),
            max(self.high, other.high),
            tuple(map(int.__add__, self.buckets, other.buckets)),
        )

    @property
    def sum(self) -> float | None:
        """The sum, rounded to the nearest double; None where it is beyond them."""
        try:
            return self.units / _UNITS_IN_ONE
        except OverflowError:
            return None

    def exact_sum(self) -> str:
        """The sum without rounding, as text: doubles that add up to it, such as ``0.3 + 1e-17``.

        Each is the nearest to what is left. A sum beyond the doubles begins with its whole part.
        """
        rest, parts = self.units, []
        try:
            rest / _UNITS_IN_ONE
        except OverflowError:
            whole = rest >> _UNIT_BITS
            parts.append(str(whole))
            rest -= whole << _UNIT_BITS
        while rest or not parts:
            part = rest / _UNITS_IN_ONE
            numerator, denominator = part.as_integer_ratio()
            parts.append(repr(part))
            rest -= numerator * (_UNITS_IN_ONE // denominator)
        return " + ".join(parts)

    def quantile(self, quantile: float, bounds: Sequence[float]) -> float:
        """Estimated: the numbers of a bucket are taken to lie evenly within it, and none outside the extremes."""
        rank, below = quantile * self.count, 0
        for number, within in enumerate(self.buckets):
            if within and below + within >= rank:
                start = self.low if number == 0 else max(bounds[number - 1], self.low)
                end = self.high if number == len(bounds) else min(bounds[number], self.high)
                return _between(start, end, (rank - below) / within)
            below += within
        return self.high

    def to_json(self) -> list[Any]:
        """The stored form."""
        return [self.count, f"{self.units:x}", self.low, self.high, list(self.buckets)]

    @classmethod
    def from_json(cls, document: list[Any]) -> ValueFigures:
        """Read ``to_json``'s form."""
        count, units, low, high, buckets = document
        return cls(int(count), int(units, 16), float(low), float(high), tuple(map(int, buckets)))


def _between(start: float, end: float, share: float) -> float:
    """So far from ``start`` to ``end``, also where one is farther from the other than doubles go."""
    width = end - start
    return start + width * share if math.isfinite(width) else start * (1 - share) + end * share


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some records: how many, of each value that had numbers their figures, and minute → how many."""

    records: int = 0
    values: Mapping[str, ValueFigures] = field(default_factory=dict)
    minutes: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: Figures, minutes_max: int) -> Figures:
        """Those of both, with the latest ``minutes_max`` minutes."""
        values = dict(self.values)
        for name, each in other.values.items():
            values[name] = each.plus(values[name]) if name in values else each
        minutes = dict(self.minutes)
        for minute, count in other.minutes.items():
            minutes[minute] = minutes.get(minute, 0) + count
        return Figures(self.records + other.records, values, _latest(minutes, minutes_max))

    def to_json(self) -> dict[str, Any]:
        """The stored form, in one order."""
        return {
            "records": self.records,
            "values": {name: self.values[name].to_json() for name in sorted(self.values)},
            "minutes": [[minute, self.minutes[minute]] for minute in sorted(self.minutes)],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Figures:
        """Read ``to_json``'s form."""
        values = {name: ValueFigures.from_json(each) for name, each in document["values"].items()}
        return cls(int(document["records"]), values, {int(minute): int(n) for minute, n in document["minutes"]})


def figures_of_groups(
    groups: np.ndarray[Any, Any],
    count: int,
    values: Mapping[str, pa.ChunkedArray],
    timestamps_us: np.ndarray[Any, Any],
    bounds: Sequence[float],
    minutes_max: int,
) -> list[Figures]:
    """The figures of the records of each group, 0 to ``count`` - 1; ``groups`` has the group of each record."""
    records = np.bincount(groups, minlength=count).tolist()
    minutes = _minutes_of_groups(groups, count, timestamps_us)
    found: list[dict[str, ValueFigures]] = [{} for _ in range(count)]
    for name, column in values.items():
        for group, each in _value_figures(groups, count, column, bounds):
            found[group][name] = each
    return [
        Figures(number, each, _latest(of_minutes, minutes_max))
        for number, each, of_minutes in zip(records, found, minutes, strict=True)
    ]


def _minutes_of_groups(
    groups: np.ndarray[Any, Any], count: int, timestamps_us: np.ndarray[Any, Any]
) -> list[dict[int, int]]:
    timed = timestamps_us >= 0  # -1 ms is "no timestamp"
    table = pa.table({"group": groups[timed], "minute": timestamps_us[timed] // _MINUTE_US})
    counted = table.group_by(["group", "minute"], use_threads=False).aggregate([([], "count_all")])
    minutes: list[dict[int, int]] = [{} for _ in range(count)]
    for group, minute, number in _rows(counted, "group", "minute", "count_all"):
        minutes[group][minute] = number
    return minutes


def _value_figures(
    groups: np.ndarray[Any, Any], count: int, column: pa.ChunkedArray, bounds: Sequence[float]
) -> Iterator[tuple[int, ValueFigures]]:
    """The groups that have numbers in ``column``, with their figures. NaN and infinities are ignored."""
    numbers = column.to_numpy()  # null becomes NaN
    finite = np.isfinite(numbers)
    numbers, groups = numbers[finite] + 0.0, groups[finite]  # -0.0 becomes 0.0, which it equals
    table = pa.table({"group": groups, "number": numbers})
    extremes = table.group_by("group", use_threads=False).aggregate(
        [("number", "count"), ("number", "min"), ("number", "max")]
    )
    width = len(bounds) + 1
    places = groups * width + np.searchsorted(np.asarray(bounds), numbers, side="left")
    buckets = np.bincount(places, minlength=count * width).reshape(count, width).tolist()
    units = _exact_sums(groups, numbers)
    for group, number, low, high in _rows(extremes, "group", "number_count", "number_min", "number_max"):
        yield group, ValueFigures(number, units[group], low, high, tuple(buckets[group]))


def _exact_sums(groups: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> dict[int, int]:
    """Group → exact sum in units: whole fractions of equal exponents are summed in two halves that cannot overflow."""
    fractions, exponents = np.frexp(numbers)
    whole = np.ldexp(fractions, _FRACTION_BITS).astype(np.int64)
    table = pa.table(
        {"group": groups, "exponent": exponents, "high": whole >> _LOW_BITS, "low": whole & ((1 << _LOW_BITS) - 1)}
    )
    summed = table.group_by(["group", "exponent"], use_threads=False).aggregate([("high", "sum"), ("low", "sum")])
    units: dict[int, int] = {}
    for group, exponent, high, low in _rows(summed, "group", "exponent", "high_sum", "low_sum"):
        shift = exponent - _FRACTION_BITS + _UNIT_BITS
        total = (high << _LOW_BITS) + low
        units[group] = units.get(group, 0) + (total << shift if shift >= 0 else total >> -shift)
    return units


def _rows(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


def _latest(minutes: Mapping[int, int], most: int) -> Mapping[int, int]:
    if len(minutes) <= most:
        return minutes
    return {minute: minutes[minute] for minute in heapq.nlargest(most, minutes)}
