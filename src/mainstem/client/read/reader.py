"""Readers of records: bounded ones that end, followers that do not. Both know their exact position.

The position advances with the fetch: past transaction markers, aborted records and compacted gaps, not only past the
records that came out. A reader that stopped with an error can go on: the next ``next()`` tries again from the same
position. At records that are in the log and cannot be read it stops with DamagedRecordsError, or, with
``on_damaged="skip"``, steps over them and names them in ``damaged``. Iterated by one thread; ``position`` may be asked
for and ``close`` called from any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mainstem.client.read.decoding import Chunk
from mainstem.client.read.start import (
    Moment,
    Offsets,
    TopicIds,
    end_offsets,
    partitions_of,
    require_topics,
    start_offsets,
    topic_ids_of,
)
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.damage import check_on_damaged
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.connection.pool import Pool
from mainstem.clock import Clock
from mainstem.errors import DamagedRecordsError, LogUnavailableError
from mainstem.model import OnDamaged, Position, Record, TopicPartition
from mainstem.record.reader import Wanted

_PARTITION_BYTES: Final = 1024 * 1024
FETCH_BYTES: Final = 16 * 1024 * 1024
_FOLLOW_WAIT_MS: Final = 500
_NEW_PARTITIONS_S: Final = 10.0


class _Chunks:
    """The chunks of one fetch as one stream of records, and the position that goes with it."""

    def __init__(
        self, offsets: Mapping[TopicPartition, int], on_damaged: OnDamaged = "stop", end: Offsets | None = None
    ) -> None:
        """``end``: where a bounded reader ends, so that stepping over damage does not lead past it."""
        check_on_damaged(on_damaged)
        self.damaged: list[DamagedRecordsError] = []
        self.wanted: Wanted | None = None
        """As of a ``Chunk``, in a reader of one partition."""
        self._on_damaged = on_damaged
        self._end = end or {}
        self._offsets: Offsets = dict(offsets)
        self._chunks: deque[Chunk] = deque()
        self._records: Iterator[Record] = iter(())
        self._current: Chunk | None = None

    @property
    def offsets(self) -> Offsets:
        """The next offset of each partition, after the records that came out so far."""
        offsets, current = dict(self._offsets), self._current
        if current is not None:
            tp = current.topic_partition
            offsets[tp] = max(offsets[tp], current.next_offset)  # it may have been dropped just now
        return offsets

    def add_partition(self, tp: TopicPartition) -> None:
        """Take in a partition that was not there before."""
        self._offsets.setdefault(tp, 0)

    def skip_to(self, tp: TopicPartition, offset: int) -> None:
        """Go on at ``offset``: nothing before it is wanted."""
        self._offsets[tp] = max(self._offsets[tp], offset)

    def add_fetched(self, tp: TopicPartition, part: FetchedPartition, start: int) -> None:
        """Take in the result of a fetch from ``start`` on. Raises its error, unless it heals or may be stepped over."""
        if isinstance(part.error, DamagedRecordsError):
            self._step_over(part.error)
        elif part.error is not None and not part.heals:
            raise part.error
        else:
            self._chunks.append(Chunk(tp, part, start, self._end.get(tp), wanted=self.wanted))

    def _step_over(self, damage: DamagedRecordsError) -> None:
        """Go on after damaged offsets, and remember them. Raises ``damage`` where that is not allowed or possible."""
        if self._on_damaged == "stop" or damage.last_offset is None:
            raise damage
        tp, after = damage.topic_partition, damage.last_offset + 1
        self.damaged.append(DamagedRecordsError(tp, damage.first_offset, damage.last_offset, damage.reason))
        self.skip_to(tp, min(after, self._end.get(tp, after)))

    def next_record(self) -> Record | None:
        """The next record, or None when another fetch is needed. A fetch that cannot be read on is dropped."""
        while True:
            try:
                record = next(self._records, None)
            except BaseException as error:
                self._chunks.clear()
                self._drop_current()
                if not isinstance(error, DamagedRecordsError):
                    raise
                self._step_over(error)
                return None
            if record is not None:
                return record
            self._drop_current()
            if not self._chunks:
                return None
            self._current = self._chunks.popleft()
            self._records = iter(self._current)

    def _drop_current(self) -> None:
        if self._current is not None:
            self._offsets[self._current.topic_partition] = self._current.next_offset
            self._current, self._records = None, iter(())


class BoundedReader(Iterator[Record]):
    """The records between two offsets of each partition; ends by itself."""

    def __init__(
        self,
        pool: Pool[WireClient],
        start: Offsets,
        end: Offsets,
        *,
        key: bytes | None = None,
        limit: int | None = None,
        fetch_bytes: int = FETCH_BYTES,
        on_damaged: OnDamaged = "stop",
        topic_ids: TopicIds | None = None,
    ) -> None:
        """``fetch_bytes``: about how much is asked of the log at once, so what the reader holds in memory.

        ``topic_ids``: the topics that the offsets are of. A recreated topic is another one: UnknownTopicError.
        """
        self._pool = pool
        self._topic_ids: TopicIds = topic_ids or {}
        self._fetch_bytes = fetch_bytes
        self._chunks = _Chunks(start, on_damaged, end)
        self._end = end
        self._key = key
        self._left = limit

    @property
    def position(self) -> Position:
        """The position just after the records that came out so far."""
        return Position(self._chunks.offsets)

    @property
    def damaged(self) -> Sequence[DamagedRecordsError]:
        """The damaged offsets that the reader has stepped over, with ``on_damaged="skip"``."""
        return tuple(self._chunks.damaged)

    @property
    def end(self) -> Position:
        """Where the reader ends."""
        return Position(self._end)

    def close(self) -> None:
        """End here; from any thread."""
        self._left = 0

    def __next__(self) -> Record:
        while self._left is None or self._left > 0:
            record = self._chunks.next_record()
            if record is None:
                if not self._fetch():
                    break
            elif self._key is None or record.key == self._key:
                if self._left is not None:
                    self._left -= 1
                return record
        raise StopIteration

    def _fetch(self) -> bool:
        wanted = self._wanted()
        if not wanted:
            return False
        with self._pool.borrow() as client:
            require_topics(client, self._topic_ids)
            fetched = client.fetch(wanted, partition_max_bytes=self._partition_bytes(), max_bytes=self._fetch_bytes)
            require_topics(client, self._topic_ids)
        for tp, part in fetched.items():
            self._chunks.add_fetched(tp, part, wanted[tp])
        return True

    def _wanted(self) -> Offsets:
        """Where to fetch from next."""
        offsets = self._chunks.offsets
        return {tp: offsets[tp] for tp, end in self._end.items() if offsets[tp] < end}

    def _partition_bytes(self) -> int:
        return min(_PARTITION_BYTES, self._fetch_bytes)


class Follower(Iterator[Record]):
    """The records of topics as they arrive, without end, until it is closed.

    Partitions that are added to a topic later are read from their beginning.
    """

    def __init__(
        self,
        client: WireClient,
        topics: tuple[str, ...],
        start: Moment,
        clock: Clock,
        *,
        fetch_bytes: int = FETCH_BYTES,
        on_damaged: OnDamaged = "stop",
    ) -> None:
        """Takes over ``client``; ``fetch_bytes`` as of a BoundedReader.

        Raises UnknownTopicError, OffsetOutOfRangeError, LogUnavailableError.
        """
        self._client = client
        self._fetch_bytes = fetch_bytes
        self._topics = topics
        self._clock = clock
        self._is_closed = False
        ends = end_offsets(client, partitions_of(client, topics), read_committed=True)
        self._topic_ids = topic_ids_of(client, topics)
        self._chunks = _Chunks(start_offsets(client, ends, start, on_damaged=on_damaged), on_damaged)
        self._looked_s = clock.monotonic_s()

    @property
    def position(self) -> Position:
        """The position just after the records returned so far, and after markers and gaps that follow them."""
        return Position(self._chunks.offsets)

    @property
    def damaged(self) -> Sequence[DamagedRecordsError]:
        """The damaged offsets that the follower has stepped over, with ``on_damaged="skip"``."""
        return tuple(self._chunks.damaged)

    def close(self) -> None:
        """End it; from any thread. A thread that waits in ``next`` gets StopIteration."""
        self._is_closed = True
        self._client.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Record:
        while not self._is_closed:
            record = self._chunks.next_record()
            if record is not None:
                return record
            self._fetch()
        raise StopIteration

    def take(self, bytes_max: int) -> list[Record]:
        """The next records, up to about ``bytes_max``; waits for one fetch at most, and is empty if that has none.

        ``position`` is then just after them. Raises the same errors as iterating.
        """
        taken: list[Record] = []
        size_bytes, may_fetch = 0, True
        while size_bytes < bytes_max and not self._is_closed:
            try:
                record = self._chunks.next_record()
            except DamagedRecordsError:
                if not taken:
                    raise
                break  # the next call meets the damage first
            if record is not None:
                taken.append(record)
                size_bytes += record.size_bytes
            elif may_fetch and not taken:
                self._fetch()
                may_fetch = False
            else:
                break
        return taken

    def _fetch(self) -> None:
        try:
            self._look_for_partitions()
            require_topics(self._client, self._topic_ids)
            wanted = self._chunks.offsets
            fetched = self._client.fetch(
                wanted,
                max_wait_ms=_FOLLOW_WAIT_MS,
                partition_max_bytes=min(_PARTITION_BYTES, self._fetch_bytes),
                max_bytes=self._fetch_bytes,
            )
            require_topics(self._client, self._topic_ids)
        except LogUnavailableError:
            if self._is_closed:
                return
            raise
        for tp, part in fetched.items():
            self._chunks.add_fetched(tp, part, wanted[tp])

    def _look_for_partitions(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < _NEW_PARTITIONS_S:
            return
        for tp in partitions_of(self._client, self._topics):
            self._chunks.add_partition(tp)
        self._looked_s = now_s
