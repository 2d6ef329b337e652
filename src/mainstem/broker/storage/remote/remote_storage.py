"""Old segments that are in the backup's store alone: their release from the disk, and loads of what readers ask for.

``keep`` says in a file which partitions have such segments; the backup then writes a ``.remote`` beside each closed
segment that its store holds. A segment that is older than ``local.retention.ms`` then leaves the disk, after a thread
has asked the store for it and has compared all bytes (``segment_release``).

A read that needs pieces raises ``PiecesMissingError``. They are loaded in threads, a few at a time, and the partition's
watchers are woken, as by an append. Two readers of one piece share its load. With it comes the piece after it. A load
that has failed is an error of all its readers; after ``_FAILURE_S`` a reader begins it again. A store that does not
answer fails the loads that wait for it, too.

Concurrency: on the event loop; files and the store are read in daemon threads (``store_threads``), so that a store
which hangs holds up neither other work nor the end of the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from mainstem.broker.storage.remote.store_threads import StoreThreads, WorkProgress
from mainstem.clock import Clock
from mainstem.durable_files import replace_file
from mainstem.errors import MainstemError, StorageError, UnavailableError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import LOG, REMOTE, REMOTE_PARTITIONS, partition_directory
from mainstem.log.files.small_files import list_offsets, read_file
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import PiecesMissingError, RemoteSegment, StoredPiece
from mainstem.log.segments.segment import Segment
from mainstem.model import TopicPartition

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.broker.storage.remote.remote_pieces import RemotePieces
    from mainstem.broker.storage.remote.segment_release import ProducersUnknownError, SegmentRelease

_LOG: Final = logging.getLogger("mainstem.broker")
_LOADS_AT_ONCE: Final = 4
_LOADS_MAX: Final = 256
"""Loads that wait or run: a further read is answered without records, and its client asks again."""
_TRIES: Final = 64
_PAUSES_S: Final = (0.1, 0.3, 1.0)
_TRY_AGAIN_S: Final = 5.0
"""A try that took longer is the last one: the store is not only busy for a moment."""
_FAILURE_S: Final = 2.0
"""How long a failure is that of each reader, before a load is begun again."""
_WAKE_S: Final = 0.02
"""A partition's watchers are woken at most so often: each reads again, however many loads have ended."""
_LOAD_S: Final = 45.0
"""The longest time without a step; above what the clients of stores wait themselves."""
_Found = TypeVar("_Found")
_Key: TypeAlias = StoredPiece | PurePath
"""A load's: a piece, or the whole file of a segment."""


class _Load(NamedTuple):
    """A load that waits or runs, and the partitions whose watchers it wakes."""

    task: asyncio.Task[None]
    logs: set[PartitionLog]


class RemoteStorage:
    """Of one node."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        log: NodeLog,
        pieces: RemotePieces | None,
        wake: Callable[[PartitionLog], None],
    ) -> None:
        """``wake`` tells those who wait for a partition that it can be read on."""
        self._interval_s = int(config.get("remote.log.manager.task.interval.ms")) / 1000
        self._clock = clock
        self._log = log
        self._wake = wake
        self._slots = asyncio.Semaphore(_LOADS_AT_ONCE)
        self._loads: dict[_Key, _Load] = {}
        self._failures: dict[_Key, tuple[MainstemError, float]] = {}
        self._store_failure: tuple[UnavailableError, float] | None = None
        self._threads = StoreThreads()
        self._to_wake: set[PartitionLog] = set()
        self._woken_s = 0.0
        self._next_wake: asyncio.TimerHandle | None = None
        self._listed: bytes | None = None
        self._warned: dict[TopicPartition, str] = {}
        self.pieces = pieces
        self.failed_loads = 0
        self.released_bytes = 0

    # Loads

    def begin(self, missing: PiecesMissingError, log: PartitionLog) -> MainstemError | None:
        """Load what a read needs, then wake the partition's watchers; or why an earlier load has failed."""
        failure = self._failure_of(missing)
        if failure is None:
            for load in self._start(missing, log):
                load.logs.add(log)
            if missing.next_piece is not None:
                self._start_piece(missing, missing.next_piece, log, is_ahead=True)
        return failure

    async def reading(self, log: PartitionLog, read: Callable[[], _Found]) -> _Found:
        """Return the result of ``read`` once all pieces that it needs are here. Raises its errors, and StorageError."""
        for _ in range(_TRIES):
            try:
                return read()
            except PiecesMissingError as missing:
                loads = self._start(missing, log)
                if not loads:
                    break
                await asyncio.wait([load.task for load in loads])
                failure = self._failure_of(missing)
                if failure is not None:
                    raise failure from missing
        raise UnavailableError("too many reads of old records wait for the store of the backup: try again")

    def _failure_of(self, missing: PiecesMissingError) -> MainstemError | None:
        """Why a load of one of the pieces has failed just now."""
        now_s = self._clock.monotonic_s()
        keys: tuple[_Key, ...] = (missing.path, *missing.pieces)
        for key in keys:
            failed = self._failures.get(key)
            if failed is not None and now_s - failed[1] <= _FAILURE_S:
                return failed[0]
        return None

    def _start(self, missing: PiecesMissingError, log: PartitionLog) -> list[_Load]:
        """The loads of what is missing, as many as may be under way."""
        if missing.whole:
            found = [self._begin(missing.path, log, partial(self._bring_back, missing.path, missing.stored, log))]
        else:
            found = [self._start_piece(missing, piece, log) for piece in missing.pieces]
        return [load for load in found if load is not None]

    def _start_piece(
        self, missing: PiecesMissingError, piece: StoredPiece, log: PartitionLog, *, is_ahead: bool = False
    ) -> _Load | None:
        assert self.pieces is not None, "without it a read says so itself"
        pieces = self.pieces

        async def load() -> None:
            progress = WorkProgress(_LOAD_S)
            url, step = missing.stored.url, progress.step
            await self._threads.run(partial(pieces.load, url, piece, step, is_ahead=is_ahead), progress)

        return self._begin(piece, log, load, is_ahead=is_ahead)

    def _begin(
        self, key: _Key, log: PartitionLog, load: Callable[[], Awaitable[None]], *, is_ahead: bool = False
    ) -> _Load | None:
        """The load of a key; None when too many are under way. No reader waits for one that is ahead."""
        found = self._loads.get(key)
        if found is None and len(self._loads) < _LOADS_MAX:
            task = asyncio.create_task(self._run(key, log, load, is_ahead=is_ahead))
            found = self._loads[key] = _Load(task, set())
        return found

    async def _run(self, key: _Key, log: PartitionLog, load: Callable[[], Awaitable[None]], *, is_ahead: bool) -> None:
        try:
            await self._try(load)
        except Exception as error:  # noqa: BLE001 - readers get any error
            self._failed(key, log, error, is_ahead=is_ahead)
        finally:
            self._to_wake |= self._loads.pop(key).logs
        if self._clock.monotonic_s() - self._woken_s >= _WAKE_S:
            self._wake_all()
        elif self._next_wake is None:
            self._next_wake = asyncio.get_running_loop().call_later(_WAKE_S, self._wake_all)

    def _wake_all(self) -> None:
        if self._next_wake is not None:
            self._next_wake.cancel()
            self._next_wake = None
        logs, self._to_wake = self._to_wake, set()
        self._woken_s = self._clock.monotonic_s()
        for each in logs:
            self._wake(each)

    async def _try(self, load: Callable[[], Awaitable[None]]) -> None:
        """Load; a store that does not answer is asked again before readers get its error."""
        for pause_s in (*_PAUSES_S, None):
            async with self._slots:
                self._require_answering()
                begun_s = self._clock.monotonic_s()
                try:
                    await load()
                    return
                except UnavailableError as error:
                    now_s = self._clock.monotonic_s()
                    if now_s - begun_s > _TRY_AGAIN_S:
                        self._store_failure = error, now_s
                        raise
                    if pause_s is None:
                        raise
            await asyncio.sleep(pause_s)

    def _require_answering(self) -> None:
        """Raise what a silent store has just failed with: the loads that wait for it do not ask it one by one."""
        failed = self._store_failure
        if failed is not None and self._clock.monotonic_s() - failed[1] <= _FAILURE_S:
            raise failed[0]

    def _failed(self, key: _Key, log: PartitionLog, error: Exception, *, is_ahead: bool) -> None:
        failure = StorageError(f"old records of {log.topic_partition} cannot be read from the store: {error}")
        failure.__cause__ = error
        self.failed_loads += 1
        _LOG.warning("%s", failure, exc_info=None if isinstance(error, MainstemError) else error)
        log.cleaning.forget_places()  # the backup may have moved them
        if is_ahead:
            return  # a reader that needs it asks again
        self._failures[key] = (failure, self._clock.monotonic_s())
        while len(self._failures) > _LOADS_MAX:
            del self._failures[next(iter(self._failures))]

    async def _bring_back(self, path: PurePath, stored: RemoteSegment, log: PartitionLog) -> None:
        """Write the files of a segment again: an index is lost."""
        from mainstem.broker.storage.remote.segment_return import SegmentReturn  # most nodes need it never

        assert self.pieces is not None, "without it a read says so itself"
        place = log.place_of_remote(path)
        if place is None:
            return
        disk = self._log.directory.disk
        progress = WorkProgress(_LOAD_S)
        work = SegmentReturn(disk, path, stored, *place, log.config.index_interval_bytes)
        source = await self._threads.run(partial(work.run, self.pieces, progress.step), progress)
        if not log.cleaning.come_back(path, source):
            await self._threads.run(partial(disk.remove, source))

    async def stop(self) -> None:
        """Let nothing be loaded any more."""
        tasks = [load.task for load in self._loads.values()]
        if self._next_wake is not None:
            self._next_wake.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Segments that leave the disk

    async def keep(self) -> None:
        """Let segments go, every ``remote.log.manager.task.interval.ms``."""
        while True:
            await self.round()
            await asyncio.sleep(self._interval_s)

    async def round(self) -> None:
        """Name the partitions to the backup, and release what their topics do not keep on the disk."""
        partitions = self._partitions()
        await self._write_list(partitions)
        self._warned = {each: text for each, text in self._warned.items() if each in set(partitions)}
        for topic_partition in partitions:
            try:
                log = await self._opened(topic_partition)
                if log is not None and self.pieces is not None:
                    await self._release(log, self.pieces)
                    self._warned.pop(topic_partition, None)
            except UnavailableError as error:  # it is the same for all others
                self._warn(topic_partition, str(error))
                return
            except MainstemError as error:
                self._warn(topic_partition, str(error))
            await asyncio.sleep(0)

    def _warn(self, topic_partition: TopicPartition, text: str) -> None:
        if self._warned.get(topic_partition) != text:
            self._warned[topic_partition] = text
            _LOG.warning("%s: segments stay on the disk for now: %s", topic_partition, text)

    def _partitions(self) -> list[TopicPartition]:
        """Those whose topics have the config, also where no further segments leave the disk."""
        topics = [topic for topic in self._log.metadata.topics.values() if topic.configs.get("remote.storage.enable")]
        found = [each for topic in topics for each in topic.topic_partitions]
        return sorted(each for each in found if self._log.config_of(each).remote_storage_enable)

    async def _write_list(self, partitions: list[TopicPartition]) -> None:
        data = "".join(f"{partition_directory(each)}\n" for each in partitions).encode()
        if data != self._listed:
            path, disk = self._log.directory.path / REMOTE_PARTITIONS, self._log.directory.disk
            await self._threads.run(partial(_write_changed, disk, path, data))
        self._listed = data

    async def _opened(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The partition's log, if it may have closed segments: it is not opened, nor made, for nothing."""
        directory = self._log.directory
        if topic_partition in directory.waiting:
            path = directory.path / partition_directory(topic_partition)
            bases = await self._threads.run(partial(list_offsets, directory.disk, path, LOG))
            if len(bases) > 1 and topic_partition in directory.waiting:
                return directory.get(topic_partition)
        return directory.partitions.get(topic_partition)

    async def _release(self, log: PartitionLog, pieces: RemotePieces) -> None:
        from mainstem.broker.storage.remote.segment_release import ProducersUnknownError, SegmentRelease

        directory = self._log.directory
        unknown: dict[Segment, ProducersUnknownError] = {}
        while (segment := self._next(log, unknown)) is not None:
            end_offset = log.cleaning.end_of(segment)
            if end_offset is None or not directory.disk.exists(segment.path(REMOTE)):
                break  # the backup has not come to it
            release = SegmentRelease(
                directory.disk,
                directory.path,
                log.directory,
                segment.base_offset,
                end_offset,
                log.topic_id,
                log.topic_partition.partition,
                log.local_start_after(segment),
                min(directory.checkpoints.recovery_point_of(log.topic_partition, log.topic_id), log.recovery_point),
                log.config.index_interval_bytes,
                segment.previous is None,
            )
            try:
                if not await self._release_one(log, segment, release, pieces):
                    break
            except ProducersUnknownError as error:  # it can go once a later one has gone
                unknown[segment] = error
        if unknown:
            raise next(iter(unknown.values()))

    def _next(self, log: PartitionLog, unknown: Collection[Segment]) -> Segment | None:
        return next((each for each in log.cleaning.releasable(self._clock.time_ms()) if each not in unknown), None)

    async def _release_one(
        self, log: PartitionLog, segment: Segment, release: SegmentRelease, pieces: RemotePieces
    ) -> bool:
        """Whether the segment has left the disk. Raises what ``SegmentRelease.run`` does."""
        from mainstem.broker.storage.remote.segment_release import IndexFilesError

        try:
            progress = WorkProgress(_LOAD_S)
            await self._threads.run(lambda: release.run(pieces.store, progress.step), progress)
        except IndexFilesError:
            segment.unload_indexes()
            segment.indexes()  # they are built again, and written, for the next round
            raise
        size_bytes = segment.size_bytes
        file = log.cleaning.release(segment)
        if file is None:
            return False
        self.released_bytes += size_bytes
        await self._threads.run(partial(self._log.directory.disk.remove, file))
        return True


def _write_changed(disk: Disk, path: PurePath, data: bytes) -> None:
    if (read_file(disk, path) or b"") != data:
        replace_file(disk, path, data)
