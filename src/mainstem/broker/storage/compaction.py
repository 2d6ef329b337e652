"""Compaction while the broker serves: chooses partitions, runs the worker process, and installs its output.

Every ``log.cleaner.backoff.ms`` a round compacts all partitions that are dirty enough, one after the other, the most
urgent first. A separate process does the work. It starts with the first job and ends after some idle time. The event
loop only renames files. ``cleaner-offset-checkpoint``, Kafka's file, stores how far each partition is clean; without
it, every partition counts as dirty.

Failures: after a worker crash or a disk error the compaction is retried, with growing delays. An unreadable record
batch makes its partition uncleanable until the next start: its segments stay as they are, and the broker log and the
statistics report it.

Concurrency: one task on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from mainstem.broker.chores import run_whole
from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.clock import Clock
from mainstem.durable_files import replace_file
from mainstem.errors import CorruptBatchError, MainstemError, StorageError, UnavailableError
from mainstem.log.cleaning.cleaning import Dirty
from mainstem.log.cleaning.compaction_job import (
    CleanedSegment,
    CompactionJob,
    CompactionResult,
    decode_answer,
    encode_job,
)
from mainstem.log.files.names import CLEANER_CHECKPOINT, LOG, parse_offset_file, partition_directory
from mainstem.log.files.small_files import read_file
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.checkpoints import decode_offsets, encode_offsets
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger("mainstem.broker.compaction")
_WORKER: Final = "mainstem.broker.storage.compaction_worker"
_WORKER_IDLE_S: Final = 60.0
_ANSWER_BYTES_MAX: Final = 64 << 20
_TURN_S: Final = 0.002
_RETRY_S_MAX: Final = 900.0


@dataclass(slots=True)
class CompactionStatistics:
    """The work done since the start. ``uncleanable`` maps partitions that cannot be compacted to the reason."""

    runs: int = 0
    failures: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    uncleanable: dict[TopicPartition, str] | None = None


class _Cleaned(NamedTuple):
    """The offset up to which a partition is clean. It is not valid for a recreated topic, which has another id."""

    topic_id: UUID | None
    offset: int


class _Retry(NamedTuple):
    """The time of the next try, and the delay after it."""

    at_s: float
    wait_s: float


def _urgency(dirty: Dirty) -> tuple[bool, float]:
    return dirty.is_overdue, dirty.ratio


async def start_worker(module: str) -> asyncio.subprocess.Process:
    """Start a process that reads requests from its standard input and writes lines to its standard output.

    Raises OSError.
    """
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=pipe, stdout=pipe, limit=_ANSWER_BYTES_MAX
    )


class CompactionWorker:
    """The worker process, while there is one."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None when there is no process."""
        return self._process.pid if self._process is not None else None

    async def run(self, job: CompactionJob) -> AsyncIterator[CleanedSegment | CompactionResult | tuple[str, str]]:
        """Yield the answers to a job. Raises UnavailableError when the process cannot be started, or dies."""
        try:
            process = self._process = self._process or await start_worker(_WORKER)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(encode_job(job))
            await process.stdin.drain()
            while True:
                line = await process.stdout.readline()
                if not line.endswith(b"\n"):
                    break
                answer = decode_answer(line)
                yield answer
                if not isinstance(answer, CleanedSegment):
                    return
        except (OSError, ValueError) as error:  # it cannot be started, or what it says makes no sense
            await self.end()
            raise UnavailableError(f"the compaction worker: {error}") from error
        code = await process.wait()
        self._process = None
        raise UnavailableError(f"the compaction worker ended in the middle of its work, with code {code}")

    async def end(self) -> None:
        """Kill the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


class Compaction:
    """The compaction of one node."""

    def __init__(self, config: BrokerConfig, clock: Clock, log: NodeLog) -> None:
        self._clock = clock
        self._log = log
        self._directory = log.directory
        self._map_bytes = int(config.get("log.cleaner.dedupe.buffer.size"))
        self._backoff_s = int(config.get("log.cleaner.backoff.ms")) / 1000
        self._is_enabled = bool(config.get("log.cleaner.enable"))
        self._cleaned: dict[TopicPartition, _Cleaned] = {}
        self._retries: dict[TopicPartition, _Retry] = {}
        self._looked_at: set[TopicPartition] = set()
        self._statistics = CompactionStatistics()
        self.worker = CompactionWorker()

    def statistics(self) -> CompactionStatistics:
        """Return the work done so far."""
        self._statistics.uncleanable = {
            name: log.cleaning.uncleanable
            for name, log in self._directory.partitions.items()
            if log.cleaning.uncleanable is not None
        }
        return self._statistics

    async def run(self) -> None:
        """Run rounds until cancelled."""
        if not self._is_enabled:
            return
        loop = asyncio.get_running_loop()
        offsets = decode_offsets(read_file(self._directory.disk, self._directory.path / CLEANER_CHECKPOINT)) or {}
        self._cleaned = {name: _Cleaned(self._log.topic_id_of(name), offset) for name, offset in offsets.items()}
        used_s = loop.time()
        try:
            while True:
                await asyncio.sleep(self._backoff_s)
                await self._forget_recreated()
                await self._open_dirty()
                while (found := await self._dirtiest()) is not None:
                    await self._compact(*found)
                    used_s = loop.time()
                if self.worker.pid is not None and loop.time() - used_s >= _WORKER_IDLE_S:
                    await self.worker.end()
        finally:
            await self.worker.end()

    async def _forget_recreated(self) -> None:
        """Remove the offsets of deleted topics. The next start would apply them to new topics of the same names."""
        if len(await self._cleaned_now()) == len(self._cleaned):
            return
        try:
            await self._write_cleaned()
        except StorageError as error:
            _LOG.warning("offsets of deleted topics stay in the cleaner's checkpoint: %s", error)

    async def _cleaned_now(self) -> dict[TopicPartition, _Cleaned]:
        """The clean offsets of the topics that exist. There may be 100,000: the event loop serves others in between."""
        turn_ends_s = asyncio.get_running_loop().time() + _TURN_S
        kept: dict[TopicPartition, _Cleaned] = {}
        for name, cleaned in list(self._cleaned.items()):
            turn_ends_s = await self._yield_when_due(turn_ends_s)
            if self._directory.holds(name) and self._log.topic_id_of(name) in (None, cleaned.topic_id):
                kept[name] = cleaned
        return kept

    # Choosing a partition

    async def _open_dirty(self) -> None:
        """Open the unopened partitions that have closed segments which are not clean yet."""
        turn_ends_s = asyncio.get_running_loop().time() + _TURN_S
        self._looked_at &= self._directory.waiting
        configs: dict[str, LogConfig] = {}
        for name in self._directory.waiting - self._looked_at:
            if name not in self._directory.waiting:
                continue
            self._looked_at.add(name)
            try:
                if name.topic not in configs:
                    configs[name.topic] = self._log.config_of(name)
                if configs[name.topic].is_compacted and self._may_be_dirty(name):
                    self._directory.get(name)
            except MainstemError as error:
                _LOG.warning("%s cannot be compacted: %s", name, error)
            turn_ends_s = await self._yield_when_due(turn_ends_s)

    def _may_be_dirty(self, name: TopicPartition) -> bool:
        files = map(parse_offset_file, self._directory.disk.list(self._directory.path / partition_directory(name)))
        bases = [file[0] for file in files if file is not None and file[1] == LOG]
        cleaned = self._cleaned.get(name)
        return len(bases) > 1 and (cleaned is None or bases[-1] > cleaned.offset)

    async def _dirtiest(self) -> tuple[PartitionLog, Dirty] | None:
        """Return the partition to compact next; None when none is dirty enough now."""
        loop = asyncio.get_running_loop()
        turn_ends_s = loop.time() + _TURN_S
        best: tuple[PartitionLog, Dirty] | None = None
        for name, log in list(self._directory.partitions.items()):
            turn_ends_s = await self._yield_when_due(turn_ends_s)
            if not log.config.is_compacted or self._must_wait(name, loop.time()):
                continue
            try:
                dirty = log.cleaning.dirty(self._clock.time_ms(), self._cleaned_offset(log))
            except StorageError as error:
                _LOG.warning("%s cannot be compacted: %s", name, error)
                continue
            if dirty is None or not dirty.is_worth(log.config.min_cleanable_dirty_ratio):
                continue
            if best is None or _urgency(dirty) > _urgency(best[1]):
                best = (log, dirty)
        return best

    def _must_wait(self, name: TopicPartition, now_s: float) -> bool:
        retry = self._retries.get(name)
        return retry is not None and now_s < retry.at_s

    def _cleaned_offset(self, log: PartitionLog) -> int:
        cleaned = self._cleaned.get(log.topic_partition)
        return cleaned.offset if cleaned is not None and cleaned.topic_id in (None, log.topic_id) else 0

    @staticmethod
    async def _yield_when_due(turn_ends_s: float) -> float:
        """Yield the event loop when this turn is over; return when the next turn ends."""
        loop = asyncio.get_running_loop()
        if loop.time() < turn_ends_s:
            return turn_ends_s
        await asyncio.sleep(_TURN_S)
        return loop.time() + _TURN_S

    # One partition

    async def _compact(self, log: PartitionLog, dirty: Dirty) -> None:
        """Compact one partition. A failure is logged and retried later."""
        name = log.topic_partition
        job = log.cleaning.compaction_job(dirty, self._clock.time_ms(), self._map_bytes)
        try:
            async for answer in self.worker.run(job):
                if isinstance(answer, CleanedSegment):
                    if not await self._swap(log, answer):
                        await self.worker.end()  # the rest of its work is of no use either
                        self._try_later(name)
                        return
                elif isinstance(answer, CompactionResult):
                    await self._done(log, answer)
                else:
                    self._failed(log, *answer)
        except (StorageError, UnavailableError) as error:
            await self.worker.end()
            self._failed(log, type(error).__name__, str(error))

    async def _swap(self, log: PartitionLog, cleaned: CleanedSegment) -> bool:
        """Replace old segments by a cleaned one; False when some of the old segments are gone."""
        swap = log.cleaning.prepare_swap(cleaned)
        if swap is None:
            return False
        try:
            await run_whole(swap.sync)
        except Exception:  # also where no thread can be started
            log.cleaning.cancel_swap(swap)
            raise
        new = log.cleaning.begin_swap(swap)
        if new is None:
            return False
        try:
            await run_whole(swap.sync)
        except asyncio.CancelledError:
            # The broker stops: a directory that was closed well has no segment without its name.
            if log.topic_partition in self._directory.partitions:
                swap.sync()
                log.cleaning.end_swap(swap, new)
            raise
        if log.topic_partition not in self._directory.partitions:
            return False
        log.cleaning.end_swap(swap, new)
        await run_whole(swap.clean_up)
        return True

    async def _done(self, log: PartitionLog, result: CompactionResult) -> None:
        statistics = self._statistics
        statistics.runs += 1
        statistics.bytes_before += result.bytes_before
        statistics.bytes_after += result.bytes_after
        statistics.records_before += result.records_before
        statistics.records_after += result.records_after
        self._retries.pop(log.topic_partition, None)
        self._cleaned[log.topic_partition] = _Cleaned(log.topic_id, result.cleaned_offset)
        await self._write_cleaned()

    async def _write_cleaned(self) -> None:
        """Write the checkpoint, without deleted topics. Raises StorageError."""
        kept = await self._cleaned_now()
        path = self._directory.path / CLEANER_CHECKPOINT

        def write() -> None:
            content = encode_offsets({name: each.offset for name, each in kept.items()})
            replace_file(self._directory.disk, path, content, sync=True)

        await run_whole(write)
        self._cleaned = kept

    def _failed(self, log: PartitionLog, kind: str, text: str) -> None:
        self._statistics.failures += 1
        if kind == CorruptBatchError.__name__:
            log.cleaning.uncleanable = text
        if log.cleaning.uncleanable is not None:
            why = log.cleaning.uncleanable
            _LOG.error("%s is not compacted any more until the next start: %s", log.topic_partition, why)
            return
        wait_s = self._try_later(log.topic_partition)
        _LOG.warning("%s: compaction failed, and is tried again in %.0f s: %s", log.topic_partition, wait_s, text)

    def _try_later(self, name: TopicPartition) -> float:
        before = self._retries.get(name)
        wait_s = min(_RETRY_S_MAX, 2 * before.wait_s) if before is not None else self._backoff_s
        self._retries[name] = _Retry(asyncio.get_running_loop().time() + wait_s, wait_s)
        return wait_s
