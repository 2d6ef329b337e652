"""``TopicSearches``: looks through a topic's records and sends those that match as events, within bounds.

1. The range is fixed first: an error is a problem document.
2. The records are read in steps by one of ``SEARCHES_MAX`` threads. After each step the hits are sent, then how far the
   search is. So a client that goes away stops it after the step.
3. The search ends at the end of the range, after ``limit`` hits, after its time, or after ``BYTES_MAX``. The last event
   says which, and the position where another search goes on: nothing is repeated or left out.

A client that names itself has one search at a time: its next one ends the one before, which then has the reason
``replaced``. Committed records only. For one event loop.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.client.read.reader import BoundedReader
from mainstem.encodings.encoded_records import encoded_records
from mainstem.errors import InputError, UnavailableError
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.event_format import event
from mainstem.gateway.streams.search_conditions import SearchConditions
from mainstem.gateway.topics.reads import moment
from mainstem.gateway.topics.record_json import record_json
from mainstem.model import OnDamaged, Position, TopicPartition

SEARCHES_MAX: Final = 4
BYTES_MAX: Final = 1 << 30
_FETCH_BYTES: Final = 1 << 20
_STEP_S: Final = 0.25
_STEP_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class SearchRange:
    """The range of a search, and its limits. ``start`` and ``end`` are in the form that ``moment`` parses."""

    topic: str
    start: str
    end: str
    partition: int | None
    hits_max: int
    time_s: float
    on_damaged: OnDamaged = "stop"


class TopicSearches:
    """The searches of one gateway."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._encoded = encoded_records(log)
        self._workers = Workers(SEARCHES_MAX)
        self._running: set[TopicSearch] = set()

    @property
    def running(self) -> int:
        """How many searches run."""
        return len(self._running)

    async def start(self, what: SearchRange, conditions: SearchConditions, client: str | None = None) -> TopicSearch:
        """Begin a search; its ``events`` has to be called, and ``close`` after it. It ends the one of the same client.

        Raises UnavailableError when too many run, UnknownTopicError, InputError, OffsetOutOfRangeError.
        """
        for earlier in [each for each in self._running if client is not None and each.client == client]:
            earlier.replace()
        if len(self._running) >= SEARCHES_MAX:
            raise UnavailableError(f"{SEARCHES_MAX} searches are running already; try again later")
        search = TopicSearch(self, what, conditions, client)
        self._running.add(search)
        try:
            search.open(await self._workers.run(self._reader, what))
        except BaseException:
            search.close()
            raise
        return search

    def ended(self, search: TopicSearch) -> None:
        """A search has ended; another one may begin. Idempotent."""
        self._running.discard(search)

    async def step(self, search: TopicSearch) -> list[dict[str, Any]]:
        """The hits of the next step."""
        return await self._workers.run(search.step, self._encoded)

    def _reader(self, what: SearchRange) -> BoundedReader:
        start, end = moment(what.start, what.topic), moment(what.end, what.topic)
        if what.partition is not None:
            tp = TopicPartition(what.topic, what.partition)
            whole = self._log.read(what.topic, start=start, end=end)
            if tp not in whole.end:
                raise InputError(f"topic {what.topic} has no partition {what.partition}")
            start, end = whole.position, Position({tp: whole.end[tp]})
        return self._log.read(what.topic, start=start, end=end, fetch_bytes=_FETCH_BYTES, on_damaged=what.on_damaged)


class TopicSearch:
    """One search: how far it is. Its steps run one after the other."""

    def __init__(
        self, searches: TopicSearches, what: SearchRange, conditions: SearchConditions, client: str | None
    ) -> None:
        self.client = client
        self._searches = searches
        self._opened: BoundedReader | None = None
        self._is_replaced = False
        self._what = what
        self._conditions = conditions
        self._scanned = self._bytes = self._hits = 0
        self._reason = ""

    def open(self, reader: BoundedReader) -> None:
        """Give the search its reader, before its first step."""
        self._opened = reader

    @property
    def _reader(self) -> BoundedReader:
        assert self._opened is not None
        return self._opened

    def replace(self) -> None:
        """End the search after its running step: its client has begun another one, which may have its place."""
        self._is_replaced = True
        self.close()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The blocks of the stream."""
        until_s = time.monotonic() + self._what.time_s
        while True:
            for hit in await self._searches.step(self):
                yield event(hit, name="hit")
            position = str(self._reader.position)
            so_far = {"scanned": self._scanned, "bytes": self._bytes, "hits": self._hits, "position": position}
            reason = self._reason or ("replaced" if self._is_replaced else "")
            reason = reason or ("time" if time.monotonic() >= until_s else "")
            if reason:
                yield event({**so_far, "reason": reason}, name="end", position=position)
                return
            yield event(so_far, name="progress", position=position)

    def close(self) -> None:
        """Let another one begin."""
        self._searches.ended(self)

    def step(self, encoded: Any) -> list[dict[str, Any]]:
        """Read on for a moment; the hits. Blocking."""
        hits: list[dict[str, Any]] = []
        until_s, bytes_before = time.monotonic() + _STEP_S, self._bytes
        for record in self._reader:
            self._scanned += 1
            self._bytes += record.size_bytes
            shown = encoded.shown(record)
            if self._conditions.hold(shown):
                hits.append(record_json(shown))
                self._hits += 1
            if self._hits >= self._what.hits_max:
                self._reason = "limit"
            elif self._bytes >= BYTES_MAX:
                self._reason = "bytes"
            elif self._bytes - bytes_before < _STEP_BYTES and time.monotonic() < until_s:
                continue
            return hits
        self._reason = "end"
        return hits
