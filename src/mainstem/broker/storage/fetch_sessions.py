"""Fetch sessions (KIP-227): the node keeps what a client reads, so a request names only the changes. No I/O.

A session keeps its ``unread`` partitions: those that may have something new for the client. A partition leaves this
set when it was read to its end. It comes back when its log changes or when a request names it. So a poll of a session
with a thousand idle partitions reads none of them, and an append wakes the session for one partition.

The order of the unread partitions is the order in which they are read. A partition that returned records goes to the
end. Partitions that did not fit into the response stay in front. So no partition starves.

A fetch without a session uses a temporary session: it is never kept and ends with its response.

Invariants: an unread partition is a partition of its session; exactly the kept sessions have an id; partitions are
watched from ``watch`` until ``close``. Used on one thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from random import SystemRandom
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from mainstem.broker.error_codes import refusal
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

TopicKey: TypeAlias = "str | UUID"
"""How a session names a topic: by id since version 13 of the API, by name before."""

Listener: TypeAlias = Callable[[bool], None]
"""Is called when a session has something to read, or is used by another request; with True, it may read at once."""
FULL_EPOCH: Final = 0
"""The epoch of a request that names all partitions and asks for a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that names all partitions and asks for none."""
_FIRST_EPOCH: Final = 1
_INT32_MAX: Final = 2**31 - 1
_SAFE_FOR_S: Final = 120.0
"""As in Kafka: a session that was used within this time is not evicted for its age."""


class Watcher(Protocol):
    """Receives a call when a partition log has changed; ``at_once``: it may read now, in this turn of the loop."""

    def log_changed(self, at_once: bool) -> None: ...


class Watches(Protocol):
    """Registers watchers of partition logs."""

    def watch(self, log: PartitionLog, watcher: Watcher) -> None: ...

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None: ...


class ReportedOffsets(NamedTuple):
    """The offsets of a partition that the client knows from the last response."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class SessionPartition:
    """One partition of a session.

    ``asked`` is the client's last request for it. ``log`` is the log that the last lookup found. ``reported`` holds the
    offsets that the client knows; it is None after an error, so the next successful read is always reported.
    """

    __slots__ = ("asked", "log", "reported", "session", "topic")

    def __init__(self, session: FetchSession, topic: TopicKey, asked: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.asked = asked
        self.log: PartitionLog | None = None
        self.reported: ReportedOffsets | None = None

    def log_changed(self, at_once: bool) -> None:
        """Mark the partition as unread: its log has changed."""
        self.session.mark(self, at_once)


class FetchSession:
    """The partitions that one client reads. ``epoch`` is the epoch that its next request must carry."""

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
        self._listener: Listener | None = None

    # ---- requests of the client

    def update(
        self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic] = (), isolation_level: int = 0
    ) -> None:
        """Apply a request: add, change and forget partitions."""
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

    # ---- changes of the logs

    def mark(self, partition: SessionPartition, at_once: bool) -> None:
        """Mark the partition as unread, and call the listener. ``at_once``: nothing else is to be read with it."""
        self.unread[partition] = None
        if self._listener is not None:
            self._listener(at_once and len(self.partitions) == 1)

    def listen(self, listener: Listener | None) -> None:
        """Set the listener. The previous listener is called once more, and then never again."""
        before, self._listener = self._listener, listener
        if before is not None:
            before(False)

    def leave(self, listener: Listener) -> None:
        """Remove ``listener``, if it is the current one."""
        if self._listener == listener:
            self._listener = None

    def watch(self) -> None:
        """Watch all partitions from now on. None of them may have changed since it was read."""
        if not self._is_watching:
            self._is_watching = True
            for partition in self.partitions.values():
                if partition.log is not None:
                    self._watches.watch(partition.log, partition)

    def found(self, partition: SessionPartition, log: PartitionLog | None) -> None:
        """Set the log that the lookup of the partition found; None if there is none."""
        if self._is_watching and partition.log is not None:
            self._watches.unwatch(partition.log, partition)
        partition.log = log
        if self._is_watching and log is not None:
            self._watches.watch(log, partition)

    # ---- responses to the client

    def has_read(self, partition: SessionPartition) -> None:
        """Remove the partition from the unread ones until its log changes or a request names it."""
        self.unread.pop(partition, None)

    def answered(self, partition: SessionPartition, reported: ReportedOffsets | None, *, gave_records: bool) -> None:
        """Store the offsets that the response reports; None for an error: the next fetch reads the partition again."""
        partition.reported = reported
        if gave_records:
            self.unread.pop(partition, None)
        if gave_records or reported is None:
            self.unread[partition] = None

    def advance(self) -> int:
        """Move to the epoch of the next request, and return it."""
        self.epoch = _FIRST_EPOCH if self.epoch in (FULL_EPOCH, _INT32_MAX) else self.epoch + 1
        return self.epoch

    def close(self) -> None:
        """End the session: stop watching its partitions, and call the listener."""
        if self._is_watching:
            for partition in self.partitions.values():
                if partition.log is not None:
                    self._watches.unwatch(partition.log, partition)
        self._is_watching = False
        self.is_closed = True
        # A session and its partitions refer to each other. Without this, each fetch leaves garbage for the collector.
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
        """The order of eviction: a session of lower rank makes room for one of higher rank."""
        return self.session.privileged, self.size


class FetchSessions:
    """The kept sessions: at most ``slots``, with at most ``partitions_max`` partitions in all.

    When all slots are taken, a new session evicts a session that was not used for two minutes. If there is none, it
    evicts a smaller session that was created more than two minutes ago. A follower's session may evict a consumer's
    session of any age. All this is as in Kafka. If no session can be evicted, the new session is not kept.
    """

    def __init__(self, slots: int, partitions_max: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._partitions_max = partitions_max
        self._new_id = new_id or _random_id
        self._kept: OrderedDict[int, _Kept] = OrderedDict()  # least recently used first
        self._partitions = 0
        self._evictions = 0

    def use(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession:
        """Return the session of an incremental request. Raises RemoteError for an unknown id or a wrong epoch."""
        kept = self._kept.get(session_id)
        if kept is None:
            raise refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if kept.session.epoch != epoch:
            raise refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if kept.session.by_id != by_id:
            raise refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return kept.session

    def touch(self, session: FetchSession, now_s: float) -> None:
        """Record a use of the session and its size. Raises RemoteError when it is too large, and closes it."""
        kept = self._kept[session.session_id]
        self._partitions += len(session.partitions) - kept.size
        kept.size = len(session.partitions)
        kept.used_s = now_s
        self._kept.move_to_end(session.session_id)
        if self._partitions > self._partitions_max:
            self.remove(session.session_id)
            raise refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def keep(self, session: FetchSession, now_s: float) -> bool:
        """Keep a new session if there is room or another can be evicted; it gets an id and watches its partitions."""
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
        """End the session with that id, if there is one."""
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
        """Return the numbers of kept sessions, of their partitions, and of evictions so far."""
        return {"sessions": len(self._kept), "partitions": self._partitions, "evictions": self._evictions}


def _rank(kept: _Kept) -> tuple[bool, int]:
    return kept.rank


def _random_id() -> int:
    return SystemRandom().randrange(1, _INT32_MAX)
