"""``DeadLetters``: the dead letters of all views and pipelines, grouped by reason, and which of them are handled.

It keeps an index without the records' contents: of each topic the newest ``LETTERS_MAX`` letters, fewer where there are
many topics. Each call reads on from where the last one stopped, at most ``READ_BYTES_MAX``; what is older, or not read
yet, makes a topic's numbers partial. The reason of a letter is its error without what differs from record to record.

Thread-safe; one call at a time.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mainstem.client.dead_letter_headers import PREFIX, LetterOwner
from mainstem.client.handled_letters import HandledLetters, Ranges, is_in
from mainstem.client.log import Log, TopicInfo
from mainstem.errors import InputError, UnknownTopicError
from mainstem.model import Headers, Position, Record, TopicPartition
from mainstem.record.append_headers import IDEMPOTENCY_KEY

LETTERS_MAX: Final = 5_000
GROUPS_MAX: Final = 500
READ_BYTES_MAX: Final = 64 << 20
_ALL_LETTERS_MAX: Final = 100_000
_FEWEST_LETTERS: Final = 100
_TOPICS_MAX: Final = 1_000
_FETCH_BYTES: Final = 1 << 20
_ERROR_CHARS_MAX: Final = 500
_REASON_CHARS_MAX: Final = 200
_SOURCES_MAX: Final = 10

_FOLD: Final = re.compile(r"the fold .*, line (\d+) of ([^:]+): (\w+)(?:: .*)?", re.DOTALL)
_VARYING: Final = (
    (re.compile(r": line \d+ column \d+ \(char \d+\)"), ""),
    (re.compile(r" at byte \d+"), ""),
    (re.compile(r"[A-Za-z0-9._-]+/\d+:\d+(?:-\d+)? cannot be read"), "offsets cannot be read"),
    (re.compile(r"(column '[^']*'): .* is not (\w+)", re.DOTALL), r"\1 is not \2"),
    (re.compile(r"0x[0-9a-f]+"), "0x…"),
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, without its content. ``source``: where its record is, if it says so; else only its topic."""

    place: TopicPartition
    offset: int
    timestamp_ms: int
    error: str
    reason: str
    source_topic: str
    source: tuple[TopicPartition, int] | None

    @classmethod
    def of(cls, record: Record) -> DeadLetter:
        """Read the headers of a dead letter. Headers that it lacks are empty: any client may append to the topic."""
        said = {name: (value or b"").decode(errors="replace") for name, value in record.headers if _is_own(name)}
        topic, partition, offset = (said.get(PREFIX + name, "") for name in ("topic", "partition", "offset"))
        error = sys.intern(said.get(PREFIX + "error", "no error is given")[:_ERROR_CHARS_MAX])
        is_placed = all(text.isascii() and text.isdecimal() and len(text) < 19 for text in (partition, offset))
        source = (TopicPartition(topic, int(partition)), int(offset)) if topic and is_placed else None
        place = TopicPartition(record.topic, record.partition)
        return cls(place, record.offset, record.timestamp_ms, error, reason_of(error), sys.intern(topic), source)


@dataclass(slots=True)
class LetterGroup:
    """The letters of one topic that have one reason. ``error``: that of the newest of them."""

    topic: str
    owner: LetterOwner
    reason: str
    letters: int = 0
    unhandled: int = 0
    first_ms: int = 0
    last_ms: int = 0
    error: str = ""
    sources: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """A short name for the reason."""
        return group_id(self.reason)

    def add(self, letter: DeadLetter, *, is_handled: bool) -> None:
        """Count a letter; newer ones come later."""
        self.first_ms = min(self.first_ms, letter.timestamp_ms) if self.letters else letter.timestamp_ms
        self.last_ms = max(self.last_ms, letter.timestamp_ms)
        self.letters += 1
        self.unhandled += not is_handled
        self.error = letter.error
        if letter.source_topic and letter.source_topic not in self.sources and len(self.sources) < _SOURCES_MAX:
            self.sources.append(letter.source_topic)


@dataclass(frozen=True, slots=True)
class LetterTopic:
    """The dead letters of one view or pipeline. ``is_partial``: there are older ones, or more that are not read yet."""

    topic: str
    owner: LetterOwner
    groups: tuple[LetterGroup, ...]
    is_partial: bool

    @property
    def letters(self) -> int:
        """How many are known."""
        return sum(group.letters for group in self.groups)

    @property
    def unhandled(self) -> int:
        """How many of these are not handled."""
        return sum(group.unhandled for group in self.groups)


class _Index:
    """The newest letters of one topic, in the order in which they were read."""

    def __init__(self, info: TopicInfo, owner: LetterOwner, letters_max: int) -> None:
        self.topic_id: UUID = info.topic_id
        self.owner = owner
        self.letters: deque[DeadLetter] = deque(maxlen=letters_max)
        self.read_up_to: Position | None = None
        self.has_older = False
        self.is_behind = False

    def read(self, log: Log, topic: str, beginning: Position, end: Position, bytes_max: int) -> int:
        """Read on to ``end``; returns how many bytes it took. Letters that retention removed are dropped."""
        self._drop_before(beginning)
        if self.read_up_to is not None and self.read_up_to.covers(end):
            return 0
        limit = self.letters.maxlen or 0
        start = self.read_up_to
        if start is None:
            start = Position({tp: max(beginning.get(tp, 0), at - limit) for tp, at in end.items()})
            self.has_older = any(at > beginning.get(tp, 0) for tp, at in start.items())
        start = start | beginning
        size_bytes = 0
        self.is_behind = False
        reader = log.read(topic, start=start, fetch_bytes=_FETCH_BYTES, on_damaged="skip")
        for record in reader:
            self.has_older |= len(self.letters) == limit
            self.letters.append(DeadLetter.of(record))
            size_bytes += record.size_bytes
            if size_bytes >= bytes_max:
                self.is_behind = True
                break
        self.read_up_to = reader.position
        return size_bytes

    def _drop_before(self, beginning: Position) -> None:
        kept = [letter for letter in self.letters if letter.offset >= beginning.get(letter.place, 0)]
        if len(kept) < len(self.letters):
            self.letters = deque(kept, self.letters.maxlen)


class DeadLetters:
    """The dead letters of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._handled = HandledLetters(log)
        self._lock = threading.Lock()
        self._indexes: dict[str, _Index] = {}

    def topics(self, only: str | None = None) -> list[LetterTopic]:
        """Each topic with dead letters, and its groups, newest first. ``only``: of that topic alone.

        Raises LogUnavailableError.
        """
        with self._lock:
            self._read_on()
            shown = [self._grouped(name, index) for name, index in self._indexes.items() if only in (None, name)]
        return sorted(shown, key=lambda each: max((group.last_ms for group in each.groups), default=0), reverse=True)

    def letters(
        self, topic: str, *, group: str | None = None, with_handled: bool = False, after: str | None = None
    ) -> Iterator[tuple[DeadLetter, bool]]:
        """The letters of a topic, newest first, and whether each is handled. ``after``: those after this place.

        Raises UnknownTopicError, LogUnavailableError; InputError when ``after`` is not the place of a letter.
        """
        with self._lock:
            self._read_on()
            index, ranges = self._index(topic), self._ranges(topic)
            newest = list(reversed(index.letters))
        if after is not None:
            places = [place_text(letter) for letter in newest]
            if after not in places:
                raise InputError(
                    f"no dead letter of {topic} at {after[:100]!r}: it may be gone; begin again without it"
                )
            newest = newest[places.index(after) + 1 :]
        found = ((each, is_in(ranges.get(each.place.partition, ()), each.offset)) for each in newest)
        yield from (
            (letter, is_handled)
            for letter, is_handled in found
            if (with_handled or not is_handled) and group in (None, group_id(letter.reason))
        )

    def mark(
        self, topic: str, *, places: Sequence[str] | None = None, group: str | None = None, handled: bool = True
    ) -> int:
        """Mark letters as handled, or not: those at ``places`` (``partition:offset``), of a group, or all.

        Returns how many were changed. Raises UnknownTopicError, InputError for a place without a letter,
        LogUnavailableError.
        """
        with self._lock:
            self._read_on()
            index = self._index(topic)
            wanted = self._wanted(index, places, group)
            return self._handled.change(
                topic, index.topic_id, _offsets(index.letters), _offsets(wanted), handled=handled
            )

    def content(self, letter: DeadLetter) -> Record | None:
        """The record of a letter; None if retention has removed it."""
        start, end = (Position({letter.place: letter.offset + more}) for more in (0, 1))
        reader = self._log.read(letter.place.topic, start=start, end=end, limit=1, on_damaged="skip")
        return next(reader, None)

    def _read_on(self) -> None:
        infos = self._log.topics()
        owners = {name: owner for name in infos if (owner := LetterOwner.of(name)) is not None}
        names = sorted(owners)[:_TOPICS_MAX]
        letters_max = min(LETTERS_MAX, max(_FEWEST_LETTERS, _ALL_LETTERS_MAX // max(1, len(names))))
        known = self._indexes
        self._indexes = {
            name: known[name]
            if name in known and known[name].topic_id == infos[name].topic_id
            else _Index(infos[name], owners[name], letters_max)
            for name in names
        }
        self._handled.catch_up()
        if not names:
            return
        beginning, end = self._log.beginning(*names), self._log.end(*names)
        left = READ_BYTES_MAX
        for name, index in self._indexes.items():
            if left <= 0:
                index.is_behind = True
                continue
            try:
                left -= index.read(self._log, name, beginning.restrict([name]), end.restrict([name]), left)
            except UnknownTopicError:  # deleted meanwhile
                index.letters.clear()

    def _index(self, topic: str) -> _Index:
        if topic not in self._indexes:
            raise UnknownTopicError(f"{topic[:250]!r} is not a topic of dead letters; GET /dead-letters lists them")
        return self._indexes[topic]

    def _ranges(self, topic: str) -> dict[int, Ranges]:
        return self._handled.of(self._indexes[topic].topic_id)

    def _grouped(self, topic: str, index: _Index) -> LetterTopic:
        groups: dict[str, LetterGroup] = {}
        ranges = self._ranges(topic)
        is_partial = index.has_older or index.is_behind
        for letter in index.letters:
            group = groups.get(letter.reason)
            if group is None:
                reason = letter.reason if len(groups) < GROUPS_MAX else "other reasons"
                group = groups.setdefault(reason, LetterGroup(topic, index.owner, reason))
            group.add(letter, is_handled=is_in(ranges.get(letter.place.partition, ()), letter.offset))
        newest = sorted(groups.values(), key=lambda each: each.last_ms, reverse=True)
        return LetterTopic(topic, index.owner, tuple(newest), is_partial)

    def _wanted(self, index: _Index, places: Sequence[str] | None, group: str | None) -> list[DeadLetter]:
        if places is None:
            return [letter for letter in index.letters if group in (None, group_id(letter.reason))]
        found = {place_text(letter): letter for letter in index.letters}
        if missing := [place for place in places if place not in found]:
            raise InputError(f"no dead letter at {missing[0][:100]!r}: give PARTITION:OFFSET of one that is listed")
        return [found[place] for place in places]


def reason_of(error: str) -> str:
    """An error without what differs from record to record: ``ZeroDivisionError flights.py:12``."""
    of_fold = _FOLD.fullmatch(error)
    if of_fold is not None:
        return sys.intern(f"{of_fold[3]} {of_fold[2]}:{of_fold[1]}")
    reason = error.strip().partition("\n")[0]
    for pattern, instead in _VARYING:
        reason = pattern.sub(instead, reason)
    return sys.intern(reason[:_REASON_CHARS_MAX])


def group_id(reason: str) -> str:
    """A short name for a reason."""
    return hashlib.sha256(reason.encode()).hexdigest()[:12]


def place_text(letter: DeadLetter) -> str:
    """The place of a letter in its topic: ``partition:offset``."""
    return f"{letter.place.partition}:{letter.offset}"


def own_headers(headers: Headers) -> Headers:
    """The headers of the record itself: those of a dead letter, without those that say what was wrong."""
    return tuple((name, value) for name, value in headers if not _is_own(name) and name != IDEMPOTENCY_KEY)


def _is_own(name: str) -> bool:
    return name.startswith(PREFIX)


def _offsets(letters: Iterable[DeadLetter]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = {}
    for letter in letters:
        offsets.setdefault(letter.place.partition, []).append(letter.offset)
    return offsets
