"""Old segments that are in the backup's store alone: their release from the disk, and loads of what readers ask for.

``keep`` says in a file which partitions have such segments; the backup then writes a ``.remote`` beside each closed
segment that its store holds. A segment that is older than ``local.retention.ms`` then leaves the disk: first a thread
compares all its bytes with the checksums of the pieces.

A read that needs pieces raises ``PiecesMissingError``. They are loaded in threads, a few at a time, and the partition's
watchers are woken, as by an append. Two readers of one piece share its load. With it comes the piece after it.

Concurrency: on the event loop; the files and the store are read in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from mainstem.clock import Clock
from mainstem.durable_files import replace_file
from mainstem.errors import MainstemError, StorageError, UnavailableError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import LOG, REMOTE, REMOTE_PARTITIONS, partition_directory
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import PiecesMissingError, RemoteSegment, StoredPiece, read_remote
from mainstem.log.segments.segment import Segment
from mainstem.model import TopicPartition

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.broker.storage.remote_pieces import RemotePieces

_LOG: Final = logging.getLogger("mainstem.broker")
_LOADS_AT_ONCE: Final = 4
_LOADS_MAX: Final = 256
"""Loads that wait or run: a further read is answered without records, and its client asks again."""
_TRIES: Final = 64
_Found = TypeVar("_Found")


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
        # Threads of its own: a store that hangs must not hold up other work that waits for a thread.
        self._threads = ThreadPoolExecutor(_LOADS_AT_ONCE, thread_name_prefix="remote-load")
        self._loading: dict[StoredPiece, asyncio.Task[None]] = {}
        self._failures: dict[StoredPiece, MainstemError] = {}
        self._listed: bytes | None = None
        self.pieces = pieces
        self.failed_loads = 0
        self.released_bytes = 0

    # Loads

    def begin(self, missing: PiecesMissingError, log: PartitionLog) -> MainstemError | None:
        """Load what a read needs, then wake the partition's watchers; or why an earlier load has failed."""
        for piece in missing.pieces:
            failure = self._failures.pop(piece, None)
            if failure is not None:
                return failure
        for piece in missing.pieces:
            task = self._load(missing.url, piece)
            if task is not None:
                task.add_done_callback(lambda _: self._wake(log))
        if missing.next_piece is not None:
            self._load(missing.url, missing.next_piece)
        return None

    async def reading(self, read: Callable[[], _Found]) -> _Found:
        """Return the result of ``read`` once all pieces that it needs are here. Raises its errors, and StorageError."""
        for _ in range(_TRIES):
            try:
                return read()
            except PiecesMissingError as missing:
                tasks = [self._load(missing.url, piece) for piece in missing.pieces]
                if None in tasks:
                    break
                await asyncio.wait([task for task in tasks if task is not None])
                for piece in missing.pieces:
                    failure = self._failures.pop(piece, None)
                    if failure is not None:
                        raise failure from missing
        raise UnavailableError("too many reads of old records wait for the store of the backup: try again")

    def _load(self, url: str, piece: StoredPiece) -> asyncio.Task[None] | None:
        """The load of a piece; None when too many are under way."""
        task = self._loading.get(piece)
        if task is None and len(self._loading) < _LOADS_MAX:
            task = self._loading[piece] = asyncio.create_task(self._load_in_thread(url, piece))
        return task

    async def _load_in_thread(self, url: str, piece: StoredPiece) -> None:
        assert self.pieces is not None, "without it a read says so itself"
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self.pieces.load, url, piece)
        except MainstemError as error:
            self.failed_loads += 1
            _LOG.warning("old records cannot be read from the store: %s", error)
            self._failures[piece] = StorageError(f"old records cannot be read from the store: {error}")
            while len(self._failures) > _LOADS_MAX:
                del self._failures[next(iter(self._failures))]
        finally:
            del self._loading[piece]

    async def stop(self) -> None:
        """Let nothing be loaded any more."""
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        for topic_partition in partitions:
            try:
                if self._log.directory.holds(topic_partition):
                    await self._release(self._log.get(topic_partition))
            except MainstemError as error:
                _LOG.warning("%s: segments stay on the disk for now: %s", topic_partition, error)

    def _partitions(self) -> list[TopicPartition]:
        topics = [topic for topic in self._log.metadata.topics.values() if topic.configs.get("remote.storage.enable")]
        found = [each for topic in topics for each in topic.topic_partitions if self._log.config_of(each).is_tiered]
        return sorted(found)

    async def _write_list(self, partitions: list[TopicPartition]) -> None:
        data = "".join(f"{partition_directory(each)}\n" for each in partitions).encode()
        if data != self._listed and (data or self._listed is not None):
            path = self._log.directory.path / REMOTE_PARTITIONS
            await asyncio.to_thread(replace_file, self._log.directory.disk, path, data)
        self._listed = data

    async def _release(self, log: PartitionLog) -> None:
        for segment in list(log.cleaning.releasable(self._clock.time_ms())):
            stored = read_remote(self._log.directory.disk, segment.path(REMOTE))
            if stored is None:
                return  # the backup has not come to it
            same = await asyncio.to_thread(_is_copy, self._log.directory.disk, segment, stored)
            if not same:
                _LOG.error("%s is not what %s holds of it: it stays on the disk", segment.path(LOG), stored.url)
                return
            if not log.cleaning.release(segment):
                return
            self.released_bytes += stored.size_bytes


def _is_copy(disk: Disk, segment: Segment, stored: RemoteSegment) -> bool:
    file = disk.open(segment.path(LOG))
    try:
        return stored.is_copy_of(file, file.size_bytes())
    finally:
        file.close()
