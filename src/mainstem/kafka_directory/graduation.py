"""Graduation: a log directory of Apache Kafka out of a stopped Mainstem's, and giving up the old one.

``plan_graduation`` says what it comes to and changes nothing; ``graduate`` does it; ``commit`` gives the old log up.

Invariants:

* The old directory is only read, and stays usable, until ``commit``. Closed segments are then two names of one file.
* The new directory has its name only when all of it is durable: a run that was ended leaves ``<name>.graduating``,
  which the next one removes.
* ``commit`` compares: a log that has changed since it was graduated is not given up.

Concurrency: one run at a time; the old directory is locked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from mainstem.clock import SystemClock
from mainstem.durable_files import LOCAL_FILES, put_in_place, replace_file, unfinished_directory
from mainstem.errors import InputError, StorageError
from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.directory_files import (
    PartitionTransfer,
    file_names,
    partition_transfer,
    read_small_file,
    reading,
    remove_tree,
    shares_file_system,
    sizes_of,
    transfer_files,
    write_file,
    writing,
)
from mainstem.kafka_directory.left_behind import Left, to_kafka
from mainstem.kafka_directory.metadata_files import METADATA_DIRECTORY, checkpoint_name, encode_checkpoint
from mainstem.kafka_directory.metadata_records import BROKER_EPOCH, records_of
from mainstem.kafka_directory.report import TransferReport, transfer_report
from mainstem.kafka_directory.server_properties import server_properties
from mainstem.kafka_directory.stopped_node import StoppedNode, require_data_directory, stopped_node
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    GRADUATED,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_directory,
    partition_directory,
)
from mainstem.log.partition.checkpoints import (
    decode_offsets,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
    encode_uuid,
)
from mainstem.model import TopicPartition

GRADUATION: Final = "mainstem-graduation.json"
"""In the new directory: which log it was made of, as that was then."""
SERVER_PROPERTIES: Final = "server.properties"
UNFINISHED: Final = ".graduating"
_EPOCH: Final = 1
_KEY_INDEX: Final = ("key-index", "key-index-build")


class GraduationPlan(NamedTuple):
    """The plan of a graduation. ``cluster`` is as Apache Kafka will have it."""

    source: Path
    target: Path
    node: StoppedNode
    cluster: ClusterState
    transfers: tuple[PartitionTransfer, ...]
    report: TransferReport


def plan_graduation(data: Path, target: Path) -> GraduationPlan:
    """Plan what ``graduate`` would do. Nothing is changed; raises what ``graduate`` raises."""
    _require_new(data, target)
    with stopped_node(data, recover=False) as node:
        return _plan(node, target)


def graduate(data: Path, target: Path) -> GraduationPlan:
    """Make the directory ``target``, on which Apache Kafka starts, out of the log in ``data``.

    Raises InputError for a target that holds anything, or for another directory than a log's; DirectoryLockedError
    while a log runs there, or another run makes ``target``; StorageError. Then ``target`` is as it was before.
    """
    _require_new(data, target)
    with stopped_node(data, recover=True) as node:
        if not node.was_clean:
            raise StorageError(
                f"{data} could not be recovered whole: see which partitions are damaged: mainstem log verify"
            )
        plan = _plan(node, target)
        place = target.absolute()
        with unfinished_directory(place.with_name(place.name + UNFINISHED)) as unfinished:
            _write(plan, unfinished)
            put_in_place(unfinished, place)
        return plan


def _require_new(data: Path, target: Path) -> None:
    if target.absolute().is_relative_to(data.absolute()):
        raise InputError(f"{target} lies in the data directory {data}: name another place with --to")
    if target.exists() and (not target.is_dir() or file_names(target)):
        raise InputError(f"{target} is not empty: name a directory that does not exist yet with --to")


def _plan(node: StoppedNode, target: Path) -> GraduationPlan:
    cluster, notes = to_kafka(node.cluster, node.node_id)
    served = [each for each in node.partitions if _is_served(cluster, each)]
    notes += [
        Left(f"directory {partition_directory(each)}", "it belongs to no topic: start Mainstem once, it sets it aside")
        for each in node.partitions
        if not _is_served(cluster, each)
    ]
    transfers = tuple(partition_transfer(node.path / partition_directory(each)) for each in served)
    sizes = sizes_of(transfers, links=shares_file_system(node.path, target))
    report = transfer_report(node.path, node.cluster_id, cluster, transfers, sizes, notes)
    return GraduationPlan(node.path, target, node, cluster, transfers, report)


def _is_served(cluster: ClusterState, topic_partition: TopicPartition) -> bool:
    topic = cluster.topics.get(topic_partition.topic)
    return topic is not None and topic_partition.partition < topic.partitions


def _write(plan: GraduationPlan, target: Path) -> None:
    """Write everything into a directory that is empty."""
    _write_partitions(plan, target)
    _write_checkpoints(plan, target)
    directory_id = uuid4()
    properties = {
        "version": "1",
        "cluster.id": plan.node.cluster_id,
        "node.id": str(plan.node.node_id),
        "directory.id": encode_uuid(directory_id),
    }
    write_file(target / META_PROPERTIES, encode_properties(properties))
    records = records_of(plan.cluster, plan.node.node_id, directory_id)
    with writing(target):
        (target / METADATA_DIRECTORY).mkdir()
    name = checkpoint_name(len(records) + 2, _EPOCH)
    write_file(target / METADATA_DIRECTORY / name, encode_checkpoint(records, _EPOCH, SystemClock().time_ms()))
    write_file(target / SERVER_PROPERTIES, server_properties(plan.cluster, plan.node.node_id, plan.target))
    write_file(target / GRADUATION, json.dumps(_description(plan.source, plan.node.cluster_id)).encode())
    write_file(target / CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": BROKER_EPOCH}).encode())


def _write_partitions(plan: GraduationPlan, target: Path) -> None:
    for transfer in plan.transfers:
        source, path = plan.source / transfer.directory, target / transfer.directory
        with writing(path):
            path.mkdir()
        transfer_files(source, path, transfer.files)
        topic_partition = parse_partition_directory(transfer.directory)
        assert topic_partition is not None
        topic_id = plan.cluster.topics[topic_partition.topic].topic_id
        write_file(path / PARTITION_METADATA, encode_partition_metadata(topic_id))
        epochs = read_small_file(source / LEADER_EPOCH_CHECKPOINT)
        if epochs is not None:
            write_file(path / LEADER_EPOCH_CHECKPOINT, epochs)


def _write_checkpoints(plan: GraduationPlan, target: Path) -> None:
    """Kafka's checkpoint files, of the partitions that go along."""
    names = {parse_partition_directory(transfer.directory) for transfer in plan.transfers}
    known = {each: offsets for each, offsets in plan.node.checkpoint.partitions.items() if each in names}
    contents = {
        RECOVERY_POINT_CHECKPOINT: {each: offsets.recovery_point for each, offsets in known.items()},
        LOG_START_CHECKPOINT: {each: offsets.log_start_offset for each, offsets in known.items()},
    }
    for name in (HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT):
        offsets = decode_offsets(read_small_file(plan.source / name)) or {}
        contents[name] = {each: offset for each, offset in offsets.items() if each in names}
    for name, content in contents.items():
        write_file(target / name, encode_offsets(content))


def _description(data: Path, cluster_id: str) -> dict[str, object]:
    """The id of a log and the sizes of its segments: they differ once it goes on."""
    with reading(data):
        sizes = {
            f"{name}/{path.name}": path.stat().st_size
            for name in file_names(data)
            if parse_partition_directory(name) is not None
            for path in sorted((data / name).glob(f"*{LOG}"))
        }
    return {"version": 1, "cluster_id": cluster_id, "log_files": sizes}


def commit(data: Path, target: Path) -> list[str]:
    """Give up the log in ``data``: it was graduated to ``target``. Returns the names of what was removed.

    Views, checkpoints and settings beside the log stay. A run that was ended is finished by the next one.

    Raises InputError when ``target`` was not made of this log as it is now, DirectoryLockedError while a log runs
    there, StorageError.
    """
    has_begun = _went_to(data) == str(target.absolute())
    if not has_begun:
        require_data_directory(data)
    lock = OsDisk().lock(data / LOCK)
    try:
        if not has_begun:
            _require_same(data, target)
        names = [name for name in file_names(data) if parse_partition_directory(name) is not None]
        names += [name for name in (*_KEY_INDEX, NODE_CHECKPOINT, CLEAN_SHUTDOWN) if (data / name).exists()]
        replace_file(LOCAL_FILES, data / GRADUATED, f"{target.absolute()}\n".encode())
        for name in names:
            if (data / name).is_dir():
                remove_tree(data / name)
            else:
                with writing(data / name):
                    (data / name).unlink()
        return names
    finally:
        lock.release()


def _went_to(data: Path) -> str | None:
    """The directory for which the log in ``data`` was given up; None while it was not."""
    sign = data / GRADUATED
    return sign.read_text().strip() if sign.is_file() else None


def _require_same(data: Path, target: Path) -> None:
    path = target / GRADUATION
    if not path.is_file():
        raise InputError(f"{target} was not made by mainstem graduate: it has no {GRADUATION}")
    try:
        made_of = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} cannot be read: graduate again, to another directory") from error
    properties = dict(line.split("=", 1) for line in (data / META_PROPERTIES).read_text().splitlines() if "=" in line)
    if made_of != _description(data, properties.get("cluster.id", "")):
        raise InputError(
            f"the log in {data} is not as it was when {target} was made of it: graduate it again, to another directory"
        )
