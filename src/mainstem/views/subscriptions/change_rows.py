"""``ChangeSubscription``: the changes of a view with their rows, for a stream.

1. It starts a watch, and learns the position where the watch begins.
2. A client that comes back with a position gets the changes since: the keys in the topic between that position and the
   beginning of the watch. If the log has removed them, compaction has removed some (perhaps deletions), or they are too
   many, it is a *reset*: the client's rows may be wrong, and it has to read them again.
3. The row of each changed key is read in its current state. That state covers every change that was sent, so an older
   row never follows a newer one. A view that has lost its tail, and is before the position that the client has seen,
   sends nothing until it is there again.

For one thread at a time; ``close`` from any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mainstem.client.log import Log
from mainstem.errors import PositionError, QueryError, UnavailableError, UnknownTopicError, ViewStoppedError
from mainstem.model import Position
from mainstem.views.feed.feed import Feed, LossPolicy
from mainstem.views.requests import WatchRequest
from mainstem.views.stores.store import Bookmark, Row
from mainstem.views.subscriptions.subscriptions import KEYS_MAX, Subscriptions, WatchFilter

if TYPE_CHECKING:
    from mainstem.client.wire.cluster.cluster import WireClient
    from mainstem.views.host.view import HostedView

_KEYS_AT_ONCE: Final = 100
_REPLAY_MAX: Final = 100_000
_FETCH_BYTES: Final = 1 << 20
_COLUMNS: Final = frozenset({"key"})
_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows by key (None: deleted) as of ``state``. ``position`` is set when there is nothing more to tell before it."""

    rows: Sequence[tuple[str, Row | None]]
    state: Position
    position: Position | None
    is_reset: bool
    has_moved: bool


class ChangeSubscription:
    """One client's subscription to the changes of a view."""

    def __init__(
        self,
        view: HostedView,
        watchers: Subscriptions,
        log: Log,
        client: Callable[[], WireClient],
        request: WatchRequest,
        wake: Callable[[], None],
    ) -> None:
        """``client`` makes a connection to the log for one reader.

        Raises QueryError, PositionError, ViewStoppedError, UnavailableError, LogUnavailableError.
        """
        self._client = client
        self._view = view
        self._not_before = request.since or Position()
        self._check(request)
        view.rows_of(())
        self._watch = watchers.watch(self._filter(request), wake)
        self._must_reset = False
        try:
            if not self._watch.began.covers(self._not_before) and not log.end(view.topic).covers(self._not_before):
                self._must_reset, self._not_before = True, Position()  # the topic was recreated
            if self._watch.wanted.key is not None:
                self._watch.add((self._watch.wanted.key,))
            elif request.since is not None and not self._must_reset:
                self._replay(log, request.since)
        except BaseException:
            self._watch.close()
            raise

    @property
    def began(self) -> Position:
        """The position where the client begins: its own, or else the view's."""
        return self._not_before if self._not_before else self._watch.began

    @property
    def position(self) -> Position | None:
        """The position up to which all changes were taken; None while changes are pending."""
        position = self._watch.position
        return position if position is not None and position.covers(self._not_before) else None

    @property
    def is_held(self) -> bool:
        """Whether the view is before the client's position, so that nothing can be sent yet."""
        return not self._view.position.covers(self._not_before)

    def next(self) -> RowChanges | None:
        """The next changes to send; None when there are none.

        Raises ViewStoppedError, and UnavailableError if the client has let too many keys accumulate.
        """
        self._view.refuse_if_stopped()
        if self.is_held:
            return None
        taken = self._watch.take(_KEYS_AT_ONCE)
        if taken.is_too_many:
            raise UnavailableError(
                f"over {KEYS_MAX} keys changed before this reader took them, so it was cut off; reconnect with "
                "Last-Event-ID to go on from there"
            )
        is_reset, self._must_reset = taken.is_reset or self._must_reset, False
        keys = taken.keys
        if is_reset and self._watch.wanted.key is not None:
            keys = (self._watch.wanted.key,)
        if not keys and not is_reset and not taken.has_moved:
            return None
        rows, state = self._view.rows_of(keys)
        return RowChanges(rows, state, taken.position, is_reset, taken.has_moved)

    def close(self) -> None:
        """End the subscription. Idempotent."""
        self._watch.close()

    # ---- how

    def _check(self, request: WatchRequest) -> None:
        strangers = self._not_before.topics - {self._view.topic}
        if strangers:
            raise PositionError(
                f"the position names {', '.join(sorted(strangers))}; view {self._view.name} reads {self._view.topic}"
            )
        is_keyed = self._view.definition.kind.has_keyed_changes
        if not is_keyed and (request.key is not None or request.prefix is not None):
            kind = self._view.definition.kind.kind
            raise QueryError(f"a {kind} view reports that it changed, not which keys did: leave key and prefix out")

    def _filter(self, request: WatchRequest) -> WatchFilter:
        if request.key is not None:
            return WatchFilter(key=request.key.encode())
        if self._view.definition.kind.has_keyed_changes:
            return WatchFilter(prefix=(request.prefix or "").encode())
        return WatchFilter()

    def _replay(self, log: Log, since: Position) -> None:
        """Add the topic's keys between ``since`` and the beginning of the watch to the pending keys."""
        topic, began = self._view.topic, self._watch.began
        if began.covers(since) and since.covers(began):
            return
        missed = sum(max(0, end - since.get(tp, 0)) for tp, end in began.items())
        try:
            beginning = log.beginning(topic)
            is_lost = any(since.get(tp, 0) < min(offset, began.get(tp, 0)) for tp, offset in beginning.items())
            keys = None if is_lost or missed > _REPLAY_MAX else self._keys_between(since, began)
        except (ViewStoppedError, UnknownTopicError):  # the topic was recreated
            self._must_reset, self._not_before = True, Position()
            return
        prefix = self._watch.wanted.prefix
        if keys is None or len(keys) > KEYS_MAX:
            self._must_reset = True
        elif prefix is None:
            self._watch.add(())
        else:
            self._watch.add(sorted(key for key in keys if key.startswith(prefix)))

    def _keys_between(self, since: Position, until: Position) -> set[bytes] | None:
        """The keys of the topic's records; None where compaction has removed some. Raises as a Feed does."""
        keys: set[bytes] = set()
        with self._client() as client:
            feed = Feed(
                client,
                self._view.topic,
                Bookmark(since),
                until,
                columns=_COLUMNS,
                fetch_bytes=_FETCH_BYTES,
                losses=LossPolicy(on_damaged=self._view.definition.on_damaged),
            )
            if not feed.end.covers(until):
                raise ViewStoppedError(f"the log ends at {feed.end}, before the view's position {until}")
            while not feed.is_at_end:
                step = feed.step(_WAIT_MS)
                if feed.has_met_gap:
                    return None
                if step is not None:
                    keys.update(key for key in step.arrow_batch.column("key").to_pylist() if key is not None)
        return keys
