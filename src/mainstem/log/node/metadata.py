"""The node's metadata: topics and blocks of producer ids, as a replay of its own log.

Every change is one record in ``__mainstem_metadata-0``, synced before the call returns; the state is what applying the
records in order gives, at start as at run time (``_apply`` is the only place that changes it). Record keys and values
are JSON, UTF-8; a topic's record is complete, so that the log may be compacted by key:

* ``{"topic": NAME}`` → ``{"version": 1, "id": ID, "partitions": N, "configs": {…}}``, or with ``"deleted": true``;
* ``{"producer_ids": true}`` → ``{"version": 1, "next": N}``;
* ``{"entry": KIND, "of": [PART, …]}`` → ``{"version": 1, "holds": {…}}``, or with ``"deleted": true``: entries of the
  broker that the log does not interpret (ACLs, credentials, quotas).

Concurrency: owned by one thread. A change waits for the disk: topics are made rarely.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from mainstem.clock import Clock
from mainstem.errors import ConfigError, InputError, StorageError, TopicExistsError, UnknownTopicError
from mainstem.log.partition.checkpoints import decode_uuid, encode_uuid
from mainstem.log.partition.config import CONFIGS
from mainstem.log.partition.config_values import as_stored
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition, is_topic_name
from mainstem.record.header import iter_headers
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, build_batch

METADATA_PARTITION: Final = TopicPartition("__mainstem_metadata", 0)
PRODUCER_IDS_A_BLOCK: Final = 1000
PARTITIONS_MAX: Final = 100_000
_VERSION: Final = 1
_FIRST_TOPIC_ID: Final = 1 << 32
"""Smaller ids are those of the metadata itself, and of topics of logs that know no ids."""
_READ_BYTES: Final = 1 << 20

EntryKey: TypeAlias = tuple[str | int | None, ...]
EntryValue: TypeAlias = Mapping[str, Any]
"""An entry's value: a JSON object."""


class TopicEntry(NamedTuple):
    """One topic. ``configs`` are those that were set, by Kafka's names."""

    name: str
    topic_id: UUID
    partitions: int
    configs: Mapping[str, str]

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in range(self.partitions)]


class Metadata:
    """The state, and the changes that may be made to it."""

    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        """Replay ``log``. Raises CorruptBatchError when it is damaged, StorageError when it is of a newer version."""
        self._log = log
        self._clock = clock
        self._topics: dict[str, TopicEntry] = {}
        self._deleted_ids: set[UUID] = set()
        self._deleted_names: set[str] = set()
        self._next_producer_id = 0
        self._entries: dict[str, dict[EntryKey, EntryValue]] = {}
        self._replay()

    def _replay(self) -> None:
        offset = self._log.log_start_offset
        while offset < self._log.high_watermark:
            for buffer in self._log.read(offset, _READ_BYTES).buffers:
                for record in iter_records(buffer):
                    self._apply(record.key or b"", record.value or b"")
                for _, header in iter_headers(buffer):  # compaction leaves batches without records
                    offset = header.next_offset

    # What there is

    @property
    def topics(self) -> Mapping[str, TopicEntry]:
        """All topics by name."""
        return self._topics

    def topic(self, name: str) -> TopicEntry:
        """Raises UnknownTopicError."""
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"no topic {name!r}")
        return topic

    @property
    def next_producer_id(self) -> int:
        """The first producer id that no block holds."""
        return self._next_producer_id

    def was_deleted(self, topic_id: UUID) -> bool:
        """Whether a topic with this id was deleted."""
        return topic_id in self._deleted_ids

    def may_be_left_over(self, name: str) -> bool:
        """Whether a directory of this name may belong to a deleted topic."""
        return name in self._deleted_names or name not in self._topics

    def entries(self, kind: str) -> Mapping[EntryKey, EntryValue]:
        """All entries of a kind, by key."""
        return MappingProxyType(self._entries.get(kind, {}))

    # Changes

    def put_entries(self, kind: str, entries: Mapping[EntryKey, EntryValue | None]) -> None:
        """Keep entries, remove those that are None; a power cut leaves all of it or nothing. Raises StorageError."""
        records = []
        for key, value in entries.items():
            held = {"version": _VERSION, "deleted": True} if value is None else {"version": _VERSION, "holds": value}
            records.append(({"entry": kind, "of": list(key)}, held))
        if records:
            self._write_all(records)

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], topic_id: UUID | None = None
    ) -> TopicEntry:
        """With an id that no topic of this node ever had, or with one of its own.

        Raises InputError for an impossible name or count, TopicExistsError, StorageError.
        """
        if not is_topic_name(name):
            raise InputError(
                f"invalid topic name {name!r}: use letters, digits, '.', '_' and '-', at most 249, not '.' or '..'"
            )
        if name in self._topics or name == METADATA_PARTITION.topic:
            raise TopicExistsError(f"topic {name!r} already exists")
        _check_partition_count(partitions)
        self._write_topic(TopicEntry(name, self._unused(topic_id), partitions, dict(configs)))
        return self._topics[name]

    def _unused(self, topic_id: UUID | None) -> UUID:
        """The id, unless a topic has it or had it: what is left of a deleted topic is found by its id."""
        is_used = topic_id in self._deleted_ids or any(each.topic_id == topic_id for each in self._topics.values())
        return uuid4() if topic_id is None or topic_id.int < _FIRST_TOPIC_ID or is_used else topic_id

    def delete_topic(self, name: str) -> TopicEntry:
        """Returns what was deleted. Raises UnknownTopicError, StorageError."""
        topic = self.topic(name)
        self._write_topic(topic, deleted=True)
        return topic

    def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> TopicEntry:
        """Replace all configs that are set on the topic. Raises UnknownTopicError, StorageError."""
        self._write_topic(self.topic(name)._replace(configs=dict(configs)))
        return self._topics[name]

    def create_partitions(self, name: str, partitions: int) -> TopicEntry:
        """Let the topic have ``partitions`` in all. Raises UnknownTopicError, InputError unless they are more."""
        topic = self.topic(name)
        _check_partition_count(partitions)
        if partitions <= topic.partitions:
            raise InputError(f"topic {name!r} has {topic.partitions} partitions: {partitions} would not be more")
        self._write_topic(topic._replace(partitions=partitions))
        return self._topics[name]

    def allocate_producer_ids(self) -> range:
        """A block of producer ids that were never given out before and will never be again. Raises StorageError."""
        first = self._next_producer_id
        self._write({"producer_ids": True}, {"version": _VERSION, "next": first + PRODUCER_IDS_A_BLOCK})
        return range(first, self._next_producer_id)

    def keep_topic(self, topic: TopicEntry) -> None:
        """Take over a topic of another log as it is, with its id. Raises TopicExistsError, StorageError."""
        if topic.name in self._topics or topic.name == METADATA_PARTITION.topic:
            raise TopicExistsError(f"topic {topic.name!r} already exists")
        self._write_topic(topic)

    def reserve_producer_ids(self, next_id: int) -> None:
        """Give out no id below ``next_id`` from now on: another log has. Raises StorageError."""
        if next_id > self._next_producer_id:
            self._write({"producer_ids": True}, {"version": _VERSION, "next": next_id})

    def _write_topic(self, topic: TopicEntry, *, deleted: bool = False) -> None:
        value: dict[str, Any] = {
            "version": _VERSION,
            "id": encode_uuid(topic.topic_id),
            "partitions": topic.partitions,
            "configs": dict(topic.configs),
        }
        if deleted:
            value["deleted"] = True
        self._write({"topic": topic.name}, value)

    def _write(self, key: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        self._write_all([(key, value)])

    def _write_all(self, changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Append as one batch, sync, then apply: no reader sees a change that a power cut could undo."""
        time_ms = self._clock.time_ms()
        encoded = [(json.dumps(key).encode(), json.dumps(value).encode()) for key, value in changes]
        self._log.append(build_batch([NewRecord(key, value, (), time_ms) for key, value in encoded]), is_own=True)
        self._log.flush()
        for key, value in encoded:
            self._apply(key, value)

    def _apply(self, key_json: bytes, value_json: bytes) -> None:
        try:
            key, value = json.loads(key_json), json.loads(value_json)
            if value["version"] > _VERSION:
                raise StorageError(f"{METADATA_PARTITION} was written by a newer version of Mainstem: use that one")
            if "topic" in key:
                self._apply_topic(str(key["topic"]), value)
            elif "producer_ids" in key:
                self._next_producer_id = int(value["next"])
            elif "entry" in key:
                self._apply_entry(str(key["entry"]), tuple(key["of"]), value)
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{METADATA_PARTITION} holds a record that is not metadata: {error!r}") from error

    def _apply_topic(self, name: str, value: Mapping[str, Any]) -> None:
        topic_id = decode_uuid(value["id"])
        if topic_id is None:
            raise ValueError(f"topic id {value['id']!r}")
        if value.get("deleted"):
            self._topics.pop(name, None)
            self._deleted_ids.add(topic_id)
            self._deleted_names.add(name)
            return
        configs = as_stored(value["configs"], CONFIGS)
        topic = TopicEntry(name, topic_id, int(value["partitions"]), configs)
        self._topics[name] = topic

    def _apply_entry(self, kind: str, key: EntryKey, value: Mapping[str, Any]) -> None:
        of_kind = self._entries.setdefault(kind, {})
        if value.get("deleted"):
            of_kind.pop(key, None)
        else:
            of_kind[key] = value["holds"]


def _check_partition_count(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ConfigError(f"{partitions} partitions: a topic has from 1 to {PARTITIONS_MAX}")
