"""Builds a view's store as of a past position: from the newest snapshot before it, and the log from there.

A store's content is a function of its position (`views.stores.store`), so that a snapshot and the records from it up
to the asked position make exactly what the view held there. It is made from all of them or not at all: where
retention or compaction has removed some, it is one error.

1. Take the newest snapshot on disk that the position covers, if the log still has all that follows it.
2. Copy its store, which must be at the position that the snapshot was made of, and replay the topic from there up to
   the asked position, in every partition.
3. If there is no such snapshot, or it is not at that position, or compaction has removed records after it (perhaps
   deletions): replay the topic from its beginning. If records were removed there, too, and the records that superseded
   them come after the position, the state is unknown.

Thread-safe: each build has its own connection.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mainstem.client.read.start import partitions_of
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.errors import HistoryRemovedError
from mainstem.model import Position, TopicPartition
from mainstem.views.feed.feed import Feed, LossPolicy
from mainstem.views.feed.read_ahead import ReadAhead
from mainstem.views.stores.store import Bookmark, StoreDefinition, ViewStore, no_dead_letters
from mainstem.views.stores.store_kinds import open_store
from mainstem.views.stores.store_snapshots import StoreSnapshots, copy_store

_LOG = logging.getLogger("mainstem.views")
_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class PastBuilder:
    """Builds past states of one view. ``topic_ids``: the ids of the topics that the view's positions belong to."""

    topic: str
    topic_ids: Mapping[str, str]
    definition: StoreDefinition
    snapshots: StoreSnapshots
    client: Callable[[], WireClient]
    for_users: bool = False
    """As of ``open_store``."""

    def build(self, path: Path, position: Position, go_on: Callable[[Position], None]) -> ViewStore:
        """Build the store in the new directory ``path``; ``go_on`` hears how far it is, and may raise to end it.

        Raises HistoryRemovedError, ViewStoppedError, StorageError, LogUnavailableError.
        """
        with self.client() as client:
            earliest = client.list_offsets(partitions_of(client, [self.topic]), EARLIEST)
            with self.snapshots.newest_within(position) as snapshot:
                if snapshot is not None and _removed(snapshot.bookmark.position, position, earliest) is None:
                    copy_store(snapshot, path)
                    store = self._replayed(client, path, snapshot.bookmark.position, position, go_on)
                    if store is not None:
                        return store
            removed = _removed(Position(), position, earliest)
            if removed is not None:
                raise HistoryRemovedError(f"the log has removed {removed}, which the state as of {position} needs")
            store = self._replayed(client, path, Position(), position, go_on)
        if store is None:
            raise HistoryRemovedError(
                f"compaction has removed records of {self.topic} which the state as of {position} needs: a compacted "
                "topic keeps the past only from its snapshots on"
            )
        return store

    def _replayed(
        self, client: WireClient, path: Path, start: Position, position: Position, go_on: Callable[[Position], None]
    ) -> ViewStore | None:
        """The store in ``path``, which is at ``start``, replayed up to ``position``.

        None, and nothing there, when compaction left gaps, or when the store is somewhere else.
        """
        store = open_store(path, self.definition, for_users=self.for_users)
        try:
            is_new = not store.position
            if store.position != start:
                _LOG.warning("a snapshot of %s made at %s holds %s: not used", self.topic, start, store.position)
                _give_up(store, path)
                return None
            begin = Bookmark(topic_ids=self.topic_ids) if is_new else store.bookmark
            losses = LossPolicy(on_damaged=self.definition.on_damaged)
            feed = Feed(client, self.topic, begin, position, columns=self.definition.reads, losses=losses).reading(
                self.definition.values
            )
            with ReadAhead(feed, store.read) as steps:
                while not steps.is_at_end:
                    go_on(store.position)
                    found = steps.next(_WAIT_MS)
                    if found is not None:
                        store.write(found.read, found.step.bookmark, no_dead_letters)
            if position.covers(store.bookmark.exact_from) and (is_new or not feed.has_met_gap):
                return store
        except BaseException:
            store.close()
            raise
        _give_up(store, path)
        return None


def _give_up(store: ViewStore, path: Path) -> None:
    store.close()
    shutil.rmtree(path)


def _removed(begin: Position, until: Position, earliest: Mapping[TopicPartition, int]) -> str | None:
    """The text of which records from ``begin`` to ``until`` the log has removed; None when all are there."""
    for tp, start in earliest.items():
        first, end = begin.get(tp, 0), until.get(tp, 0)
        if first < end and first < start:
            return f"offsets {first} to {min(start, end) - 1} of {tp}"
    return None
