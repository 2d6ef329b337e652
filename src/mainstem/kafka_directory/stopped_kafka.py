"""A log directory of a stopped Apache Kafka (KRaft), read and checked without changing it.

``stopped_kafka`` holds Kafka's own lock in shared mode, so that no broker starts on it meanwhile. A broker that ends
removes its lock file; then a broker that is started meanwhile is found out at the end.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from uuid import UUID

from mainstem.broker.configs.config_entries import ConfigResourceType
from mainstem.errors import CorruptBatchError, DirectoryLockedError, InputError, StorageError
from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.directory_files import file_names, read_small_file, reading
from mainstem.kafka_directory.left_behind import Left
from mainstem.kafka_directory.metadata_files import (
    METADATA_DIRECTORY,
    parse_checkpoint_name,
    read_metadata,
    without_aborted,
)
from mainstem.kafka_directory.metadata_records import MetadataReplay, ReplayedTopic
from mainstem.log.files.names import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    parse_offset_file,
    partition_directory,
)
from mainstem.log.node.metadata import TopicEntry
from mainstem.log.partition.checkpoints import decode_leader_epochs, decode_offsets, decode_properties, decode_uuid
from mainstem.model import TopicPartition

_REMOTE_METADATA: Final = "__remote_log_metadata"
_RESERVED_DIRECTORIES: Final = 100
"""Directory ids up to this number have a meaning of their own, such as "not assigned yet"."""


class StoppedKafka(NamedTuple):
    """The content of the directory that can be taken. ``partitions`` are those that have files."""

    path: Path
    cluster_id: str
    node_id: int
    cluster: ClusterState
    partitions: tuple[TopicPartition, ...]
    log_starts: dict[TopicPartition, int]
    notes: list[Left]


@contextmanager
def stopped_kafka(path: Path) -> Iterator[StoppedKafka]:
    """The directory, locked for as long as the block takes.

    Raises InputError for what is not a directory of KRaft's, DirectoryLockedError while a broker has it open,
    StorageError when it was not stopped cleanly, or cannot be read.
    """
    if not (path / META_PROPERTIES).is_file():
        raise InputError(f"{path} is not a log directory of Apache Kafka, it has no {META_PROPERTIES}")
    if not (path / METADATA_DIRECTORY).is_dir():
        raise InputError(
            f"{path} has no {METADATA_DIRECTORY}: name the directory of a broker that is its own controller (KRaft), "
            "with its metadata beside its partitions"
        )
    with ExitStack() as held:
        with reading(path):
            if (path / LOCK).exists():
                _lock(held.enter_context((path / LOCK).open("rb")), path)
        yield _read(path)
        if not (path / CLEAN_SHUTDOWN).exists():
            raise StorageError(f"Apache Kafka was started on {path} meanwhile: stop it, and begin again")


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryLockedError(f"{path} is in use by Apache Kafka: stop it first") from error


def _read(path: Path) -> StoppedKafka:
    properties = decode_properties(read_small_file(path / META_PROPERTIES) or b"")
    if properties.get("version") != "1" or not properties.get("node.id", "").isdecimal():
        raise InputError(f"{path / META_PROPERTIES} is not of version 1: the directory is of another version of Kafka")
    if not (path / CLEAN_SHUTDOWN).exists():
        raise StorageError(f"{path} was not stopped cleanly: start Apache Kafka on it, and stop it")
    node_id = int(properties["node.id"])
    replay = _replay(path / METADATA_DIRECTORY)
    notes = _cluster_notes(replay, node_id)
    topics = {}
    for topic in sorted(replay.topics.values(), key=lambda each: each.name):
        reason = _refusal(replay, topic, node_id, decode_uuid(properties.get("directory.id", "")))
        if reason is None:
            configs = replay.configs.get((ConfigResourceType.TOPIC, topic.name), {})
            topics[topic.name] = TopicEntry(topic.name, topic.topic_id, len(topic.partitions), dict(configs))
        else:
            notes.append(reason)
    served = [each for topic in topics.values() for each in topic.topic_partitions]
    partitions = tuple(each for each in served if (path / partition_directory(each)).is_dir())
    quotas, others = replay.quota_entities()
    notes += [Left(f"quotas of {other}", "Mainstem has quotas of users and of client ids") for other in others]
    epochs = [each.leader_epoch for topic in replay.topics.values() for each in topic.partitions.values()]
    cluster = ClusterState(
        max([0, *epochs, *_written_epochs(path, partitions)]),
        replay.next_producer_id,
        topics,
        list(replay.acls.values()),
        replay.credentials,
        quotas,
        replay.named_configs(ConfigResourceType.BROKER),
        replay.named_configs(ConfigResourceType.GROUP),
    )
    log_starts = decode_offsets(read_small_file(path / LOG_START_CHECKPOINT)) or {}
    return StoppedKafka(path, properties.get("cluster.id", ""), node_id, cluster, partitions, log_starts, notes)


def _replay(path: Path) -> MetadataReplay:
    """The newest snapshot, and the log after it."""
    names = file_names(path)
    checkpoints = [(parsed, name) for name in names if (parsed := parse_checkpoint_name(name)) is not None]
    (offset, _), checkpoint = max(checkpoints, default=((0, 0), ""))
    files = [checkpoint] if checkpoint else []
    files += [name for name in names if (parse_offset_file(name) or (0, ""))[1] == LOG]
    replay = MetadataReplay()
    try:
        starts = [(name, 0 if name == checkpoint else offset) for name in files]
        records = (each for name, start in starts for each in read_metadata(read_small_file(path / name) or b"", start))
        for record in without_aborted(records):  # a transaction may go on in the next file
            replay.apply(record)
    except CorruptBatchError as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    except KeyError as error:
        raise StorageError(f"{path} does not hold all that its records speak of: {error}") from error
    return replay


def _written_epochs(path: Path, partitions: tuple[TopicPartition, ...]) -> Iterator[int]:
    for each in partitions:
        data = read_small_file(path / partition_directory(each) / LEADER_EPOCH_CHECKPOINT)
        yield from (entry.epoch for entry in decode_leader_epochs(data) or ())


def _cluster_notes(replay: MetadataReplay, node_id: int) -> list[Left]:
    notes = []
    others = ", ".join(map(str, sorted(replay.brokers - {node_id})))
    if others:
        taken = "topics of which each partition has an in-sync replica here are taken, no others"
        notes.append(Left(f"brokers {others}", taken))
    notes += [
        Left(f"client metrics {name}", "Mainstem takes no metrics of clients")
        for name in replay.named_configs(ConfigResourceType.CLIENT_METRICS)
    ]
    if replay.has_delegation_tokens:
        notes.append(Left("delegation tokens", "log in by SCRAM or TLS"))
    return notes


def _refusal(replay: MetadataReplay, topic: ReplayedTopic, node_id: int, directory_id: UUID | None) -> Left | None:
    """Why a topic is not taken; None for one that is."""
    name = f"topic {topic.name}"
    configs = replay.configs.get((ConfigResourceType.TOPIC, topic.name), {})
    if topic.name == _REMOTE_METADATA or configs.get("remote.storage.enable") == "true":
        return Left(
            f"{name}: its older records are in a remote tier", "copy it, record by record, from the running Kafka"
        )
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        return Left(f"{name}: partitions are missing in the metadata", "copy it, record by record")
    for number, partition in sorted(topic.partitions.items()):
        if node_id not in partition.replicas:
            brokers = ", ".join(map(str, partition.replicas))
            return Left(f"{name}: partition {number} is on broker {brokers}", "reassign it to this broker first")
        if node_id not in partition.in_sync and partition.replicas != [node_id]:
            return Left(f"{name}: the replica of partition {number} here was not in sync", "let it catch up first")
        if partition.directories and directory_id is not None:
            directory = partition.directories[partition.replicas.index(node_id)]
            if directory != directory_id and directory.int >= _RESERVED_DIRECTORIES:
                return Left(f"{name}: partition {number} is in another log directory", "move it to this one first")
    return None
