"""The log features of a node: the features of each partition, the store that their indexes share, and index builds.

One store serves all partitions of the node, in ``DATA/key-index``; it is opened when the first topic needs it. It is
derived from the log: after a failure it is opened again, and after a second one removed and rebuilt. A failure of the
index never fails an append. Meanwhile reads by key scan the log; requests that need the index get a retriable error.

Concurrency: owned by the thread that owns the partition logs. ``tick`` is called every second or so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

from mainstem.clock import Clock
from mainstem.errors import StorageError
from mainstem.log.key_index import key_layout as layout
from mainstem.log.key_index.append_hook import AppendFeatures
from mainstem.log.key_index.index_worker import BuildProcess, RunningBuild
from mainstem.log.key_index.key_index import BuildPlan, KeyIndex, drop_generation
from mainstem.log.key_index.key_store import Entry, KeyStore, RocksKeyStore, remove_store
from mainstem.log.partition.partition_log import PartitionLog

_LOG: Final = logging.getLogger(__name__)

STORE: Final = "key-index"
BUILD: Final = "key-index-build"
_RETRY_S_MIN: Final = 1.0
_RETRY_S_MAX: Final = 60.0


class LogFeatures:
    """The log features of a node's partitions. ``open_store`` and ``start_build`` are ports, which tests replace."""

    def __init__(self, path: PurePath, clock: Clock) -> None:
        self.open_store: Callable[[], KeyStore] = lambda: RocksKeyStore(path / STORE)
        self.remove_store: Callable[[], None] = lambda: remove_store(path / STORE)
        self.start_build: Callable[[BuildPlan], RunningBuild] = lambda plan: BuildProcess(plan, path / BUILD)
        self._clock = clock
        self._store: KeyStore | None = None
        self._next_generation = 0
        self._indexes: dict[PartitionLog, KeyIndex] = {}
        self._running: tuple[KeyIndex, RunningBuild] | None = None
        self._failures = 0
        self._not_before_s = 0.0

    def attach(self, log: PartitionLog) -> None:
        """Give a partition the features that its configs ask for, or take them away."""
        if not log.config.has_log_features:
            self._drop(log)
            log.features = None
            return
        index = self._indexes.get(log)
        if index is not None and index.parts != index.wanted_parts:
            self._drop(log)
            index = None
        if index is None and log.config.needs_key_index:
            index = self._open_index(log)
        log.features = AppendFeatures(log.config, index)

    def _open_index(self, log: PartitionLog) -> KeyIndex:
        if self._store is None:
            self._store = self._open_store()
        index = self._indexes[log] = KeyIndex(self._store, log, self._clock, self._new_generation)
        index.open()
        return index

    def _drop(self, log: PartitionLog) -> None:
        """Remove what is stored of a partition."""
        index = self._indexes.pop(log, None)
        if index is not None:
            self._stop_build(index)
            index.forget()

    def deleted(self, log: PartitionLog) -> None:
        """The partition is deleted."""
        self._drop(log)
        log.features = None

    def close(self) -> None:
        """Stop what is under way, and close the store as it is."""
        if self._running is not None:
            self._running[1].stop()
            self._running = None
        self._indexes.clear()
        if self._store is not None:
            self._store.close()
            self._store = None

    # Now and then

    def tick(self) -> None:
        """Go on with what is done beside appends: take over a build, begin one, mend the store, forget old keys."""
        if not self._indexes:
            return
        if any(index.failure is not None for index in self._indexes.values()):
            self._maybe_mend()
        self._maybe_take_over()
        if self._running is None and self._clock.monotonic_s() >= self._not_before_s:
            waiting = next((index for index in self._indexes.values() if index.wants_build), None)
            if waiting is not None:
                self._begin(waiting)
        for index in self._indexes.values():
            index.sweep()

    def _begin(self, index: KeyIndex) -> None:
        plan = index.start_build()
        try:
            self._running = (index, self.start_build(plan))
        except StorageError as error:
            index.abandon_build()
            self._put_off(f"{index.log.topic_partition}: {error}")
            return
        _LOG.info("%s: building its key index up to offset %d", index.log.topic_partition, plan.end_offset)

    def _maybe_take_over(self) -> None:
        if self._running is None:
            return
        index, running = self._running
        result = running.poll()
        if result is None:
            return
        self._running = None
        if index.build is None:
            return  # it failed meanwhile, and is opened again
        if result.error is not None:
            index.abandon_build()
            self._put_off(f"{index.log.topic_partition}: its key index cannot be built now: {result.error}")
            return
        index.finish_build(result.files)
        if index.failure is None:
            self._failures = 0
            _LOG.info("%s: its key index is ready", index.log.topic_partition)

    def _stop_build(self, index: KeyIndex) -> None:
        if self._running is not None and self._running[0] is index:
            self._running[1].stop()
            self._running = None

    def _put_off(self, reason: str) -> None:
        """Wait longer each time before the next try."""
        pause_s = min(_RETRY_S_MAX, _RETRY_S_MIN * 2 ** min(self._failures, 10))
        self._failures += 1
        self._not_before_s = self._clock.monotonic_s() + pause_s
        _LOG.error("%s; the next try is in %g s", reason, pause_s)

    # The store

    def _maybe_mend(self) -> None:
        """Open the store and every index again; the second time in a row, remove the store first (a rebuild)."""
        if self._clock.monotonic_s() < self._not_before_s:
            return
        reason = next(index.failure for index in self._indexes.values() if index.failure is not None)
        removes = self._failures > 0
        self._put_off(f"{reason}; it is {'rebuilt' if removes else 'opened again'}")
        logs = list(self._indexes)
        self.close()
        if removes:
            self.remove_store()
        for log in logs:
            self.attach(log)
        if any(index.failure is not None for index in self._indexes.values()):
            return
        self._not_before_s = 0.0

    def _open_store(self) -> KeyStore:
        try:
            store = self.open_store()
        except StorageError as error:
            _LOG.error("%s; it is rebuilt", error)
            self.remove_store()
            try:
                store = self.open_store()
            except StorageError as second:
                return _NoStore(str(second))
        try:
            self._next_generation = _remove_leftovers(store)
        except StorageError as error:
            store.close()
            return _NoStore(str(error))
        return store

    def _new_generation(self) -> int:
        self._next_generation += 1
        return self._next_generation


def _remove_leftovers(store: KeyStore) -> int:
    """Remove generations that nothing refers to, which a crash left. Returns the greatest that is used."""
    metas = (layout.decode_meta(value) for _, value in store.scan(layout.META, layout.AFTER_META))
    used = {meta.generation for meta in metas if meta is not None}
    for kind in layout.GENERATIONS:
        for generation in _generations(store, kind):
            if generation not in used:
                drop_generation(store, generation)
    return max(used, default=0)


def _generations(store: KeyStore, kind: bytes) -> Iterator[int]:
    generation, end = 0, bytes((kind[0] + 1,))
    while True:
        found = next(store.scan(layout.generation_prefix(kind, generation), end), None)
        if found is None:
            return
        generation = layout.generation_of(found[0])
        yield generation
        generation += 1


class _NoStore:
    """Stands for a store that cannot be opened: everything fails with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _fail(self, *_: object) -> StorageError:
        return StorageError(self._reason)

    def get(self, key: bytes) -> bytes | None:
        raise self._fail(key)

    def last(self, start: bytes, end: bytes) -> Entry | None:
        raise self._fail(start, end)

    def scan(self, start: bytes, end: bytes) -> Iterator[Entry]:
        raise self._fail(start, end)

    def write(self, puts: object, deletes: object = ()) -> None:
        raise self._fail(puts, deletes)

    def delete_range(self, start: bytes, end: bytes) -> None:
        raise self._fail(start, end)

    def ingest(self, files: Sequence[PurePath]) -> None:
        raise self._fail(files)

    def close(self) -> None:
        """There is nothing to close."""
