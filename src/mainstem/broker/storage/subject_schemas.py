"""The schemas of the registry as the log process knows them: read from the topic ``_schemas`` of the same log.

They are read when a topic that validates schemas gets records, and read on when the topic has more. A check therefore
knows each schema whose registration was answered before the record came. Nothing is kept for ids that are unknown.

Concurrency: the event loop only. ``load`` reads the log there, as a fetch does, and folds the records in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from uuid import UUID

from mainstem.broker.storage.schema_frames import SchemaFrameCheck, SubjectFrames, SubjectRule, subject_frames
from mainstem.broker.storage.topics import Topics
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.partition.config import RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY, LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.partition.partition_reads import ReadResult
from mainstem.record.header import iter_headers, verify
from mainstem.record.reader import AbortedRecords, read_records
from mainstem.schemas_topic.records import SCHEMAS_TOPIC, StoredSchema, schema_record
from mainstem.schemas_topic.state import RegistryState

_READ_BYTES: Final = 1 << 20
_REFERENCE_BYTES: Final = 100
"""About what a reference takes beside the text."""
_REFERENCED_MAX: Final = 1_001
"""A schema and the most that it may refer to in a registry (``registry.parsing``)."""
_Result = TypeVar("_Result")


class SubjectSchemas:
    """The schemas of one node. The module's docstring has the contract."""

    def __init__(self, topics: Topics, threads: ThreadPoolExecutor) -> None:
        self._topics = topics
        self._threads = threads
        self._loading = asyncio.Lock()
        self._topic_id: UUID | None = None
        self._next_offset = 0
        self._state = RegistryState()
        self._record_names: dict[str, frozenset[str]] = {}
        self._subjects: dict[SubjectRule, SubjectFrames] = {}  # as of _next_offset, those that were asked for

    def check_if_known(self, topic: str, config: LogConfig) -> SchemaFrameCheck | None:
        """The check of a topic's records; None when ``load`` has to read first. Raises PartitionOfflineError."""
        topic_id, log = self._schemas_log()
        if topic_id != self._topic_id or (log is not None and log.last_stable_offset != self._next_offset):
            return None
        wanted = _rules_of(topic, config)
        if any(rule is not None and rule not in self._subjects for rule in wanted):
            return None
        return self._check_of(wanted)

    async def load(self, topic: str, config: LogConfig) -> SchemaFrameCheck:
        """The check of a topic's records by all schemas that were readable when it was asked for.

        Raises PartitionOfflineError, and StorageError when the topic ``_schemas`` is damaged.
        """
        wanted = _rules_of(topic, config)
        async with self._loading:
            try:
                await self._read_on()
            except CorruptBatchError as error:
                raise StorageError(
                    f"topic {SCHEMAS_TOPIC} is damaged, so schemas cannot be validated: {error}"
                ) from error
            for rule in wanted:
                if rule is not None and rule not in self._subjects:
                    self._subjects[rule] = await _in_thread(
                        self._threads, subject_frames, self._state, rule, self._record_names
                    )
            return self._check_of(wanted)

    async def records_of(self, schema: StoredSchema, limit_bytes: int) -> list[tuple[str, str]] | None:
        """The keys and values of a schema's record, and of all that it refers to: what a registry needs to read it.

        None when they have more than ``limit_bytes``.
        """
        async with self._loading:
            found: dict[tuple[str, int], StoredSchema] = {}
            unvisited = [schema]
            while unvisited and len(found) < _REFERENCED_MAX:
                each = unvisited.pop()
                if each.place in found:
                    continue
                found[each.place] = each
                limit_bytes -= len(each.content.text) + _REFERENCE_BYTES * len(each.content.references)
                if limit_bytes < 0:
                    return None
                for reference in each.content.references:
                    version = self._state.subjects.get(reference.subject, {}).get(reference.version)
                    if version is not None:
                        unvisited.append(version)
        return await _in_thread(self._threads, _texts_of, list(found.values()))

    def _check_of(self, wanted: tuple[SubjectRule | None, SubjectRule | None]) -> SchemaFrameCheck:
        key, value = (None if rule is None else self._subjects[rule] for rule in wanted)
        return SchemaFrameCheck(key, value)

    async def _read_on(self) -> None:
        topic_id, log = self._schemas_log()
        if topic_id != self._topic_id:
            self._topic_id, self._next_offset = topic_id, 0
            self._state = RegistryState()
            self._subjects.clear()
        if log is None or (end := log.last_stable_offset) == self._next_offset:
            return
        while self._next_offset < end:
            result = log.read(max(self._next_offset, log.log_start_offset), _READ_BYTES, committed=True)
            next_offset = await _in_thread(self._threads, _fold, self._state, result, end)
            self._subjects.clear()
            self._next_offset = next_offset

    def _schemas_log(self) -> tuple[UUID | None, PartitionLog | None]:
        topic = self._topics.get(SCHEMAS_TOPIC)
        return (None, None) if topic is None else (topic.topic_id, topic.partition(0))


def _rules_of(topic: str, config: LogConfig) -> tuple[SubjectRule | None, SubjectRule | None]:
    """The subjects of a topic's keys and values; None for the part that is not validated."""
    return (
        _rule(topic, "key", config.confluent_key_subject_name_strategy) if config.validates_keys else None,
        _rule(topic, "value", config.confluent_value_subject_name_strategy) if config.validates_values else None,
    )


def _rule(topic: str, part: str, strategy: str) -> SubjectRule:
    if strategy == RECORD_NAME_STRATEGY:
        return SubjectRule(None)
    return SubjectRule(None, f"{topic}-") if strategy == TOPIC_RECORD_NAME_STRATEGY else SubjectRule(f"{topic}-{part}")


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[..., _Result], *given: object) -> _Result:
    return await asyncio.get_running_loop().run_in_executor(threads, work, *given)


def _texts_of(schemas: list[StoredSchema]) -> list[tuple[str, str]]:
    """The keys and values of schemas' records as text."""
    records = map(schema_record, schemas)
    return [(key.decode(errors="replace"), value.decode(errors="replace")) for key, value in records]


def _fold(state: RegistryState, result: ReadResult, end: int) -> int:
    """Take committed records into the state; return the offset that comes next. Raises CorruptBatchError."""
    aborted = AbortedRecords(result.aborted)
    next_offset = end  # where the read gave nothing, compaction has left nothing
    for buffer in result.buffers:
        for at, header in iter_headers(buffer):
            batch = buffer[at : at + header.size_bytes]
            if header.is_control:
                aborted.pass_marker(header, batch)
            elif not aborted.holds(header):
                verify(buffer, at, header)
                for record in read_records(batch):
                    state.apply(record.key, record.value, record.timestamp_ms)
            next_offset = header.next_offset
    return next_offset
