"""Writes the dead letters of records that share groups gave up, and says when they are durable.

A record stays in flight, out of reach of members, until its letter is durable (``RecordState.REJECTED``,
``EXHAUSTED``). These states are in memory alone: after a crash the record comes again, and its letter may then be
written twice, but is never lost. A letter that cannot be written is logged and counted, and its record is given up all
the same, as in Kafka: it must not hold up its partition.

Concurrency: the event loop; batches of copied records are decompressed in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from mainstem.broker.configs.group_configs import GroupConfigs
from mainstem.broker.share.dead_letters.letter_rules import LetterRules, LetterSettings, letter_settings
from mainstem.broker.share.dead_letters.letters import Letter, in_batches, letter_record
from mainstem.broker.share.in_flight import Run
from mainstem.broker.share.state_records import ShareKey
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.remote.remote_storage import RemoteStorage
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition
from mainstem.record.header import iter_headers
from mainstem.record.reader import DecodedRecord, read_records
from mainstem.record.writer import build_batch

_LOG: Final = logging.getLogger("mainstem.broker.share")
_READ_BYTES: Final = 1 << 20


class LetterWriter:
    """The dead letters of all share groups of a node. ``written`` and ``failed`` count records since the start."""

    def __init__(
        self,
        topics: Topics,
        commit: GroupCommit,
        clock: Clock,
        configs: GroupConfigs,
        rules: LetterRules,
        remote: RemoteStorage,
    ) -> None:
        self._topics = topics
        self._commit = commit
        self._clock = clock
        self._configs = configs
        self._rules = rules
        self._remote = remote
        self._jobs: dict[ShareKey, set[asyncio.Task[None]]] = {}
        self.written = 0
        self.failed = 0

    def wants_letters(self, group_id: str) -> bool:
        """Whether records that the group gives up get a dead letter."""
        return letter_settings(self._configs, group_id) is not None

    def write(self, key: ShareKey, runs: Sequence[Run], done: Callable[[Sequence[Run]], None]) -> None:
        """Begin to write the letters of these records; ``done`` is called when they are durable, or have failed."""
        task = asyncio.get_running_loop().create_task(self._write(key, runs, done), name=f"dead letters of {key.text}")
        self._jobs.setdefault(key, set()).add(task)
        task.add_done_callback(lambda task: self._finished(key, task))

    async def until_written(self, key: ShareKey) -> None:
        """Return when the letters of this share partition that are being written now are durable, or have failed."""
        tasks = self._jobs.get(key)
        if tasks:
            await asyncio.wait(tasks)

    def stop(self) -> None:
        """Give up what is being written: those records come again after the next start."""
        for tasks in list(self._jobs.values()):
            for task in tasks:
                task.cancel()

    def _finished(self, key: ShareKey, task: asyncio.Task[None]) -> None:
        tasks = self._jobs.get(key, set())
        tasks.discard(task)
        if not tasks:
            self._jobs.pop(key, None)

    async def _write(self, key: ShareKey, runs: Sequence[Run], done: Callable[[Sequence[Run]], None]) -> None:
        count = sum(run.size for run in runs)
        settings = letter_settings(self._configs, key.group_id)
        if settings is not None:
            try:
                await self._write_letters(key, runs, settings)
                self.written += count
            except MainstemError as error:
                self.failed += count
                _LOG.warning("%s: %d dead letters could not be written: %s", key.text, count, error)
            except Exception:  # noqa: BLE001 - whatever it is, the record must not hold up its partition
                self.failed += count
                _LOG.exception("%s: %d dead letters could not be written", key.text, count)
        done(runs)

    async def _write_letters(self, key: ShareKey, runs: Sequence[Run], settings: LetterSettings) -> None:
        """Raises MainstemError."""
        source_topic = self._topics.by_id(key.topic_id)
        if source_topic is None:
            return  # it was deleted, and its share partitions with it
        source = TopicPartition(source_topic.name, key.partition)
        target = self._rules.target(self._topics, settings, source.topic)
        log = target.partition(key.partition % len(target.partitions))
        time_ms = self._clock.time_ms()
        for run in runs:
            copied = source_topic.partition(key.partition) if settings.copies else None
            async for letters in copied_letters(copied, run, self._remote):
                records = (letter_record(letter, key.group_id, source, time_ms) for letter in letters)
                for batch in in_batches(records, log.config.max_message_bytes):
                    self._rules.require_allowed(self._topics, target)  # what was awaited may have changed it
                    log.append(build_batch(batch))
                    self._commit.appended(log)
                    await asyncio.sleep(0)
        await self._commit.durable(log, log.log_end_offset)


async def copied_letters(copied: PartitionLog | None, run: Run, remote: RemoteStorage) -> AsyncIterator[list[Letter]]:
    """The letters of a run, with keys and values of ``copied``, those of one stored batch at a time: a run may be far
    larger than memory. A record that cannot be read any more has none. Old ones are loaded from the backup's store.
    """
    position = run.first
    while position <= run.last:
        end, found = (run.last + 1, {}) if copied is None else await _read(copied, position, run.last, remote)
        letters = []
        for offset in range(position, end):
            record = found.get(offset)
            letter = Letter(offset, run.delivery_count, run.state)
            letters.append(letter if record is None else letter._replace(key=record.key, value=record.value))
        yield letters
        position = end


async def _read(
    log: PartitionLog, first: int, last: int, remote: RemoteStorage
) -> tuple[int, dict[int, DecodedRecord]]:
    """The records of the first batch from ``first`` on, up to ``last``, and the offset to go on from."""
    try:
        buffers = (await remote.reading(log, lambda: log.read(first, _READ_BYTES))).buffers
        for buffer in buffers:
            for position, header in iter_headers(buffer):
                if header.next_offset <= first:
                    continue
                batch = buffer[position : position + header.size_bytes]
                records = await asyncio.to_thread(read_records, batch)
                wanted = {each.offset: each for each in records if first <= each.offset <= last}
                return min(max(header.next_offset, first + 1), last + 1), wanted
    except MainstemError as error:
        _LOG.warning("%s: records of dead letters cannot be copied: %s", log.topic_partition, error)
    return last + 1, {}
