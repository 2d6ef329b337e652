"""What the log's tests share: small batches, a partition on a faulty disk, and reading everything back."""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID

from mainstem.errors import StorageError
from mainstem.log.cleaning.compaction_job import CleanedSegment
from mainstem.log.files.disk import Disk
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition
from mainstem.record.constants import ControlType
from mainstem.record.header import iter_headers
from mainstem.record.reader import DecodedRecord, iter_records, read_end_marker
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk

DATA = PurePath("/data")
TOPIC_ID = UUID(int=7)
PARTITION = TopicPartition("events", 0)
DIRECTORY = DATA / "events-0"
NOW_MS = 1_700_000_000_000


def batch(*values: bytes, timestamp_ms: int = NOW_MS, producer: ProducerStamp | None = None) -> bytes:
    """A batch of records with these values, one millisecond apart."""
    records = [NewRecord(None, value, (), timestamp_ms + at) for at, value in enumerate(values)]
    return build_batch(records, producer=producer)


def sent_by(producer_id: int, base_sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    return batch(*values, producer=ProducerStamp(producer_id, epoch, base_sequence))


def in_transaction(producer_id: int, base_sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch of a transactional producer."""
    return batch(*values, producer=ProducerStamp(producer_id, epoch, base_sequence, is_transactional=True))


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
    """Append the producer's marker; its offset."""
    result = log.append_marker(producer_id, epoch, commit=commit, coordinator_epoch=0, timestamp_ms=NOW_MS)
    return result.base_offset


def read_committed(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> list[bytes | None]:
    """The values of ``committed_records``."""
    return [record.value for record in committed_records(log, offset, max_bytes)]


def committed_records(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> list[DecodedRecord]:
    """What a consumer with isolation.level=read_committed delivers, by its rule, fetch by fetch."""
    found: list[DecodedRecord] = []
    while offset < log.last_stable_offset:
        result = log.read(offset, max_bytes, committed=True)
        if not result.buffers:
            break
        pending = sorted(result.aborted, key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for buffer in result.buffers:
            for at, header in iter_headers(buffer):
                while pending and pending[0].first_offset <= header.last_offset:
                    aborted.add(pending.pop(0).producer_id)
                batch = memoryview(buffer)[at : at + header.size_bytes]
                marker = read_end_marker(batch) if header.is_control else None
                if marker is not None and marker.control_type is ControlType.ABORT:
                    aborted.discard(header.producer_id)
                elif not header.is_control and not (header.is_transactional and header.producer_id in aborted):
                    found += [record for record in iter_records(batch) if record.offset >= offset]
        offset = header.next_offset
    return found


def read_all(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> list[DecodedRecord]:
    """All visible records from ``offset`` on, read as a consumer reads."""
    found: list[DecodedRecord] = []
    while offset < log.high_watermark:
        records = [record for buffer in log.read(offset, max_bytes).buffers for record in iter_records(buffer)]
        if not records:
            break
        found += [record for record in records if record.offset >= offset]
        offset = records[-1].offset + 1
    return found


def values(log: PartitionLog, offset: int = 0) -> list[bytes | None]:
    """The values of all visible records."""
    return [record.value for record in read_all(log, offset)]


def swap_in(log: PartitionLog, cleaned: CleanedSegment) -> bool:
    """All steps of a swap at once; whether the segment took its place. Raises StorageError."""
    cleaning = log.cleaning
    swap = cleaning.prepare_swap(cleaned)
    if swap is None:
        return False
    try:
        swap.sync()
    except StorageError:
        cleaning.cancel_swap(swap)
        raise
    new = cleaning.begin_swap(swap)
    if new is None:
        return False
    swap.sync()
    cleaning.end_swap(swap, new)
    swap.clean_up()
    return True


class Node:
    """A data directory with one partition on a disk that can fail, and ways to end and start again."""

    def __init__(self, disk: Disk | None = None, seed: int = 0, **configs: str) -> None:
        self.faulty = FaultyDisk(seed)
        self.disk = disk or self.faulty
        self.clock = ManualClock(NOW_MS)
        self.configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.directory = self._open()
        self.log = self.directory.create(PARTITION.topic, 0, TOPIC_ID, LogConfig.of(self.configs))

    def _open(self) -> LogDirectory:
        return LogDirectory.open(self.disk, self.clock, DATA, self.configs)

    def append(self, *values: bytes) -> int:
        """Append one batch; its base offset."""
        return self.log.append(batch(*values)).base_offset

    def commit(self, *values: bytes) -> int:
        """Append one batch for each value and flush; the last base offset, -1 without any."""
        offsets = [-1, *(self.append(value) for value in values)]
        self.log.flush()
        return offsets[-1]

    def start(self) -> PartitionLog:
        """Open the directory again, after an end of any kind."""
        self.directory = self._open()
        self.log = self.directory.get(PARTITION)
        return self.log

    def kill_and_start(self) -> PartitionLog:
        """SIGKILL, then a start."""
        self.faulty.kill()
        return self.start()

    def cut_power_and_start(self) -> PartitionLog:
        """A power cut, then a start."""
        self.faulty.power_cut()
        return self.start()

    def restart(self) -> PartitionLog:
        """A clean end and a start."""
        self.directory.close()
        return self.start()

    def files(self, suffix: str) -> list[PurePath]:
        """The partition's files that end so, sorted."""
        return [DIRECTORY / name for name in self.disk.list(DIRECTORY) if name.endswith(suffix)]

    def overwrite(self, path: PurePath, content: bytes) -> None:
        """Replace a file's content, durably, behind the log's back."""
        file = self.disk.create(path)
        file.write(0, [content])
        file.sync()
        file.close()
