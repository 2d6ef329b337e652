"""Which point of a backup a time or a position means: the newest one that is not past it. Pure but for the reader."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from mainstem.backup.catalog import BackupState
from mainstem.backup.manifest import ManifestReader
from mainstem.errors import InputError
from mainstem.model import Position

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``5s``, ``30m``, ``12h`` or ``7d``. Raises InputError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e10:
        raise InputError(f"invalid duration {text!r}: use a number with s, m, h or d, such as 5s or 7d")
    return seconds


def point_at(reader: ManifestReader, at: str | None) -> BackupState:
    """The state at a time (ISO 8601, UTC without a zone), a position, or, with None, the newest point.

    Raises InputError when the backup has none that early.
    """
    if at is None:
        return _newest(reader)
    if "/" in at:
        return _point_before(reader, Position.parse(at))
    return _point_by(reader, _time_ms(at))


def _time_ms(text: str) -> int:
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"invalid moment {text!r}: use a time such as 2026-01-31T12:00:00Z, or a position such as orders/0:17"
        ) from error
    return int((time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def time_text(time_ms: int) -> str:
    """A time as ``--at`` takes it, to the millisecond."""
    at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def points(reader: ManifestReader, chapter: int) -> Iterator[BackupState]:
    """The states at the points of a chapter, from its beginning on. The same object each time, which changes."""
    chapters = reader.root.chapters
    number = chapters[chapter][0]
    last = chapters[chapter + 1][0] - 1 if chapter + 1 < len(chapters) else reader.root.newest
    state = reader.chapter(number)
    yield state
    for entry in reader.entries(number, last):
        state.apply(entry)
        if entry.is_point:
            yield state


def newest_points(reader: ManifestReader, limit: int) -> Iterator[BackupState]:
    """The newest points, at most ``limit``, oldest first. The same object each time, which changes."""
    left, first = limit, []
    for chapter in reversed(range(len(reader.root.chapters))):
        numbers = [state.number for state in points(reader, chapter)][-left:]
        first.append((chapter, numbers))
        left -= len(numbers)
        if left <= 0:
            break
    for chapter, numbers in reversed(first):
        wanted = set(numbers)
        yield from (state for state in points(reader, chapter) if state.number in wanted)


def _newest(reader: ManifestReader) -> BackupState:
    chapters = reader.root.chapters
    if not chapters:
        raise InputError(f"{reader.store.url} has no complete point yet: let its backup run on")
    *_, state = points(reader, len(chapters) - 1)
    return state


def _at_number(reader: ManifestReader, chapter: int, number: int) -> BackupState:
    return next(state for state in points(reader, chapter) if state.number == number)


def _point_by(reader: ManifestReader, time_ms: int) -> BackupState:
    chapters = reader.root.chapters
    found = [slot for slot, (_, begun_ms) in enumerate(chapters) if begun_ms <= time_ms]
    if not found:
        first = f"its first point is of {time_text(chapters[0][1])}" if chapters else "it has no complete point yet"
        raise InputError(f"{reader.store.url} has no point at or before {time_text(time_ms)}: {first}")
    number = max(state.number for state in points(reader, found[-1]) if state.time_ms <= time_ms)
    return _at_number(reader, found[-1], number)


def _point_before(reader: ManifestReader, wanted: Position) -> BackupState:
    for chapter in reversed(range(len(reader.root.chapters))):
        numbers = [state.number for state in points(reader, chapter) if _is_within(state, wanted)]
        if numbers:
            return _at_number(reader, chapter, max(numbers))
    raise InputError(f"{reader.store.url} has no point that is not past {wanted}")


def _is_within(state: BackupState, wanted: Position) -> bool:
    return all(
        (end := state.ends.get(topic_partition)) is None or end.end_offset <= offset
        for topic_partition, offset in wanted.items()
    )


def ends_of(state: BackupState) -> Position:
    """Up to where a point goes, of topics that users have."""
    return Position({name: end.end_offset for name, end in state.ends.items() if not name.topic.startswith("__")})
