"""Fetch sessions (KIP-227): what a client wants to read is kept here, so that a request says only what changed. No I/O.

A session knows which of its partitions may have something to tell: they are its ``unread`` ones. A partition that was
read to its end leaves them, and comes back when its log changes or the client asks for it anew. So a poll of a session
of a thousand idle partitions looks at none of them, and an append wakes the session for one.

Unread partitions stand in the order in which they are read. One that gave records goes to their end, and those that
the limit of an answer left out stay in front: none starves.

A fetch without a session is a session that is never kept, and that ends with its answer.

Invariants: an unread partition is a partition of its session; a kept session, and no other, has an id; partitions are
watched from ``watch`` until ``close``. Used on one thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from random import SystemRandom
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from mainstem.broker.failures import refusal
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

TopicKey: TypeAlias = "str | UUID"
"""What a session calls a topic: its id from version 13 of the API on, its name before."""

FULL_EPOCH: Final = 0
"""The epoch of a request that names all partitions and asks for a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that names all partitions and asks for none."""
_FIRST_EPOCH: Final = 1
_INT32_MAX: Final = 2**31 - 1
_SAFE_FOR_S: Final = 120.0
"""As in Kafka: a session that was used within this time is not evicted for its age."""


class Watcher(Protocol):
    """Who wants to hear that a partition log has changed."""

    def log_changed(self) -> None: ...


class Watches(Protocol):
    """Where one says whose changes one wants to hear of."""

    def watch(self, log: PartitionLog, watcher: Watcher) -> None: ...

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None: ...


class Told(NamedTuple):
    """What the client knows of a partition, beside its records."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class SessionPartition:
    """One partition of a session. ``asked`` is what the client last asked of it; ``log`` is the log that it was found
    to be when it was last read; ``told`` is None after an error, so that its end is told, too.
    """

    __slots__ = ("asked", "log", "session", "told", "topic")

    def __init__(self, session: FetchSession, topic: TopicKey, asked: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.asked = asked
        self.log: PartitionLog | None = None
        self.told: Told | None = None

    def log_changed(self) -> None:
        """Its log says so."""
        self.session.mark(self)


class FetchSession:
    """The partitions that one client reads. ``epoch`` is what its next request must carry."""

    def __init__(self, watches: Watches, *, by_id: bool, privileged: bool) -> None:
        self.by_id = by_id
        self.privileged = privileged
        self.session_id = 0
        self.epoch = FULL_EPOCH
        self.is_closed = False
        self.partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
        self.unread: dict[SessionPartition, None] = {}
        self._watches = watches
        self._is_watching = False
        self._isolation_level = 0
        self._listener: Callable[[], None] | None = None

    # ---- what the client asks for

    def update(
        self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic] = (), isolation_level: int = 0
    ) -> None:
        """Take what a request adds, changes and forgets."""
        if isolation_level != self._isolation_level:
            self._isolation_level = isolation_level
            self.unread.update(dict.fromkeys(self.partitions.values()))
        partitions, unread = self.partitions, self.unread
        for topic in topics:
            key: TopicKey = topic.topic_id if self.by_id else topic.topic
            for asked in topic.partitions:
                place = (key, asked.partition)
                partition = partitions.get(place)
                if partition is None:
                    partition = partitions[place] = SessionPartition(self, key, asked)
                else:
                    partition.asked = asked
                unread[partition] = None
        for gone in forgotten:
            for number in gone.partitions:
                self._forget((gone.topic_id if self.by_id else gone.topic, number))

    def _forget(self, key: tuple[TopicKey, int]) -> None:
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.unread.pop(partition, None)
            if self._is_watching and partition.log is not None:
                self._watches.unwatch(partition.log, partition)

    # ---- what its logs tell

    def mark(self, partition: SessionPartition) -> None:
        """The partition may have something to tell: whoever waits for the session hears of it."""
        self.unread[partition] = None
        if self._listener is not None:
            self._listener()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Let ``listener`` hear of changes; one that listened before hears this once, and no more."""
        before, self._listener = self._listener, listener
        if before is not None:
            before()

    def leave(self, listener: Callable[[], None]) -> None:
        """``listener`` does not listen any more."""
        if self._listener == listener:
            self._listener = None

    def watch(self) -> None:
        """Hear of every change of the partitions from now on: none of them may have changed since it was read."""
        if not self._is_watching:
            self._is_watching = True
            for partition in self.partitions.values():
                if partition.log is not None:
                    self._watches.watch(partition.log, partition)

    def found(self, partition: SessionPartition, log: PartitionLog | None) -> None:
        """The partition was looked up: it is ``log`` now; None when there is none."""
        if self._is_watching and partition.log is not None:
            self._watches.unwatch(partition.log, partition)
        partition.log = log
        if self._is_watching and log is not None:
            self._watches.watch(log, partition)

    # ---- what the client is told

    def has_read(self, partition: SessionPartition) -> None:
        """There is no more in it for now: it is looked at again when its log changes, or when it is asked for."""
        self.unread.pop(partition, None)

    def answered(self, partition: SessionPartition, told: Told | None, *, gave_records: bool) -> None:
        """The client is told this of the partition; None for an error, which is looked at again with the next fetch."""
        partition.told = told
        if gave_records:
            self.unread.pop(partition, None)
        if gave_records or told is None:
            self.unread[partition] = None

    def advance(self) -> int:
        """Go on to the epoch of the next request, and return it."""
        self.epoch = _FIRST_EPOCH if self.epoch in (FULL_EPOCH, _INT32_MAX) else self.epoch + 1
        return self.epoch

    def close(self) -> None:
        """It ends: nothing is watched any more, and who waits for it is told."""
        if self._is_watching:
            for partition in self.partitions.values():
                if partition.log is not None:
                    self._watches.unwatch(partition.log, partition)
        self._is_watching = False
        self.is_closed = True
        # A session and its partitions know each other: without this, each fetch leaves work to the garbage collector.
        self.partitions = {}
        self.unread = {}
        self.listen(None)


class _Kept:
    """A session in the cache. Times are monotonic seconds; ``size`` is its partitions when it was last used."""

    __slots__ = ("made_s", "session", "size", "used_s")

    def __init__(self, session: FetchSession, now_s: float) -> None:
        self.session = session
        self.made_s = self.used_s = now_s
        self.size = len(session.partitions)

    @property
    def rank(self) -> tuple[bool, int]:
        """Who ranks lower makes room for who ranks higher."""
        return self.session.privileged, self.size


class FetchSessions:
    """The sessions that are kept, at most ``slots`` of them with ``partitions_max`` partitions in all.

    When it is full, a new session takes the place of one that was not used for two minutes; or else of a smaller one
    that is older than that (a follower's: of a consumer's, however old), as in Kafka. If there is none, it is not kept.
    """

    def __init__(self, slots: int, partitions_max: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._partitions_max = partitions_max
        self._new_id = new_id or _random_id
        self._kept: OrderedDict[int, _Kept] = OrderedDict()  # least recently used first
        self._partitions = 0
        self._evictions = 0

    def use(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession:
        """The session of an incremental request. Raises RemoteError: it is not kept, or not where the client is."""
        kept = self._kept.get(session_id)
        if kept is None:
            raise refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if kept.session.epoch != epoch:
            raise refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if kept.session.by_id != by_id:
            raise refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return kept.session

    def touch(self, session: FetchSession, now_s: float) -> None:
        """The session was used, and may have grown. Raises RemoteError when that is too much: it is then closed."""
        kept = self._kept[session.session_id]
        self._partitions += len(session.partitions) - kept.size
        kept.size = len(session.partitions)
        kept.used_s = now_s
        self._kept.move_to_end(session.session_id)
        if self._partitions > self._partitions_max:
            self.remove(session.session_id)
            raise refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def keep(self, session: FetchSession, now_s: float) -> bool:
        """Keep a new session, if there is room or can be made; it then has an id, and watches its partitions."""
        size = len(session.partitions)
        if self._slots == 0:
            return False
        if len(self._kept) >= self._slots and not self._make_room((session.privileged, size), now_s):
            return False
        if self._partitions + size > self._partitions_max:
            return False
        session_id = self._new_id()
        while session_id in self._kept:
            session_id = self._new_id()
        session.session_id = session_id
        session.advance()
        session.watch()
        self._kept[session_id] = _Kept(session, now_s)
        self._partitions += size
        return True

    def remove(self, session_id: int) -> None:
        """End the session of that id, if there is one."""
        kept = self._kept.pop(session_id, None)
        if kept is not None:
            self._partitions -= kept.size
            kept.session.close()

    def _make_room(self, rank: tuple[bool, int], now_s: float) -> bool:
        oldest = next(iter(self._kept.values()))
        if now_s - oldest.used_s > _SAFE_FOR_S:
            self._evict(oldest)
            return True
        privileged, _ = rank
        candidates = [
            kept
            for kept in self._kept.values()
            if now_s - kept.made_s > _SAFE_FOR_S or (privileged and not kept.session.privileged)
        ]
        least = min(candidates, key=_rank, default=None)
        if least is None or least.rank >= rank:
            return False
        self._evict(least)
        return True

    def _evict(self, kept: _Kept) -> None:
        self._evictions += 1
        self.remove(kept.session.session_id)

    def statistics(self) -> dict[str, int]:
        """How many sessions are kept, with how many partitions, and how many had to make room so far."""
        return {"sessions": len(self._kept), "partitions": self._partitions, "evictions": self._evictions}


def _rank(kept: _Kept) -> tuple[bool, int]:
    return kept.rank


def _random_id() -> int:
    return SystemRandom().randrange(1, _INT32_MAX)
