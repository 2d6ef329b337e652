"""The latest value of a key in a capture's topic, and the keys that are alive.

Both are asked of the log, and of the transaction that is still open: its records are not readable yet, so they are
noted here while they are written. Notes go to a file when they are many. Used by one thread.
"""

from __future__ import annotations

import marshal
import sqlite3
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import IO, Final, NamedTuple

from mainstem.client.log import Log
from mainstem.errors import AuthorizationError, ConfigError
from mainstem.model import Position, TopicPartition
from mainstem.postgres.native.row_code import LARGE_BYTES
from mainstem.record.compress import compress, decompress
from mainstem.record.constants import Compression
from mainstem.record.reader import read_varint

_PAGE: Final = 1_000
_ENTRY_BYTES: Final = 200
_RECENT_BYTES_MAX: Final = 16 << 20
_COMMITTED_BYTES_MAX: Final = 64 << 20
_PUT: Final = "INSERT OR REPLACE INTO latest VALUES (?, ?, ?)"


class KeyIndexes:
    """Gives a topic the log's index of its keys, once a value of it may be looked up. ``note`` gets warnings.

    The log builds the index beside; meanwhile a look-up scans.
    """

    def __init__(self, log: Log, note: Callable[[str], None]) -> None:
        self._log = log
        self._note = note
        self._asked: set[str] = set()

    def need(self, topic: str) -> None:
        """A value of this topic may be looked up from now on."""
        if topic in self._asked:
            return
        self._asked.add(topic)
        try:
            self._log.cluster_admin.set_topic_configs(topic, {"mainstem.key.index": "true"})
        except (ConfigError, AuthorizationError) as error:
            self._note(
                f"WARNING: {topic} gets no index of keys ({error}), so a change that leaves a large value out may take "
                "a scan of it; ALTER TABLE … REPLICA IDENTITY FULL avoids that"
            )


class OpenValues:
    """The latest value of each key that the open transaction has written, by topic; and of keys written lately.

    A topic whose values are never asked for is noted with empty values.
    """

    def __init__(self) -> None:
        self._committed: OrderedDict[tuple[str, bytes], bytes | None] = OrderedDict()
        """Written by earlier transactions, the longest unused first. A key is here or in the open transaction."""
        self._committed_bytes = 0
        self._remembered: Counter[str] = Counter()
        """How many of them are of each topic."""
        self._recent: dict[str, dict[bytes, bytes | None]] = {}
        self._encoded: list[_Encoded] = []
        """Records that came after all of ``_recent``. Their keys are read when one is looked for."""
        self._recent_bytes = 0
        self._aside: IO[bytes] | None = None
        self._database: sqlite3.Connection | None = None
        """Values that were put aside, by key, once one is looked for: most transactions never look."""

    def note(self, topic: str, key: bytes, value: bytes | None) -> None:
        """The transaction has written this."""
        if self._encoded:
            self._index()
        self._note(topic, key, value)
        if self._recent_bytes > _RECENT_BYTES_MAX:
            self._put_aside()

    def note_records(self, topic: str, records: bytes, *, keeps_values: bool, has_large: bool) -> None:
        """The transaction has written these, encoded as in a batch. ``has_large``: some are to be remembered."""
        self._encoded.append(_Encoded(topic, records, keeps_values, has_large))
        self._recent_bytes += len(records)
        if self._remembered[topic]:
            self._index()
        if self._recent_bytes > _RECENT_BYTES_MAX:
            self._put_aside()

    def _index(self) -> None:
        """Look at all encoded records."""
        encoded, self._encoded = self._encoded, []
        for each in encoded:
            self._recent_bytes -= len(each.records)
            for key, value in each.entries():
                self._note(each.topic, key, value)

    def _note(self, topic: str, key: bytes, value: bytes | None) -> None:
        if self._committed:
            self._forget(topic, key)
        values = self._recent.get(topic)
        if values is None:
            values = self._recent[topic] = {}
        values[key] = value
        self._recent_bytes += _size(key, value)

    def _put_aside(self) -> None:
        if self._aside is None:
            self._aside = tempfile.TemporaryFile()  # noqa: SIM115 - until the transaction ends
        encoded = [(each.topic, bytes(compress(Compression.LZ4, each.records)), *each[2:]) for each in self._encoded]
        marshal.dump((self._recent, encoded), self._aside)
        self._forget_recent()

    def _put_aside_values(self) -> sqlite3.Connection | None:
        """All that was put aside."""
        if self._aside is None:
            return self._database
        if self._database is None:
            self._database = sqlite3.connect("")  # a file of SQLite's own, without a name
            self._database.execute("CREATE TABLE latest (topic, key, value, PRIMARY KEY (topic, key)) WITHOUT ROWID")
        end = self._aside.tell()
        self._aside.seek(0)
        while self._aside.tell() < end:
            recent, encoded = marshal.load(self._aside)
            for topic, values in recent.items():
                entries = ((topic, key, value) for key, value in values.items())
                self._database.executemany(_PUT, entries)
            for topic, packed, *rest in encoded:
                records = _Encoded(topic, bytes(decompress(Compression.LZ4, packed)), *rest)
                self._database.executemany(_PUT, ((topic, key, value) for key, value in records.entries()))
        self._aside.close()
        self._aside = None
        return self._database

    def find(self, topic: str, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the latest value of the key is known here, and that value."""
        self._index()
        recent = self._recent.get(topic, {})
        if key in recent:
            return True, recent[key]
        if (topic, key) in self._committed:
            self._committed.move_to_end((topic, key))
            return True, self._committed[topic, key]
        database = self._put_aside_values()
        if database is None:
            return False, None
        row = database.execute("SELECT value FROM latest WHERE topic = ? AND key = ?", (topic, key)).fetchone()
        return row is not None, None if row is None else row[0]

    def of_topic(self, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
        """All keys of a topic that the transaction has written, with their values, older ones first."""
        self._index()
        database = self._put_aside_values()
        if database is not None:
            yield from database.execute("SELECT key, value FROM latest WHERE topic = ?", (topic,))
        yield from self._recent.get(topic, {}).items()

    def clear(self) -> None:
        """The transaction is committed."""
        self._encoded = [each for each in self._encoded if each.has_large]
        self._index()
        for topic, values in self._recent.items():
            for key, value in values.items():
                if value is not None and len(value) >= LARGE_BYTES:
                    self.remember(topic, key, value)
        self._forget_recent()
        if self._aside is not None:
            self._aside.close()
            self._aside = None
        if self._database is not None:
            self._database.close()
            self._database = None

    def remember(self, topic: str, key: bytes, value: bytes | None) -> None:
        """The latest committed value of a key, while there is room."""
        self._forget(topic, key)
        self._committed[topic, key] = value
        self._committed_bytes += _size(key, value)
        self._remembered[topic] += 1
        while self._committed_bytes > _COMMITTED_BYTES_MAX:
            self._forget(*next(iter(self._committed)))

    def _forget(self, topic: str, key: bytes) -> None:
        if (topic, key) in self._committed:
            self._committed_bytes -= _size(key, self._committed.pop((topic, key)))
            self._remembered[topic] -= 1

    def _forget_recent(self) -> None:
        self._recent.clear()
        self._encoded.clear()
        self._recent_bytes = 0


class _Encoded(NamedTuple):
    """Records of a topic as they stand in a batch. Values that are not kept are empty."""

    topic: str
    records: bytes
    keeps_values: bool
    has_large: bool

    def entries(self) -> Iterator[tuple[bytes, bytes | None]]:
        for key, value in iter_encoded(self.records):
            yield key, value if value is None or self.keeps_values else b""


def iter_encoded(records: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of records as they stand in a batch. All have a key."""
    at = 0
    while at < len(records):
        size, start = read_varint(records, at)
        at = start + size
        _, place = read_varint(records, start + 1)
        _, place = read_varint(records, place)
        size, place = read_varint(records, place)
        key = records[place : place + size]
        size, place = read_varint(records, place + size)
        yield key, None if size < 0 else records[place : place + size]


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"") + _ENTRY_BYTES


def latest_value(log: Log, topic: str, key: bytes, since: Position) -> bytes | None:
    """The latest committed value of a key after ``since``; None when it has none, or was deleted.

    With a key index that is one read of a batch, else a scan of the key's partition.
    """
    every = log.read_key(topic, key, start=since.restrict([topic]) or "earliest")
    if every.last_offset is not None and every.last_offset >= 0:
        (tp,) = every.end
        if every.last_offset < since.get(tp, 0):
            return None
        last = list(log.read_key(topic, key, start=Position({tp: every.last_offset})))
        if last:  # else it was of a transaction that was aborted
            return last[-1].value
    value = None
    for record in every:
        value = record.value
    return value


def live_keys(
    log: Log, topic: str, open_values: OpenValues, *, since: Position, before: Position | None = None
) -> Iterator[bytes]:
    """The keys that have a value; with ``before`` those whose latest record lies before that position.

    One scan of the topic from ``since`` on: no key has a value by a record before it. The keys are kept in a file, not
    in memory.
    """
    database = sqlite3.connect("")
    try:
        database.execute("CREATE TABLE alive (key PRIMARY KEY) WITHOUT ROWID")
        is_there = log.end(topic).covers(since)  # else the topic was recreated
        for record in log.read(topic, start=log.beginning(topic) | since if is_there else "earliest"):
            is_old = before is None or record.offset < before.get(TopicPartition(topic, record.partition), 0)
            if record.value is None or not is_old:
                database.execute("DELETE FROM alive WHERE key = ?", (record.key,))
            else:
                database.execute("INSERT OR REPLACE INTO alive VALUES (?)", (record.key,))
        for key, value in open_values.of_topic(topic):
            if value is None or before is not None:
                database.execute("DELETE FROM alive WHERE key = ?", (key,))
            else:
                database.execute("INSERT OR REPLACE INTO alive VALUES (?)", (key,))
        cursor = database.execute("SELECT key FROM alive ORDER BY key")
        while page := cursor.fetchmany(_PAGE):
            yield from (key for (key,) in page)
    finally:
        database.close()
