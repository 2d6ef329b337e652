"""Adoption: a data directory of Mainstem's out of a stopped Kafka's log directory.

``plan_adoption`` checks and lists and changes nothing; ``adopt`` does it. Kafka's directory is only read. The data
directory has its name, or where it was given up by ``graduation.commit`` loses that sign, only when all of it is
durable, so a run that was ended leaves nothing that a log starts on.

Every batch is proven first. So opening the new partitions, which builds their indexes, finds nothing to cut: it never
writes to a file that Kafka's directory shares.

Concurrency: one run at a time; Kafka's directory is locked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from mainstem.clock import SystemClock
from mainstem.durable_files import (
    put_in_place,
    remove_file,
    sync_directory,
    sync_tree,
    unfinished_directory,
)
from mainstem.errors import InputError, StorageError
from mainstem.kafka_directory.cluster_state import ClusterState, write_node
from mainstem.kafka_directory.directory_files import (
    FileTransfer,
    PartitionTransfer,
    file_names,
    partition_transfer,
    read_small_file,
    remove_tree,
    shares_file_system,
    sizes_of,
    transfer_files,
    write_file,
    writing,
)
from mainstem.kafka_directory.gaps import copy_without_gaps, scan_segment
from mainstem.kafka_directory.left_behind import Left, to_mainstem
from mainstem.kafka_directory.report import TransferReport, transfer_report
from mainstem.kafka_directory.stopped_kafka import StoppedKafka, stopped_kafka
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import (
    CLEANER_CHECKPOINT,
    GRADUATED,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    PARTITION_METADATA,
    SNAPSHOT,
    parse_offset_file,
    parse_partition_directory,
    partition_directory,
)
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.checkpoints import (
    decode_offsets,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
    encode_uuid,
)
from mainstem.log.recovery.node_checkpoint import NodeCheckpoint, PartitionOffsets, encode_node_checkpoint
from mainstem.model import TopicPartition

UNFINISHED: Final = ".adopting"


class PartitionAdoption(NamedTuple):
    """One partition: what is linked or copied, which segments are written again, and where it begins and ends."""

    topic_partition: TopicPartition
    transfer: PartitionTransfer
    with_gaps: frozenset[str]
    log_start_offset: int
    end_offset: int


class AdoptionPlan(NamedTuple):
    """The plan of an adoption. ``cluster`` is as Mainstem will have it."""

    source: Path
    target: Path
    kafka: StoppedKafka
    cluster: ClusterState
    partitions: tuple[PartitionAdoption, ...]
    report: TransferReport


def plan_adoption(kafka_directory: Path, data: Path) -> AdoptionPlan:
    """Plan what ``adopt`` would do. Nothing is changed; raises what ``adopt`` raises."""
    _require_new(kafka_directory, data)
    with stopped_kafka(kafka_directory) as kafka:
        return _plan(kafka, data)


def adopt(kafka_directory: Path, data: Path) -> AdoptionPlan:
    """Make the data directory ``data`` out of a stopped Kafka's directory.

    Raises InputError for a data directory that holds a log, or for another directory than Kafka's;
    DirectoryLockedError while a broker runs there, or another run makes ``data``; StorageError for damage.
    Then ``data`` holds no log.
    """
    _require_new(kafka_directory, data)
    with stopped_kafka(kafka_directory) as kafka:
        plan = _plan(kafka, data)
        is_return = (data / GRADUATED).exists()
        place = data.absolute()
        path = place / UNFINISHED if is_return else place.with_name(place.name + UNFINISHED)
        with unfinished_directory(path) as unfinished:
            _write(plan, unfinished)
            if is_return:
                _move_in(unfinished, data)
            else:
                put_in_place(unfinished, place)
        return plan


def _require_new(kafka_directory: Path, data: Path) -> None:
    if data.absolute().is_relative_to(kafka_directory.absolute()):
        raise InputError(f"{data} lies in Kafka's directory {kafka_directory}: name another place with --data")
    if not data.exists() or (data / GRADUATED).exists():
        return
    if not data.is_dir() or file_names(data):
        raise InputError(f"{data} is not empty: name a directory that does not exist yet with --data")


def _plan(kafka: StoppedKafka, target: Path) -> AdoptionPlan:
    cluster, notes = to_mainstem(kafka.cluster, kafka.node_id)
    partitions = tuple(_plan_partition(kafka, each) for each in kafka.partitions)
    served = {partition_directory(each) for each in kafka.partitions}
    others = [
        Left(f"directory {name}", "it belongs to no topic that is taken")
        for name in file_names(kafka.path)
        if (kafka.path / name).is_dir() and name not in served and not name.startswith("__cluster_metadata-")
    ]
    transfers = [each.transfer for each in partitions]
    sizes = sizes_of(transfers, links=shares_file_system(kafka.path, target))
    all_notes = [*kafka.notes, *others, *notes]
    report = transfer_report(kafka.path, kafka.cluster_id, cluster, transfers, sizes, all_notes)
    return AdoptionPlan(kafka.path, target, kafka, cluster, partitions, report)


def _plan_partition(kafka: StoppedKafka, topic_partition: TopicPartition) -> PartitionAdoption:
    """Prove the partition's segments, and choose what is linked: closed ones without gaps."""
    path = kafka.path / partition_directory(topic_partition)
    files, with_gaps, end_offset, first_offset = [], set(), 0, None
    for file in partition_transfer(path).files:
        base_offset, suffix = parse_offset_file(file.name) or (0, "")
        if suffix == SNAPSHOT:
            files.append(file)
        if suffix != LOG:
            continue
        if base_offset < end_offset:
            raise StorageError(f"{path / file.name} begins before the segment before it ends, at {end_offset}")
        scan = scan_segment(path / file.name, base_offset)
        end_offset = scan.end_offset
        first_offset = base_offset if first_offset is None else first_offset
        if scan.has_gaps:
            with_gaps.add(file.name)
        files.append(file._replace(is_linked=file.is_linked and not scan.has_gaps))
    log_start = max(kafka.log_starts.get(topic_partition, 0), first_offset or 0)
    transfer = PartitionTransfer(path.name, tuple(files))
    return PartitionAdoption(topic_partition, transfer, frozenset(with_gaps), log_start, end_offset)


def _write(plan: AdoptionPlan, target: Path) -> None:
    """Write everything into a directory that is empty, open it as a start does, and close it cleanly."""
    properties = {
        "version": "1",
        "cluster.id": plan.kafka.cluster_id,
        "node.id": str(plan.kafka.node_id),
        "directory.id": encode_uuid(uuid4()),
    }
    write_file(target / META_PROPERTIES, encode_properties(properties))
    node = NodeLog.open(OsDisk(), SystemClock(), target, {})
    try:
        write_node(node.metadata, plan.cluster)
    finally:
        node.close()
    for partition in plan.partitions:
        _write_partition(plan, partition, target / partition.transfer.directory)
    _write_checkpoints(plan, target)
    _open_all(plan, target)


def _write_partition(plan: AdoptionPlan, partition: PartitionAdoption, path: Path) -> None:
    source = plan.source / partition.transfer.directory
    with writing(path):
        path.mkdir()
    whole: list[FileTransfer] = []
    for file in partition.transfer.files:
        if file.name in partition.with_gaps:
            base_offset, _ = parse_offset_file(file.name) or (0, "")
            copy_without_gaps(source / file.name, path / file.name, base_offset)
        else:
            whole.append(file)
    transfer_files(source, path, whole)
    topic_id = plan.cluster.topics[partition.topic_partition.topic].topic_id
    write_file(path / PARTITION_METADATA, encode_partition_metadata(topic_id))
    epochs = read_small_file(source / LEADER_EPOCH_CHECKPOINT)
    if epochs is not None:
        write_file(path / LEADER_EPOCH_CHECKPOINT, epochs)


def _write_checkpoints(plan: AdoptionPlan, target: Path) -> None:
    """The node's checkpoint: each partition is proven up to its end, and this log leads with the next epoch."""
    offsets = {
        each.topic_partition: PartitionOffsets(
            plan.cluster.topics[each.topic_partition.topic].topic_id, each.end_offset, each.log_start_offset
        )
        for each in plan.partitions
    }
    checkpoint = NodeCheckpoint(plan.cluster.leader_epoch + 1, offsets)
    write_file(target / NODE_CHECKPOINT, encode_node_checkpoint(checkpoint))
    cleaned = decode_offsets(read_small_file(plan.source / CLEANER_CHECKPOINT)) or {}
    known = {each: offset for each, offset in cleaned.items() if each in offsets}
    write_file(target / CLEANER_CHECKPOINT, encode_offsets(known))


def _open_all(plan: AdoptionPlan, target: Path) -> None:
    """Open every partition, which builds its indexes, and see that it is what was planned."""
    node = NodeLog.open(OsDisk(), SystemClock(), target, {})
    try:
        for each in plan.partitions:
            log = node.directory.get(each.topic_partition)
            found = (log.log_start_offset, log.log_end_offset)
            if found != (each.log_start_offset, each.end_offset):
                raise StorageError(
                    f"{each.topic_partition} came out as offsets {found[0]} to {found[1]}, not "
                    f"{each.log_start_offset} to {each.end_offset}: nothing was changed"
                )
    finally:
        node.close()


def _move_in(unfinished: Path, data: Path) -> None:
    """Put the log into a directory whose former one was given up, beside what else is there; its sign goes last."""
    sync_tree(unfinished)
    lock = OsDisk().lock(data / LOCK)
    try:
        _replace_log(unfinished, data)
    finally:
        lock.release()


def _replace_log(unfinished: Path, data: Path) -> None:
    for name in file_names(data):
        if parse_partition_directory(name) is not None:
            remove_tree(data / name)  # of a run that was ended here
    for name in set(file_names(unfinished)) - {LOCK}:
        with writing(data / name):
            (unfinished / name).replace(data / name)
    sync_directory(data)
    remove_file(data / GRADUATED)
    remove_tree(unfinished)
