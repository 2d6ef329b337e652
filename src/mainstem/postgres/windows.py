"""Rows that the stream changes while a chunk of a table is read: they are newer than the chunk's.

The order that is relied on (after Andreakis and Papapanagiotou, "DBLog: A Watermark Based Change-Data-Capture
Framework"):

1. the window opens; from here on the keys that the stream touches are noted;
2. the chunk is read, in a snapshot of its own, and then a mark is written into the stream;
3. when the stream comes to the mark, every transaction that the chunk has seen has come, or was there before 1. The
   chunk's rows are appended, without those that were touched.

One case is left. A transaction stands in the stream as soon as its commit is written, and is visible a moment later. If
it came before 1 and was not yet visible at 2, the chunk is older than what was appended. The chunk's snapshot names the
transactions that it does not see; ``is_stale`` finds one among those that the stream has had. Then the chunk is read
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mainstem.pipelines.definitions import TableName
from mainstem.postgres.server.chunks import SnapshotXids
from mainstem.postgres.server.pgoutput import UNCHANGED, Values
from mainstem.schema.types import TopicSchema

_UNSEEN_MAX: Final = 20_000


class SeenXids:
    """The transactions that the stream has had and that some chunk may not see yet."""

    def __init__(self, running_at_start: SnapshotXids) -> None:
        """``running_at_start``: a snapshot before the stream began, and after the last change of the publication.

        What ran then may stand before the stream, or in it without what it did before its table was published.
        """
        self._running_at_start = running_at_start.running
        self._unseen: dict[int, int] = {}
        self._count = 0

    def add(self, xid: int) -> None:
        """The stream had this transaction."""
        self._count += 1
        self._unseen[xid] = self._count
        if len(self._unseen) > _UNSEEN_MAX:  # so many later ones were committed: it has been visible for long
            del self._unseen[next(iter(self._unseen))]

    @property
    def count(self) -> int:
        """How many the stream has had: the number of the last one."""
        return self._count

    def is_stale(self, snapshot: SnapshotXids, opened_at: int) -> bool:
        """Whether a chunk lacks a transaction that the stream had before its window was opened.

        What one chunk sees, every later one sees.
        """
        self._unseen = {xid: number for xid, number in self._unseen.items() if snapshot.misses(xid)}
        self._running_at_start &= snapshot.running
        return bool(self._running_at_start) or any(number <= opened_at for number in self._unseen.values())


@dataclass(slots=True)
class Window:
    """One chunk's window. ``partial``: the last change of a row of which not all values are known, by key.

    ``opened_at``: how many transactions the stream had had.
    """

    table: TableName
    opened_at: int
    touched: set[bytes] = field(default_factory=set)
    partial: dict[bytes, Values] = field(default_factory=dict)
    shapes: set[TopicSchema] = field(default_factory=set)
    """The columns that changes of the table had. A chunk with other columns is read again."""
    is_emptied: bool = False
    """The table was truncated: nothing of the chunk is left."""
    is_spoilt: bool = False
    """The chunk is read again: a row moved to another key, and not all of its values are known."""

    def change_partly(self, key: bytes, shape: TopicSchema, new: Values) -> None:
        """The stream has changed this row, and left values out that the log does not have."""
        self.shapes.add(shape)
        if len(self.shapes) > 1:
            return  # no chunk fits both
        former = self.partial.get(key, new)
        self.partial[key] = [was if value is UNCHANGED else value for value, was in zip(new, former, strict=True)]

    def touch(self, key: bytes) -> None:
        """The stream has changed this row, and its values are in the log."""
        self.touched.add(key)
        self.partial.pop(key, None)
