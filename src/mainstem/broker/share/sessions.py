"""Share sessions: the partitions that each member fetches. A request then carries only changes.

A member has at most one session. Its epoch counts the requests and so keeps them in order: 0 begins a session, -1 ends
it. A session also ends with its connection. Sessions are in memory only: after a restart members begin new ones.
Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from mainstem.broker.error_codes import refusal
from mainstem.protocol.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """The group and member that a session belongs to."""

    group_id: str
    member_id: str


class SharedPartition(NamedTuple):
    """A partition of a topic, by the topic's id."""

    topic_id: UUID
    partition: int


class AddedTopic(Protocol):
    """A topic that a request adds to the session."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> Iterable[_AddedPartition]: ...


class _AddedPartition(Protocol):
    @property
    def partition_index(self) -> int: ...


class ForgottenTopic(Protocol):
    """A topic that a request removes from the session."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> Iterable[int]: ...


class Ending(Protocol):
    """The part of a connection that sessions need: a callback when it closes."""

    def when_closed(self, what: object, call: Callable[[], None]) -> None: ...

    def forget(self, what: object) -> None: ...


@dataclass(slots=True)
class ShareSession:
    """One session. ``epoch`` is what its next request must carry; ``untold`` are the partitions that the next answer
    names even if it has nothing of them, because they are new or had an error.
    """

    key: SessionKey
    connection: Ending
    epoch: int = INITIAL_EPOCH
    partitions: dict[SharedPartition, None] = field(default_factory=dict)
    untold: set[SharedPartition] = field(default_factory=set)
    is_closed: bool = False

    def add(self, topics: Iterable[AddedTopic]) -> None:
        """Fetch these, too."""
        for topic in topics:
            for item in topic.partitions:
                partition = SharedPartition(topic.topic_id, item.partition_index)
                if partition not in self.partitions:
                    self.partitions[partition] = None
                    self.untold.add(partition)

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        """Do not fetch these any more."""
        for topic in topics:
            for number in topic.partitions:
                partition = SharedPartition(topic.topic_id, number)
                self.partitions.pop(partition, None)
                self.untold.discard(partition)

    def in_turn(self) -> list[SharedPartition]:
        """The partitions, each time beginning with another one, so that none starves."""
        partitions = list(self.partitions)
        begin = self.epoch % len(partitions) if partitions else 0
        return partitions[begin:] + partitions[:begin]

    def advance(self) -> None:
        """The request was taken: the next one has the next epoch."""
        self.epoch = 1 if self.epoch == _INT32_MAX else self.epoch + 1


class ShareSessions:
    """All share sessions. ``ended`` is called for each that ends, unless a new one replaces it."""

    def __init__(self, sessions_max: int, ended: Callable[[ShareSession], None]) -> None:
        self._sessions_max = sessions_max
        self._ended = ended
        self._sessions: dict[SessionKey, ShareSession] = {}

    def begin(self, key: SessionKey, connection: Ending) -> ShareSession:
        """A new session, in place of the one that the member may have. Raises RemoteError: there are too many."""
        before = self._sessions.pop(key, None)
        if before is not None:
            before.is_closed = True
            before.connection.forget(key)
        if len(self._sessions) >= self._sessions_max:
            raise refusal(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection)

        def connection_closed() -> None:
            if self._sessions.get(key) is session:
                self.end(session)

        connection.when_closed(key, connection_closed)
        return session

    def use(self, key: SessionKey, epoch: int) -> ShareSession:
        """The member's session. Raises RemoteError: there is none, or the request is not the next one."""
        session = self._sessions.get(key)
        if session is None:
            raise refusal(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (session.epoch, FINAL_EPOCH):
            raise refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def end(self, session: ShareSession) -> None:
        """Forget a session, and say so."""
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
            session.connection.forget(session.key)
        session.is_closed = True
        self._ended(session)

    def statistics(self) -> dict[str, int]:
        """The number of sessions that are kept."""
        return {"sessions": len(self._sessions)}
