"""The trees of verifiable topics while the broker serves: they follow the log, and checkpoints are signed.

Every second each tree takes in what has become durable; so does a tree of which a checkpoint is asked for, so that the
checkpoint covers all that was durable when the request came. The work is done in threads: the event loop opens files
and takes note of results. Leaves are made durable before they are signed, so a node whose stored batches are changed
between two starts finds it and never signs a second history. They are also made durable every ``_KEEP_EVERY_S``, or
when many have gathered: what takes batches (retention, compaction) waits for that.

The signing keys are read from the file of the setting ``mainstem.signing.keys`` when it has changed. Only this process
signs: it is the one that knows what is durable, and it runs no one else's queries and pages.

Concurrency: the event loop; one advance of a partition at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from mainstem.broker.error_codes import refusal
from mainstem.errors import ConfigError, MainstemError, StorageError
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.verifiable.partition_tree import FoundLeaf, PartitionTree, TreeAdvance, TreeHead
from mainstem.protocol.errors import ErrorCode
from mainstem.tlog.checkpoints import Checkpoint, origin_of, sign_checkpoint
from mainstem.tlog.key_file import read_keys
from mainstem.tlog.notes import SigningKey
from mainstem.tlog.tiles import Tile

_LOG: Final = logging.getLogger("mainstem.broker")
_ROUND_S: Final = 1.0
_KEEP_EVERY_S: Final = 10.0
_UNKEPT_LEAVES_MAX: Final = 65_536
_READS_AT_ONCE: Final = 4
_Result = TypeVar("_Result")


class Trees:
    """The trees of one node."""

    def __init__(self, directory: LogDirectory, key_file: str) -> None:
        """``key_file``: the path of the signing keys; empty where checkpoints are not signed."""
        self._directory = directory
        self._keys = SigningKeys(key_file, Path(directory.path))
        self._locks: dict[PartitionLog, asyncio.Lock] = {}
        self._kept_s: dict[PartitionLog, float] = {}
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._steps: dict[PartitionLog, asyncio.Future[None]] = {}  # advances in threads
        self._resting: set[UUID] = set()
        self._running = 0
        self._is_stopping = False
        self._idle: asyncio.Event = asyncio.Event()

    async def run(self) -> None:
        """Run rounds until cancelled. A partition that fails is logged, and tried again in the next round."""
        failing: set[PartitionLog] = set()
        while True:
            await asyncio.sleep(_ROUND_S)
            for log in [each for each in self._directory.partitions.values() if each.tree is not None]:
                try:
                    await self._follow(log)
                    failing.discard(log)
                except MainstemError as error:
                    if log not in failing:
                        _LOG.warning("%s: its tree has to wait: %s", log.topic_partition, error)
                    failing.add(log)
            here = set(self._directory.partitions.values())
            self._locks = {log: lock for log, lock in self._locks.items() if log in here}
            self._kept_s = {log: at_s for log, at_s in self._kept_s.items() if log in here}

    async def _follow(self, log: PartitionLog) -> None:
        now_s = asyncio.get_running_loop().time()
        tree = log.tree
        assert tree is not None
        if tree.is_behind:
            await self._advance(log)
        waited_s = now_s - self._kept_s.setdefault(log, now_s)
        unkept = 0 if tree.head is None else tree.head.size - tree.kept_size
        if tree.has_unkept and (waited_s >= _KEEP_EVERY_S or unkept >= _UNKEPT_LEAVES_MAX):
            self._kept_s[log] = now_s
            await self._advance(log, keep=True)

    async def _advance(self, log: PartitionLog, *, keep: bool = False) -> TreeHead:
        """Take in all that is durable now, and make the leaves durable with ``keep``.

        Raises StorageError, DamagedTreeError, CorruptBatchError.
        """
        tree, target = log.tree, log.recovery_point
        assert tree is not None
        async with self._locks.setdefault(log, asyncio.Lock()):
            while not self._is_stopping and log.topic_id not in self._resting and self._is_here(log):
                running = self._steps.get(log)
                if running is not None:  # of a request that was cancelled
                    await asyncio.wait([running])
                    continue
                if tree.covers(target) and not (keep and tree.has_unkept):
                    break
                step = tree.start(keep=keep)
                if step is None:
                    break
                self._steps[log] = future = self._submit(step.run, log.topic_partition.partition)
                future.add_done_callback(partial(self._finish, log, tree, step))
                await asyncio.shield(future)
                if step.error is not None:
                    raise step.error
            return tree.require_head()

    def _is_here(self, log: PartitionLog) -> bool:
        return self._directory.partitions.get(log.topic_partition) is log

    @asynccontextmanager
    async def resting(self, topic_id: UUID) -> AsyncIterator[None]:
        """No thread writes the files of this topic's trees inside the block, in which the topic is deleted.

        Such a thread finds the files by their names, so it would write into a topic that takes the name next.
        """
        self._resting.add(topic_id)
        try:
            if steps := [step for log, step in self._steps.items() if log.topic_id == topic_id]:
                await asyncio.wait(steps)
            yield
        finally:
            self._resting.discard(topic_id)

    def _finish(self, log: PartitionLog, tree: PartitionTree, step: TreeAdvance, future: asyncio.Future[None]) -> None:
        """The third step of an advance, also when the request that began it was cancelled meanwhile."""
        del self._steps[log]
        if (error := future.exception()) is not None:
            step.error = StorageError(f"the tree of {log.topic_partition} cannot be written: {error!r}")
        tree.finish(step)

    async def _in_thread(self, work: Callable[..., _Result], *arguments: object) -> _Result:
        return await asyncio.shield(self._submit(work, *arguments))

    def _submit(self, work: Callable[..., _Result], *arguments: object) -> asyncio.Future[_Result]:
        """Run ``work`` to its end, even if the caller is cancelled: ``stop`` waits for it."""
        self._running += 1
        self._idle.clear()
        future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def stop(self) -> None:
        """Wait for the threads."""
        self._is_stopping = True
        while self._running:
            await self._idle.wait()

    # What clients ask for

    async def checkpoint(self, log: PartitionLog) -> bytes:
        """The signed checkpoint of all that is durable now, of leaves that are durable, too.

        Raises RemoteError, ConfigError, StorageError.
        """
        keys = await self._in_thread(self._keys.get)
        self._tree_of(log)
        head = await self._advance(log, keep=True)
        origin = origin_of(keys[0].name, log.topic_partition, log.topic_id)
        return await self._in_thread(sign_checkpoint, Checkpoint(origin, head.size, head.root), keys)

    async def tile(self, log: PartitionLog, tile: Tile) -> bytes | None:
        """A tile or a bundle; None when the tree has not so much of it.

        Raises RemoteError, StorageError, CorruptBatchError.
        """
        tree = self._tree_of(log)
        if tree.head is None or not tile.exists_in(tree.head.size):
            await self._advance(log)
        if tree.head is None or not tile.exists_in(tree.head.size):
            return None
        async with self._reads:
            read = tree.read(tile)
            return await self._in_thread(read.run)

    async def find(self, log: PartitionLog, offset: int) -> FoundLeaf | None:
        """The leaf of the batch that holds ``offset``, or of the next one. Raises RemoteError, StorageError."""
        tree = self._tree_of(log)
        await self._advance(log)
        async with self._reads:
            return await self._in_thread(tree.find, offset)

    @staticmethod
    def _tree_of(log: PartitionLog) -> PartitionTree:
        if log.tree is None:
            topic = log.topic_partition.topic
            raise refusal(ErrorCode.INVALID_CONFIG, f"topic {topic!r} is not verifiable: set mainstem.verifiable=true")
        return log.tree


class SigningKeys:
    """The keys of a file, read again when it changes."""

    def __init__(self, path: str, data: Path) -> None:
        """``data``: the data directory, in which the file must not be."""
        self._path = path
        self._data = data
        self._seen: tuple[int, int, int] | None = None
        self._keys: list[SigningKey] = []

    def get(self) -> list[SigningKey]:
        """The keys, the newest first. Raises ConfigError."""
        if not self._path:
            raise ConfigError(
                "checkpoints are not signed here: make keys with mainstem keys create NAME, and name their file in the "
                "log's setting mainstem.signing.keys"
            )
        path = Path(self._path)
        if path.resolve().is_relative_to(self._data.resolve()):
            raise ConfigError(
                f"the signing keys {path} are in the data directory, where a backup of the data takes them along: move "
                "them elsewhere, and change the setting mainstem.signing.keys"
            )
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_mode)
        except OSError:
            seen = None
        if seen is None or seen != self._seen:
            self._keys = read_keys(path)
            self._seen = seen
        return self._keys
