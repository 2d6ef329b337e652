"""All that a node stores: its metadata and its partitions, kept to one another.

The metadata is the truth. A change is written there first, durably, then done in the directory; so a crash in between
leaves work that the next ``open`` does: partitions of deleted topics are removed, and a directory that the metadata
knows nothing of is set aside as ``-stray``, never removed. A partition that the metadata names and that has no
directory has never held anything: it is made when it is first asked for. So a topic costs what is used of it.

Concurrency: owned by one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final
from uuid import UUID

from mainstem.clock import Clock
from mainstem.errors import CorruptBatchError, StorageError, UnknownTopicError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import DELETED_DIRECTORY, STRAY_DIRECTORY, partition_directory
from mainstem.log.node.directory import LogDirectory
from mainstem.log.node.metadata import METADATA_PARTITION, Metadata, TopicEntry
from mainstem.log.partition.checkpoints import decode_uuid
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import LoadedPieces
from mainstem.log.verifiable.tree_files import TreeFiles
from mainstem.model import MIRROR_OF, TopicPartition

_METADATA_TOPIC_ID: Final = UUID(int=1)
_METADATA_CONFIG: Final = LogConfig.of(
    {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20), "segment.bytes": str(16 << 20)}
)


class NodeLog:
    """``open`` it; then ``directory`` serves the partitions and ``metadata`` says which there are."""

    def __init__(self, directory: LogDirectory, metadata: Metadata, defaults: Mapping[str, str]) -> None:
        self.directory = directory
        self.metadata = metadata
        self.defaults = dict(defaults)
        self._left_over: dict[str, list[TopicPartition]] = {}

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        path: PurePath,
        defaults: Mapping[str, str],
        remote: LoadedPieces | None = None,
    ) -> NodeLog:
        """Lock, replay the metadata, and reconcile the directory with it.

        ``defaults`` are the node's values of topic configs, by their topic names. ``remote`` has the loaded pieces of
        segments that are in the backup's store alone.

        Raises DirectoryLockedError, StorageError, ConfigError.
        """
        LogConfig.of({}, defaults)
        directory = LogDirectory.start(disk, clock, path, remote)
        try:
            node = cls(directory, _open_metadata(directory, clock), defaults)
            node._reconcile()
        except StorageError:
            directory.release()
            raise
        return node

    def _reconcile(self) -> None:
        for topic_partition in self.directory.directories():
            if self.metadata.may_be_left_over(topic_partition.topic) and topic_partition != METADATA_PARTITION:
                self._maybe_set_aside(topic_partition)
        self.directory.open_partitions(self.config_of, self.topic_id_of)
        for topic in self.metadata.topics.values():
            self.directory.expect(topic.topic_partitions)

    def _maybe_set_aside(self, topic_partition: TopicPartition) -> None:
        """Set aside the directory of a deleted or unknown topic.

        An unknown topic id under the name of an existing topic is treated as a damaged file: the data is kept.
        """
        topic_id = self.directory.written_topic_id(topic_partition)
        topic = self.metadata.topics.get(topic_partition.topic)
        if topic_id is not None and self.metadata.was_deleted(topic_id):
            self.directory.set_aside(topic_partition, DELETED_DIRECTORY)
        elif topic is None or topic_partition.partition >= topic.partitions:
            self.directory.set_aside(topic_partition, STRAY_DIRECTORY)

    def config_of(self, topic_partition: TopicPartition) -> LogConfig:
        """The configs that a partition's topic has, over the node's defaults."""
        if topic_partition == METADATA_PARTITION:
            return _METADATA_CONFIG
        topic = self.metadata.topics.get(topic_partition.topic)
        return LogConfig.of(topic.configs if topic is not None else {}, self.defaults)

    def topic_id_of(self, topic_partition: TopicPartition) -> UUID | None:
        """The id of a partition's topic, or None if the topic does not exist."""
        topic = self.metadata.topics.get(topic_partition.topic)
        return topic.topic_id if topic is not None else None

    def get(self, topic_partition: TopicPartition) -> PartitionLog:
        """The partition's log. Raises UnknownTopicError; the metadata's own log is not a topic."""
        if topic_partition == METADATA_PARTITION:
            raise UnknownTopicError(f"{topic_partition.topic} is the node's own")
        return self.directory.get(topic_partition)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> TopicEntry:
        """Raises InputError and its kinds (name, count, configs, TopicExistsError), StorageError."""
        LogConfig.of(configs, self.defaults)
        self._remove_left_over(name)
        topic = self.metadata.create_topic(name, partitions, configs, source_topic_id(configs))
        self.directory.expect(topic.topic_partitions)
        return topic

    def create_partitions(self, name: str, partitions: int) -> TopicEntry:
        """Raises UnknownTopicError, InputError, StorageError."""
        topic = self.metadata.create_partitions(name, partitions)
        self.directory.expect(topic.topic_partitions)
        return topic

    def delete_topic(self, name: str) -> TopicEntry:
        """Raises UnknownTopicError, StorageError.

        When the metadata no longer names the topic after a StorageError, it is deleted and only its files are left: the
        next start removes them, or the next topic of that name, which cannot be created before.
        """
        topic = self.metadata.delete_topic(name)
        self._left_over[name] = topic.topic_partitions
        self._remove_left_over(name)
        return topic

    def _remove_left_over(self, name: str) -> None:
        if name in self._left_over:
            self.directory.delete(*(each for each in self._left_over[name] if self.directory.holds(each)))
            del self._left_over[name]

    def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> TopicEntry:
        """Replace the configs that are set on a topic. Raises UnknownTopicError, ConfigError, StorageError.

        A topic that stops being a mirror is written with a leader epoch of its own, which no log used before.
        """
        config = LogConfig.of(configs, self.defaults)
        self._maybe_begin_trees(name, config)
        if MIRROR_OF in self.metadata.topic(name).configs and not config.is_mirror:
            self.directory.raise_leader_epoch(self.directory.leader_epoch + 1)
        topic = self.metadata.set_topic_configs(name, configs)
        self._update(topic, config)
        return topic

    def _maybe_begin_trees(self, name: str, config: LogConfig) -> None:
        """Where a topic becomes verifiable, let its trees begin. Else a tree without files is one that was lost."""
        former = self.metadata.topics.get(name)
        if former is None or not config.mainstem_verifiable:
            return
        if not LogConfig.of(former.configs, self.defaults).mainstem_verifiable:
            disk = self.directory.disk
            for each in former.topic_partitions:
                path = self.directory.path / partition_directory(each)
                if disk.exists(path):  # else it begins with the partition
                    TreeFiles(disk, path, former.topic_id, each.partition).begin()

    def set_defaults(self, defaults: Mapping[str, str]) -> None:
        """Let the node's values of topic configs be these from now on. Raises ConfigError."""
        LogConfig.of({}, defaults)
        if defaults == self.defaults:
            return
        self.defaults = dict(defaults)
        for topic in self.metadata.topics.values():
            self._update(topic, LogConfig.of(topic.configs, self.defaults))

    def _update(self, topic: TopicEntry, config: LogConfig) -> None:
        for topic_partition in topic.topic_partitions:
            partition = self.directory.partitions.get(topic_partition)
            if partition is not None:
                if partition.config.is_mirror and not config.is_mirror:
                    partition.leader_epoch = self.directory.leader_epoch
                partition.update_config(config)
                self.directory.features.attach(partition)

    def close(self) -> None:
        """Flush and close everything. Raises StorageError when a flush fails."""
        self.directory.close()


def source_topic_id(configs: Mapping[str, str]) -> UUID | None:
    """The id of the topic that a mirror with these configs copies: the copy has it, too."""
    return decode_uuid(configs.get(MIRROR_OF, "").rpartition("/")[2])


def _open_metadata(directory: LogDirectory, clock: Clock) -> Metadata:
    if METADATA_PARTITION in directory.directories():
        log = directory.open_partition(METADATA_PARTITION, _METADATA_CONFIG)
    else:
        log = directory.create(
            METADATA_PARTITION.topic, METADATA_PARTITION.partition, _METADATA_TOPIC_ID, _METADATA_CONFIG
        )
    try:
        return Metadata(log, clock)
    except CorruptBatchError as error:
        raise StorageError(f"the node's metadata is damaged, nothing was changed: {error}") from error
