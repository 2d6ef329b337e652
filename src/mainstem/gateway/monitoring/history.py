"""``History``: the samples of the last hour (every 5 s) and the last day (every minute), of at most 1,000 series.

A row holds the values of all series at one time. A minute's row is the mean of its samples. Each series has a column;
a series that was not seen for a day gives its column to a new one. Beyond 1,000 series, new ones are left out. Rows go
into the ring file as they are made, if there is one. Thread-safe.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from mainstem.gateway.monitoring.ring_file import COARSE, COLUMNS_MAX, FINE, NAME_BYTES_MAX, TIERS, RingFile, Row

_NONE: Final = math.nan
_DAY_MS: Final = 24 * 3_600_000
Point = tuple[int, float]


class Found(NamedTuple):
    """The points of each series, their distance, and how many more series the patterns fit."""

    step_s: int
    series: dict[str, list[Point]]
    left_out: int


class History:
    """The samples of one node."""

    def __init__(self, file: RingFile | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._is_loaded = False
        self._columns: list[tuple[str, int]] = []
        self._column_of: dict[str, int] = {}
        self._seen_ms: list[int] = []
        self._tiers: list[list[Row | None]] = [[None] * tier.rows for tier in TIERS]
        self._minute = 0
        self.left_out = 0
        """How many series of the last sample have no column."""

    def load(self, now_ms: int) -> None:
        """Read the file, once. Samples that it has from the future are left out."""
        with self._lock:
            if self._file is None or self._is_loaded:
                return
            self._is_loaded = True
            self._columns, tiers = self._file.load()
            self._column_of = {name: column for column, (name, _) in enumerate(self._columns)}
            self._seen_ms = [0] * len(self._columns)
            for tier, shown, rows in zip(TIERS, self._tiers, tiers, strict=True):
                for row in rows:
                    if now_ms - tier.span_ms < row.at_ms <= now_ms:
                        shown[tier.place(row.at_ms)] = row
                        self._note_seen(row)

    def record(self, at_ms: int, values: Mapping[str, float]) -> None:
        """Keep the values of one time."""
        with self._lock:
            self._finish_minute(at_ms // 60_000)
            self._make_columns(at_ms, values)
            row = Row(at_ms, array("f", [_NONE]) * len(self._columns))
            for name, value in values.items():
                column = self._column_of.get(name)
                if column is not None:
                    row.values[column] = value
            self._note_seen(row)
            self._put(0, row)

    def names(self) -> list[str]:
        """The series that there are, by name."""
        with self._lock:
            return sorted(self._column_of)

    def read(self, patterns: Sequence[str], since_ms: int, now_ms: int, *, series_max: int, points_max: int) -> Found:
        """The points of the series that fit a pattern (``*`` fits any text), oldest first.

        Of the last hour in steps of 5 s, of longer times in minutes; where those are more than ``points_max``, several
        become their mean.
        """
        tier = 0 if since_ms >= now_ms - FINE.span_ms else 1
        with self._lock:
            fitting = [name for name in self._column_of if any(_fits(name, pattern) for pattern in patterns)]
            columns = [(name, self._column_of[name]) for name in fitting[:series_max]]
            begins = {column: max(since_ms, self._columns[column][1]) for _, column in columns}
            held = [row for row in self._tiers[tier] if row is not None and since_ms <= row.at_ms <= now_ms]
        held.sort(key=lambda row: row.at_ms)
        steps = max(1, math.ceil((now_ms - since_ms) / 1000 / TIERS[tier].step_s / points_max))
        step_s = TIERS[tier].step_s * steps
        found = {name: list(_points(held, column, begins[column], step_s)) for name, column in columns}
        return Found(step_s, found, len(fitting) - len(columns))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _make_columns(self, at_ms: int, values: Mapping[str, float]) -> None:
        fresh = [name for name in values if name not in self._column_of]
        self.left_out = 0
        has_changed = False
        for name in fresh:
            column = self._free_column(at_ms) if len(name.encode(errors="replace")) <= NAME_BYTES_MAX else None
            if column is None:
                self.left_out += 1
                continue
            has_changed = True
            self._column_of[name] = column
            self._columns[column] = (name, at_ms)
            self._seen_ms[column] = at_ms
        if has_changed and self._file is not None:
            self._file.write_names(self._columns)

    def _free_column(self, at_ms: int) -> int | None:
        if len(self._columns) < COLUMNS_MAX:
            self._columns.append(("", 0))
            self._seen_ms.append(0)
            return len(self._columns) - 1
        oldest = min(range(COLUMNS_MAX), key=self._seen_ms.__getitem__)
        if at_ms - self._seen_ms[oldest] <= _DAY_MS:
            return None
        del self._column_of[self._columns[oldest][0]]
        return oldest

    def _finish_minute(self, minute: int) -> None:
        """Keep the mean of the samples of the minute before, once a new one has begun."""
        before, self._minute = self._minute, minute
        if before in (0, minute):
            return
        rows = [row for row in self._tiers[0] if row is not None and row.at_ms // 60_000 == before]
        sums, counts = [0.0] * len(self._columns), [0] * len(self._columns)
        for row in rows:
            for column, value in enumerate(row.values):
                if value == value:
                    sums[column] += value
                    counts[column] += 1
        means = array("f", [total / count if count else _NONE for total, count in zip(sums, counts, strict=True)])
        self._put(1, Row(before * 60_000, means))

    def _put(self, tier: int, row: Row) -> None:
        self._tiers[tier][TIERS[tier].place(row.at_ms)] = row
        if self._file is not None:
            self._file.write_row(tier, row)

    def _note_seen(self, row: Row) -> None:
        for column, value in enumerate(row.values):
            if value == value and column < len(self._seen_ms):
                self._seen_ms[column] = max(self._seen_ms[column], row.at_ms)


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or ("*" in pattern and fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]")))


def _points(rows: Sequence[Row], column: int, begin_ms: int, step_s: int) -> Iterator[Point]:
    """The means of each step."""
    step, values = -1, list[float]()
    for row in rows:
        if row.at_ms < begin_ms or column >= len(row.values):
            continue
        value = row.values[column]
        if value != value:
            continue
        if row.at_ms // (step_s * 1000) != step:
            if values:
                yield step * step_s * 1000, sum(values) / len(values)
            step, values = row.at_ms // (step_s * 1000), []
        values.append(value)
    if values:
        yield step * step_s * 1000, sum(values) / len(values)


SPAN_MS: Final = COARSE.span_ms
"""How far back the history reaches."""
