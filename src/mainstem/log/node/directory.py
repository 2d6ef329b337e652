"""The data directory of one node: its lock, its identity, its partitions, and the checkpoints that tie them together.

Invariants:

* One process owns the directory: the one that holds ``.lock``.
* A partition exists or not; a deleted one is renamed first, and its files are removed later, also after a crash.
* The checkpoint never claims more than is on the disk: its recovery points are those of finished flushes.
* After an unclean end every partition gets a higher leader epoch than any before, and that is durable before the first
  request is served.

Concurrency: owned by one thread; only ``CheckpointWrite.run`` may run in another.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Final
from uuid import UUID, uuid4

from mainstem.clock import Clock
from mainstem.durable_files import replace_file
from mainstem.errors import PartitionOfflineError, StorageError, TopicExistsError, UnknownTopicError
from mainstem.log.files.disk import Disk, DiskLock
from mainstem.log.files.names import (
    CLEAN_SHUTDOWN,
    DELETED_DIRECTORY,
    GRADUATED,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    STRAY_DIRECTORY,
    parse_partition_directory,
    partition_directory,
    set_aside_directory,
)
from mainstem.log.files.small_files import make_directory, read_file
from mainstem.log.key_index.partition_features import LogFeatures
from mainstem.log.node.background_flush import BackgroundFlushes
from mainstem.log.node.checkpoint_write import CheckpointWrite, CheckpointWriter, read_checkpoint
from mainstem.log.node.file_removal import FileRemoval
from mainstem.log.partition.checkpoints import (
    decode_partition_metadata,
    decode_properties,
    encode_partition_metadata,
    encode_properties,
    encode_uuid,
)
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.recovery.node_checkpoint import NodeCheckpoint, PartitionOffsets
from mainstem.log.recovery.partition_recovery import LastKnown, Partition, create_partition, open_partition
from mainstem.log.segments.remote_segment import LoadedPieces
from mainstem.log.segments.segment import SegmentContext
from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger(__name__)

_NODE_ID: Final = 1
_RECOVERY_CHECKPOINTS_AT_ONCE: Final = 8
_CLEAN_SHUTDOWN_TEXT: Final = json.dumps({"version": 0, "brokerEpoch": -1}).encode()

ConfigOf = Callable[[TopicPartition], LogConfig]
TopicIdOf = Callable[[TopicPartition], UUID | None]


class LogDirectory:
    """``open`` it, or ``start`` it and ``open_partitions`` when their configs are known."""

    def __init__(self, disk: Disk, clock: Clock, path: PurePath, lock: DiskLock) -> None:
        self.path = path
        self.disk = disk
        self.cluster_id = ""
        self.node_id = _NODE_ID
        self.leader_epoch = 0
        self.was_clean = True
        self.features = LogFeatures(path, clock)
        self._clock = clock
        self._lock = lock
        self._context = SegmentContext(disk)
        self._partitions: dict[TopicPartition, PartitionLog] = {}
        self._checkpoint = NodeCheckpoint(0, {})
        self.checkpoints = CheckpointWriter(disk, path)
        self._to_remove: list[PurePath] = []
        self._removal = FileRemoval(disk)
        self._flushes = BackgroundFlushes()
        self._offsets: dict[TopicPartition, PartitionOffsets] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._not_checkpointed: dict[PartitionLog, None] = {}
        self._waiting: set[TopicPartition] = set()
        self._unmade: set[TopicPartition] = set()
        self._unopened: dict[TopicPartition, str] = {}
        self._config_of: ConfigOf = lambda _: LogConfig()
        self._topic_id_of: TopicIdOf = lambda _: None

    @classmethod
    def open(cls, disk: Disk, clock: Clock, path: PurePath, defaults: Mapping[str, str]) -> LogDirectory:
        """Lock the directory and serve its partitions with the node's default configs.

        Raises DirectoryLockedError, StorageError.
        """
        config = LogConfig.of({}, defaults)
        directory = cls.start(disk, clock, path)
        try:
            directory.open_partitions(lambda _: config)
        except StorageError:
            directory.release()
            raise
        return directory

    @classmethod
    def start(cls, disk: Disk, clock: Clock, path: PurePath, remote: LoadedPieces | None = None) -> LogDirectory:
        """Take the directory, made if need be: its lock, its identity, its checkpoint. No partition is opened.

        Raises DirectoryLockedError, StorageError.
        """
        if not disk.exists(path / META_PROPERTIES):
            make_directory(disk, path)
        directory = cls(disk, clock, path, disk.lock(path / LOCK))
        directory._context.remote = remote
        try:
            directory._read_identity()
            directory._read_last_known()
        except StorageError:
            directory._lock.release()
            raise
        return directory

    def _read_identity(self) -> None:
        path = self.path / META_PROPERTIES
        graduated = read_file(self.disk, self.path / GRADUATED)
        if graduated is not None:
            raise StorageError(
                f"the log of {self.path} was given up for that of {graduated.decode(errors='replace').strip()}: "
                "start Apache Kafka there, or choose another --data"
            )
        data = read_file(self.disk, path)
        if data is None:
            self.cluster_id = encode_uuid(uuid4())
            properties = {
                "version": "1",
                "cluster.id": self.cluster_id,
                "node.id": str(_NODE_ID),
                "directory.id": encode_uuid(uuid4()),
            }
            replace_file(self.disk, path, encode_properties(properties), sync=True)
            return
        properties = decode_properties(data)
        if properties.get("version") != "1" or not properties.get("cluster.id"):
            raise StorageError(f"{path} is not a version 1 meta.properties: restore it, or choose another --data")
        self.cluster_id = properties["cluster.id"]
        self.node_id = int(properties.get("node.id", str(_NODE_ID)))

    def _read_last_known(self) -> None:
        """Read the checkpoint, and take down the sign of a clean end before anything can change."""
        self._checkpoint = read_checkpoint(self.disk, self.path)
        marker = self.path / CLEAN_SHUTDOWN
        self.was_clean = self.disk.exists(marker) or not self.directories()
        self.disk.remove(marker)
        self.disk.sync_directory(self.path)

    def directories(self) -> list[TopicPartition]:
        """The partitions that have a directory, opened or not."""
        found = (parse_partition_directory(name) for name in self.disk.list(self.path))
        return [topic_partition for topic_partition in found if topic_partition is not None]

    def written_topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """The topic id in a partition's directory; None when it is missing or cannot be read."""
        directory = self.path / partition_directory(topic_partition)
        return decode_partition_metadata(read_file(self.disk, directory / PARTITION_METADATA))

    def set_aside(self, topic_partition: TopicPartition, suffix: str) -> PurePath:
        """Rename a partition's directory, so that it is not a partition any more. Durable with the directory's sync."""
        source = self.path / partition_directory(topic_partition)
        target = self.path / set_aside_directory(topic_partition, uuid4().hex, suffix)
        self.disk.rename(source, target)
        if suffix == STRAY_DIRECTORY:
            _LOG.warning("%s belongs to no topic of this node: it is kept as %s", source, target.name)
        return target

    def open_partitions(self, config_of: ConfigOf, topic_id_of: TopicIdOf = lambda _: None) -> None:
        """Serve all partitions that have a directory, and make the leader epoch durable. Raises StorageError.

        Each is opened, and recovered, when it is first asked for: what a start costs does not grow with their number.
        """
        for name in self.disk.list(self.path):
            if name.endswith(DELETED_DIRECTORY):
                self.disk.remove_directory(self.path / name)
        self._config_of, self._topic_id_of = config_of, topic_id_of
        directories = set(self.directories())
        self._waiting = directories - self._partitions.keys()
        self._offsets = {tp: known for tp, known in self._checkpoint.partitions.items() if tp in directories}
        epochs = [self._checkpoint.leader_epoch, *(each.leader_epoch for each in self._partitions.values())]
        self.leader_epoch = max(epochs) + (not self.was_clean)
        for partition in self._partitions.values():
            partition.leader_epoch = self.leader_epoch
        self.write_checkpoints()

    def open_partition(
        self, topic_partition: TopicPartition, config: LogConfig, topic_id: UUID | None = None
    ) -> PartitionLog:
        """Open one partition from its directory; ``topic_id`` if another knows it. Raises StorageError."""
        opened = self._read_partition(topic_partition, config, topic_id)
        self._serve(opened)
        return opened

    def _read_partition(
        self, topic_partition: TopicPartition, config: LogConfig, topic_id: UUID | None
    ) -> PartitionLog:
        directory = self.path / partition_directory(topic_partition)
        known = self._checkpoint.partitions.get(topic_partition)
        known_id = known.topic_id if known is not None else None
        written_id = self.written_topic_id(topic_partition)
        is_same_topic = known_id is None or known_id == (topic_id or written_id)
        topic_id = topic_id or written_id or known_id or UUID(int=0)
        if written_id != topic_id:
            replace_file(self.disk, directory / PARTITION_METADATA, encode_partition_metadata(topic_id), sync=False)
        last_known = LastKnown(was_clean=self.was_clean)
        if known is not None and is_same_topic:
            last_known = LastKnown(known.recovery_point, known.log_start_offset, self.was_clean)
        if known_id is not None:  # the line is of our own checkpoint, which knows all epochs that were led with
            last_known = last_known._replace(leader_epoch_max=self._checkpoint.leader_epoch)
        partition = Partition(directory, topic_partition, topic_id, config)
        opened = open_partition(self._context, self._clock, partition, last_known)
        opened.leader_epoch = max(self.leader_epoch, opened.leader_epoch + (not self.was_clean))
        return opened

    def _serve(self, partition: PartitionLog) -> None:
        self._partitions[partition.topic_partition] = partition
        self.features.attach(partition)

    def raise_leader_epoch(self, epoch: int) -> None:
        """Lead with ``epoch`` or a later one from now on: a mirrored log's batches have it.

        The checkpoint names it before any batch has it: recovery takes a later epoch for rot. Raises StorageError when
        it cannot be written; then nothing has changed.
        """
        if epoch <= self.leader_epoch:
            return
        before, self.leader_epoch = self.leader_epoch, epoch
        try:
            self.write_checkpoints()
        except StorageError:
            self.leader_epoch = before
            raise

    # Partitions

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionLog]:
        """The partitions that are open: those that were asked for."""
        return self._partitions

    @property
    def open_files(self) -> int:
        """The number of open segment files."""
        return len(self._context.open_files)

    @property
    def waiting(self) -> AbstractSet[TopicPartition]:
        """The partitions that were not requested yet."""
        return self._waiting

    @property
    def offline(self) -> Mapping[TopicPartition, str]:
        """The partitions that could not be opened, and the disk's errors."""
        return self._unopened

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is here: open, waiting to be asked for, not made yet, or offline."""
        places = (self._partitions, self._waiting, self._unmade, self._unopened)
        return any(topic_partition in place for place in places)

    def expect(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Serve these partitions, too. One without a directory is created, empty, at its first use."""
        self._unmade |= set(topic_partitions).difference(self._partitions, self._waiting, self._unopened)

    def get(self, topic_partition: TopicPartition) -> PartitionLog:
        """The partition's log. Raises UnknownTopicError; PartitionOfflineError when the disk did not let it open.

        StorageError when the disk does not let it be made: then it is tried again when it is asked for again.
        """
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._unmade:
            return self._make(
                topic_partition, self._topic_id_of(topic_partition) or UUID(int=0), self._config_of(topic_partition)
            )
        if topic_partition in self._waiting:
            self._open_waiting(topic_partition)
            return self.get(topic_partition)
        if topic_partition in self._unopened:
            raise PartitionOfflineError(f"{topic_partition} is offline: {self._unopened[topic_partition]}")
        raise UnknownTopicError(f"no partition {topic_partition} in {self.path}")

    def _open_waiting(self, topic_partition: TopicPartition) -> None:
        """Open it; if the disk does not let it, it is offline until the next start, and keeps its files.

        Should its batches know a later leader epoch than the checkpoint, that is durable before anyone is served.
        Raises StorageError when this process has too many files open, or the checkpoint cannot be written: then the
        partition is opened when it is asked for again.
        """
        try:
            config, topic_id = self._config_of(topic_partition), self._topic_id_of(topic_partition)
            opened = self._read_partition(topic_partition, config, topic_id)
        except StorageError as error:
            if _is_out_of_files(error):
                raise
            self._unopened[topic_partition] = str(error)
            _LOG.error("%s cannot be opened and is offline: %s", topic_partition, error)
        else:
            try:
                self.raise_leader_epoch(opened.leader_epoch)
            except StorageError:
                opened.abandon()
                raise
            self._serve(opened)
        self._waiting.discard(topic_partition)

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """A new, empty partition. It outlasts a power cut from its first flush on, before which it holds nothing.

        Raises TopicExistsError, StorageError.
        """
        topic_partition = TopicPartition(topic, partition)
        if self.holds(topic_partition):
            raise TopicExistsError(f"{topic_partition} already exists")
        return self._make(topic_partition, topic_id, config)

    def _make(self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        directory = self.path / partition_directory(topic_partition)
        created = create_partition(
            self._context, self._clock, Partition(directory, topic_partition, topic_id, config), self.leader_epoch
        )
        self._partitions[topic_partition] = created
        self._unmade.discard(topic_partition)
        self.features.attach(created)
        return created

    def delete(self, *topic_partitions: TopicPartition) -> None:
        """Delete partitions: durable on return; their files go with the next checkpoint. Views of them stay valid.

        Raises UnknownTopicError (then none is deleted), StorageError (then what is still held can be deleted again).
        """
        for topic_partition in topic_partitions:
            if not self.holds(topic_partition):
                raise UnknownTopicError(f"no partition {topic_partition} in {self.path}")
        for topic_partition in topic_partitions:
            if topic_partition in self._unmade:
                self._unmade.discard(topic_partition)
                continue
            # The files first: if the disk refuses, the partition is still here, and its deletion can be tried again.
            self._to_remove.append(self.set_aside(topic_partition, DELETED_DIRECTORY))
            partition = self._partitions.pop(topic_partition, None)
            if partition is not None:
                self.features.deleted(partition)
                partition.abandon()
                self._not_checkpointed.pop(partition, None)
                self._removal.forget(partition)
            self._offsets.pop(topic_partition, None)
            self._high_watermarks.pop(topic_partition, None)
            self._waiting.discard(topic_partition)
            self._unopened.pop(topic_partition, None)
        self.disk.sync_directory(self.path)

    # Checkpoints, and the end

    def start_checkpoint(self) -> CheckpointWrite | None:
        """The new content of the checkpoint files, for ``run`` in any thread to write; None when it did not change.

        Call it every second or so. It also starts background flushes that are due, and writes the recovery checkpoints
        of a few idle partitions that have none.
        """
        self._flushes.finish()
        self.features.tick()
        touched = [each for each in self._partitions.values() if each.needs_checkpoint]
        quiet = [
            each for each in self._not_checkpointed if not each.needs_checkpoint and each.needs_recovery_checkpoint
        ]
        for partition in quiet[:_RECOVERY_CHECKPOINTS_AT_ONCE]:
            partition.write_recovery_checkpoint()
        for partition in touched:
            self._note(partition)
        flushes = self._flushes.start(self._not_checkpointed, everything=self._context.open_files.is_over())
        self._not_checkpointed = {each: None for each in self._not_checkpointed if not each.is_checkpointed}
        to_remove, self._to_remove = [*self._to_remove, *self._removal.set_aside(self.checkpoints.written)], []
        self._removal.wait_for(self.checkpoints.next_number, touched)
        checkpoint = NodeCheckpoint(self.leader_epoch, dict(self._offsets))
        return self.checkpoints.start(
            checkpoint, dict(self._high_watermarks), to_remove, flushes, is_awaited=self._removal.is_waiting
        )

    def _note(self, partition: PartitionLog) -> None:
        """Take down what the checkpoint says of a partition in which something has happened."""
        name = partition.topic_partition
        self._offsets[name] = PartitionOffsets(partition.topic_id, partition.recovery_point, partition.log_start_offset)
        self._high_watermarks[name] = partition.high_watermark
        self._not_checkpointed[partition] = None
        partition.needs_checkpoint = False

    def write_checkpoints(self) -> None:
        """Write the checkpoint files now, durably. Raises StorageError."""
        write = self.start_checkpoint()
        if write is not None:
            write.run()

    def release(self) -> None:
        """Let go of everything as it is, as a process that ends would."""
        self.features.close()
        for partition in self._partitions.values():
            partition.abandon()
        self._lock.release()

    def close(self) -> None:
        """Flush and close every partition, and leave the sign of a clean end if all of them could be.

        No ``CheckpointWrite`` and no flush of the caller's may be running.
        Raises StorageError when a flush fails; the others are closed and the lock is released all the same.
        """
        self._flushes.end()
        self.features.close()
        failures: list[StorageError] = []
        for partition in self._partitions.values():
            try:
                partition.close()
            except StorageError as error:
                failures.append(error)
        try:
            self.write_checkpoints()
            self.write_checkpoints()  # and then the files go that waited for the first
            is_recovered = self.was_clean or not self._waiting
            is_whole = not self._unopened and all(each.offline_reason is None for each in self._partitions.values())
            if is_recovered and is_whole and not failures:
                replace_file(self.disk, self.path / CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_TEXT, sync=True)
        finally:
            self._lock.release()
        if failures:
            raise failures[0]


def _is_out_of_files(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE)
