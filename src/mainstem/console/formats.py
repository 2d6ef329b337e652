"""Numbers, times and positions as people read them. Pure functions."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

NOTHING = "–"
_EXACT_MAX = 2**53 - 1  # a browser's numbers are doubles
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float | None) -> str:
    """1,234,567."""
    return NOTHING if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """At most four signs: 999, 1.2k, 34k, 5.6M."""
    if value is None:
        return NOTHING
    for step, letter in _STEPS:
        if abs(value) >= step * 0.9995:
            scaled = value / step
            return f"{scaled:.1f}{letter}" if abs(scaled) < 9.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 9.95 else f"{value:.1f}"


def rate(per_second: float | None) -> str:
    """1.2k/s."""
    return NOTHING if per_second is None else f"{short(per_second)}/s"


def size(number_of_bytes: int | None) -> str:
    """``1.5 MiB``; ``NOTHING`` for None."""
    if number_of_bytes is None:
        return NOTHING
    return (
        f"{number_of_bytes / (1 << 20):,.1f} MiB"
        if number_of_bytes >= 1 << 20
        else f"{number_of_bytes / 1024:,.1f} KiB"
    )


def duration(seconds: float | None) -> str:
    """85 ms, 3.2 s, 4 min, 2 h, 3 d."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit_s, unit in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h")):
        if seconds < limit:
            return (
                f"{seconds / unit_s:.1f} {unit}" if unit == "s" and seconds < 10 else f"{seconds / unit_s:.0f} {unit}"
            )
    return f"{seconds / 86_400:.0f} d"


def ago(time_ms: float | None, now_ms: float) -> str:
    """A time as "3 s ago"; about now, or in the future, as "now"."""
    if time_ms is None:
        return NOTHING
    passed_s = round((now_ms - time_ms) / 1000)
    return "now" if passed_s < 1 else f"{duration(passed_s)} ago"


def moment(time_ms: float | None) -> str:
    """2026-01-02 03:04:05.678, in UTC."""
    if time_ms is None or time_ms < 0:
        return NOTHING
    try:
        at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms:.0f} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def pretty(value: Any) -> str:
    """A value as indented JSON; text as it is."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def one_line(value: Any, length_max: int = 200) -> str:
    """A value in one line, cut with an ellipsis."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text[: length_max * 2].split())
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def exact(value: Any, length_max: int) -> Any:
    """A value of an answer as a browser shows it without changing it: large whole numbers and what is nested as text.

    Long text is cut with an ellipsis.
    """
    if isinstance(value, int) and abs(value) > _EXACT_MAX:
        return str(value)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return text[:length_max] + "…" if isinstance(text, str) and len(text) > length_max else text


def cut(text: str, length_max: int) -> tuple[str, int]:
    """The text, or as much of it as is shown, and how many characters are left out."""
    return text[:length_max], max(0, len(text) - length_max)


_TIMES = (("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_UNITS_MS = {"ms": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}
_UNLIMITED = 2**63 - 1


def setting(name: str, value: str | None) -> str:
    """The value of a Kafka setting in words and as it is set: ``7 days (604800000)``, ``no limit (-1)``."""
    if value is None or value == "":
        return NOTHING
    if not value.lstrip("-").isdecimal() or len(value) > 20:
        return value
    number, unit = int(value), name.replace("-", ".").rpartition(".")[2]
    if number == _UNLIMITED or (number == -1 and unit in ("bytes", *_UNITS_MS)):
        return f"no limit ({value})"
    if number <= 0:
        return value
    if unit in _UNITS_MS:
        return f"{_in_units(number * _UNITS_MS[unit], _TIMES)} ({value})"
    if unit in ("bytes", "size") and number >= 1_024:
        return f"{_in_units(number, _SIZES)} ({value})"
    return f"{number:,}"


def _in_units(number: int, units: tuple[tuple[str, int], ...]) -> str:
    """In the largest unit that shows the number exactly, else rounded in the largest that it fills."""
    unit, size_of_unit = next((unit, each) for unit, each in units if number % each == 0)
    whole = number // size_of_unit
    if whole >= 10_000:
        unit, size_of_unit = next((unit, each) for unit, each in units if number >= each)
        return f"about {number / size_of_unit:,.1f} {unit}{'s' if unit == 'day' else ''}"
    return f"{whole:,} {unit}{'s' if unit == 'day' and whole != 1 else ''}"


_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([a-z]*)")
_TIME_UNITS_MS = {
    **dict.fromkeys(("ms", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}


def milliseconds(words: str) -> int | None:
    """The milliseconds that ``36 h`` or ``10 days`` are; None for other text."""
    found = _TIME.fullmatch(words.strip().lower())
    unit_ms = _TIME_UNITS_MS.get(found[2]) if found is not None else None
    return None if found is None or unit_ms is None else round(float(found[1]) * unit_ms)


def retention(configs: Mapping[str, str | None]) -> str:
    """How long a topic keeps its records, in words: ``7 days, 1 GiB a partition``."""
    policy = configs.get("cleanup.policy") or ""
    if policy and "delete" not in policy:
        return "latest of each key"
    words = [setting("retention.ms", configs.get("retention.ms")).partition(" (")[0]]
    limit = configs.get("retention.bytes")
    if limit is not None and limit.isdecimal():
        words.append(f"{setting('retention.bytes', limit).partition(' (')[0]} a partition")
    return ", ".join(words)


_PLACE = re.compile(r"\(line (\d{1,6}), column (\d{1,6})\)")
_LINE_CHARS_MAX = 160


def error_place(query: str, detail: str) -> str | None:
    """The line of a query that an error names, with a caret below the place; None where the error names none."""
    found = _PLACE.search(detail)
    lines = query.split("\n")
    if found is None or not 0 < int(found[1]) <= len(lines):
        return None
    line, at = lines[int(found[1]) - 1].replace("\t", " "), int(found[2]) - 1
    start = max(0, at - _LINE_CHARS_MAX // 2)
    return f"{line[start : start + _LINE_CHARS_MAX]}\n{' ' * (at - start)}^"


_SQL_WORDS = (
    "all analyse analyze and any array as asc both case cast check collate column constraint create default desc "
    "describe distinct do else end except false fetch for foreign from group having in initially intersect into lambda "
    "leading limit not null offset on only or order pivot placing primary qualify references returning select show "
    "some summarize symmetric table then to trailing true union unique unpivot using variadic when where window with"
)
_SQL_RESERVED = frozenset(_SQL_WORDS.split())


def identifier(name: str) -> str:
    """A name as SQL takes it: quoted where it needs quotes."""
    is_plain = name.isidentifier() and name.isascii() and name.lower() not in _SQL_RESERVED
    return name if is_plain else '"' + name.replace('"', '""') + '"'
