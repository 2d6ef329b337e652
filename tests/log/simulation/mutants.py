"""Faults that are put into the log on purpose, each of which the simulation must find: else it would prove nothing.

A mutant replaces one function of the log by one that forgets something. What no user could tell from the original is
no mutant; docs/internals/simulation.md names some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from mainstem.errors import CorruptBatchError, InvalidTransactionStateError, MainstemError, StorageError
from mainstem.log.cleaning.cleaning import Cleaning
from mainstem.log.files.disk import Disk
from mainstem.log.node import checkpoint_write, directory
from mainstem.log.partition import producer_snapshot, producer_state
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.flush import Flush
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.partition.partition_reads import PartitionReads
from mainstem.log.partition.producer_state import ProducerEntry, ProducerState
from mainstem.log.recovery import node_checkpoint, partition_recovery
from mainstem.log.recovery.node_checkpoint import PartitionOffsets
from mainstem.log.recovery.partition_recovery import _Recovery
from mainstem.log.segments import segment_indexes
from mainstem.log.segments.batch_scan import walk_headers
from mainstem.log.segments.log_segments import LogSegments
from mainstem.log.segments.offset_index import OffsetIndex
from mainstem.log.segments.segment import Segment
from mainstem.log.segments.segment_indexes import SegmentIndexes
from mainstem.log.segments.transaction_index import TransactionIndex
from mainstem.testing.disk import PowerCutError
from tests.log.simulation.rot import flip_derived
from tests.log.simulation.runs import cut_recovery_everywhere, run_long, run_with_many_cuts, run_with_one_cut

FOUND: Final = (AssertionError, MainstemError, PowerCutError, LookupError, ValueError)
"""How a run finds a mutant; another kind of error would be the mutant's own."""
Patch = Callable[[pytest.MonkeyPatch], None]
Run = Callable[[int], object]


class Mutant(NamedTuple):
    """``runs`` are the seeded runs that are to find it, the first one first."""

    name: str
    patch: Patch
    runs: tuple[Run, ...] = (run_with_one_cut, run_long)


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a function: do nothing."""


def setter(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def wrapper(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Patch:
    """Replace a function by what ``wrap`` makes of it."""
    return lambda patch: patch.setattr(owner, name, wrap(getattr(owner, name)))


class _EqualToAll(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _any_crc(original: Callable[..., int]) -> Callable[..., int]:
    return lambda *arguments: _EqualToAll(original(*arguments))


def flipping(kind: str) -> Run:
    return lambda seed: flip_derived(seed, kind)


# Transactions


def _decides_at_once(original: Any) -> Any:
    def update(self: ProducerState, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.decide(1 << 62)

    return update


def _without_open(original: Any) -> Any:
    def decode(*arguments: Any) -> Any:
        entries, rest = original(*arguments)
        for entry in entries:
            entry.transaction_first_offset = -1
        return entries, rest

    return decode


def _only_last_segment(original: Any) -> Any:
    def find(self: LogSegments, offset: int, end: Any) -> Any:
        return end.segment.indexes().aborted.find(offset, end.segment.indexes().bound_after(end.file_position))

    return find


def _wrong_last_stable(original: Any) -> Any:
    return lambda self, ended, last_stable_offset: original(self, ended, ended.last_offset + 1)


def _ignores_state(original: Any) -> Any:
    def check(self: ProducerState, headers: Any, **options: Any) -> None:
        try:
            original(self, headers, **options)
        except InvalidTransactionStateError:
            return

    return check


def _keeps_batches(self: ProducerEntry, epoch: int) -> None:
    self.epoch = epoch


def _forgets_coordinator(original: Any) -> Any:
    def update(self: ProducerState, header: Any, marker: Any = None, **options: Any) -> None:
        original(self, header, marker._replace(coordinator_epoch=-1) if marker else None, **options)

    return update


def _create_unaware(original: Any) -> Any:
    return classmethod(lambda cls, context, path, base, interval, _=None: original(context, path, base, interval))


TRANSACTIONS: Final = (
    Mutant(
        "an open transaction does not hold the last stable offset",
        setter(PartitionReads, "last_stable_offset", property(lambda self: self.high_watermark)),
    ),
    Mutant("a marker counts before it is durable", wrapper(ProducerState, "update", _decides_at_once)),
    Mutant(
        "committed reads go past the last stable offset",
        setter(PartitionReads, "_find_stable_end", lambda self, _: self._committed_end),
    ),
    Mutant("the aborted index is not filled", setter(TransactionIndex, "append", nothing)),
    Mutant("the aborted index is not cut back by recovery", setter(TransactionIndex, "truncate", nothing)),
    Mutant(
        "an entry's last stable offset forgets what else is open",
        wrapper(TransactionIndex, "append", _wrong_last_stable),
    ),
    Mutant(
        "aborted transactions are looked for in one segment only",
        wrapper(LogSegments, "aborted_transactions", _only_last_segment),
    ),
    Mutant("a marker is forgotten in recovery", setter(Segment, "marker_at", nothing)),
    Mutant("a snapshot without its open transactions", wrapper(producer_snapshot, "_decode_entries", _without_open)),
    Mutant(
        "a seal without the open transactions",
        wrapper(SegmentIndexes, "seal", lambda original: lambda *args: original(*args)._replace(open_transactions=())),
    ),
    Mutant("a new segment begins without the open transactions", wrapper(Segment, "create", _create_unaware)),
    Mutant(
        "a segment is rebuilt without what was open before it",
        setter(Segment, "_open_before", lambda self: segment_indexes.OpenTransactions()),
        (flipping(".seal"),),
    ),
    Mutant("a marker's epoch does not begin sequences anew", setter(ProducerEntry, "begin_epoch", _keeps_batches)),
    Mutant("a marker's coordinator epoch is forgotten", wrapper(ProducerState, "update", _forgets_coordinator)),
    Mutant("writes outside the open transaction are taken", wrapper(ProducerState, "check", _ignores_state)),
    Mutant(
        "the log start does not bound the last stable offset",
        setter(
            PartitionReads,
            "last_stable_offset",
            property(
                lambda self: min(
                    self.high_watermark,
                    self.high_watermark
                    if self._producers.first_unstable_offset is None
                    else self._producers.first_unstable_offset,
                )
            ),
        ),
    ),
)

# Producers

PRODUCERS: Final = (
    Mutant("zombies are not fenced", setter(producer_state, "_check_epoch", nothing)),
    Mutant("sequences are not checked", setter(producer_state, "_check_sequence", nothing)),
    Mutant("repeats are not recognized", setter(ProducerState, "find_duplicate", nothing)),
    Mutant("a snapshot keeps the last batch only", setter(producer_snapshot, "_decode_trailer", nothing)),
    Mutant(
        "a snapshot past the recovery point is believed",
        wrapper(
            partition_recovery,
            "read_newest_snapshot",
            lambda original: lambda disk, path, offsets, *rest: original(disk, path, (offsets[0], 1 << 62), *rest),
        ),
    ),
    Mutant(
        "a snapshot from before the first segment is believed",
        wrapper(
            partition_recovery,
            "read_newest_snapshot",
            lambda original: lambda disk, path, offsets, *rest: original(disk, path, (0, offsets[1]), *rest),
        ),
    ),
    Mutant("batches behind the snapshot are not replayed", setter(_Recovery, "_walk_again", nothing)),
)

# What is durable


def _run_without_files(self: Flush) -> None:
    for each in self._directories:
        self._disk.sync_directory(each)


def _run_without_directories(self: Flush) -> None:
    for file in self._files:
        file.sync()


def _unsynced(original: Any) -> Any:
    return lambda disk, path, data, *, sync: original(disk, path, data, sync=False)


def _offsets(change: Callable[[PartitionOffsets], PartitionOffsets]) -> Patch:
    return setter(directory, "PartitionOffsets", lambda *fields: change(PartitionOffsets(*fields)))


def _truncates_unsynced(self: _Recovery, segment: Segment, size_bytes: int) -> None:
    segment.resize(size_bytes)
    segment.file().truncate(size_bytes)


def _resizes_only(self: _Recovery, segment: Segment, size_bytes: int) -> None:
    segment.resize(size_bytes)


def _seals_unsynced(original: Any) -> Any:
    return lambda self, disk, path, durable, *, sync=False: original(self, disk, path, durable, sync=False)


def _says_durable(original: Any) -> Any:
    def init(self: _Recovery, *arguments: Any) -> None:
        original(self, *arguments)
        self._names_are_durable = True

    return init


def _flushes_later(original: Callable[..., None]) -> Callable[..., None]:
    def derive(self: LogConfig) -> None:
        original(self)
        object.__setattr__(self, "flushes_before_commit", False)

    return derive


def _make_unsynced(disk: Disk, path: Any) -> None:
    disk.make_directory(path)


MANY: Final = (run_with_one_cut, run_with_many_cuts, run_long)
DURABILITY: Final = (
    Mutant("a flush syncs no files", setter(Flush, "run", _run_without_files)),
    Mutant("a flush syncs no directories", setter(Flush, "run", _run_without_directories)),
    Mutant(
        "the high watermark does not wait for the flush",
        wrapper(LogConfig, "__post_init__", _flushes_later),
    ),
    Mutant("after a failed sync the partition goes on", setter(PartitionLog, "_go_offline", nothing)),
    Mutant("a failed write leaves its bytes", setter(PartitionLog, "_undo_write", nothing)),
    Mutant("recovery does not rewrite what it keeps", setter(_Recovery, "_rewrite", nothing), MANY),
    Mutant("recovery does not make names durable", setter(_Recovery, "_sync_names", nothing), MANY),
    Mutant("recovery takes all names for durable", wrapper(_Recovery, "__init__", _says_durable), MANY),
    Mutant("recovery does not cut the file", setter(_Recovery, "_truncate", _resizes_only)),
    Mutant("recovery does not sync the cut", setter(_Recovery, "_truncate", _truncates_unsynced), MANY),
    Mutant("recovery does not look for missing segments", setter(_Recovery, "_gap_before", nothing), MANY),
    Mutant(
        "seals that recovery relies on are not synced",
        wrapper(SegmentIndexes, "write", _seals_unsynced),
        (*MANY, cut_recovery_everywhere),
    ),
    Mutant("checkpoints are not synced", wrapper(checkpoint_write, "replace_file", _unsynced), MANY),
    Mutant(
        "the checkpoint's recovery point is too high",
        _offsets(lambda each: each._replace(recovery_point=each.recovery_point + 3)),
    ),
    Mutant("the checkpoint forgets the log start", _offsets(lambda each: each._replace(log_start_offset=0))),
    Mutant("the data directory's own name is not durable", setter(directory, "make_directory", _make_unsynced)),
    Mutant(
        "a leader epoch is led with twice",
        setter(
            directory,
            "read_checkpoint",
            lambda disk, path: node_checkpoint.NodeCheckpoint(
                0, checkpoint_write.read_checkpoint(disk, path).partitions
            ),
        ),
    ),
)

# What is believed


class _SameAsAll(tuple[int, int]):
    def __ne__(self, other: object) -> bool:
        return False


def _walks_unverified(self: _Recovery, slot: int, indexes: SegmentIndexes) -> str | None:
    segment = self._segments[slot]
    for file_position, header in _walk_headers(segment, indexes):
        self._take(
            partition_recovery.BatchPlace(file_position, header, segment.marker_at(file_position, header)), indexes
        )
    return None


def _walk_headers(segment: Segment, indexes: SegmentIndexes) -> Iterator[Any]:
    """The batches as their headers tell, up to the first that is none."""
    try:
        yield from walk_headers(segment.file(), indexes.end, segment.size_bytes)
    except CorruptBatchError:
        return


BELIEF: Final = (
    Mutant(
        "batches past the recovery point are not proven", setter(_Recovery, "_walk_suspect", _walks_unverified), MANY
    ),
    Mutant(
        "indexes are believed without their checksum",
        wrapper(
            segment_indexes, "_bytes_and_crc", lambda original: lambda data, length: _SameAsAll(original(data, length))
        ),
        (flipping(".index"), flipping(".txnindex")),
    ),
    Mutant(
        "a snapshot is believed without its checksum",
        wrapper(producer_snapshot, "crc32c", _any_crc),
        (flipping(".snapshot"),),
    ),
    Mutant(
        "a checkpoint is believed without its checksum",
        setter(checkpoint_write, "decode_node_checkpoint", lambda data: _decode_unchecked(data)),
        (flipping("/mainstem-checkpoint"),),
    ),
    Mutant(
        "the offset index leads behind the offset",
        wrapper(OffsetIndex, "lookup", lambda original: lambda self, offset: original(self, offset + 3)),
    ),
    Mutant(
        "reads by time pass over segments with later records",
        wrapper(
            Segment, "may_have_timestamp", lambda original: lambda self, timestamp_ms: original(self, timestamp_ms + 60)
        ),
    ),
    Mutant(
        "retention by size takes one segment more",
        wrapper(Cleaning, "_expired_by_size", lambda original: lambda self: original(self) + 1),
    ),
    Mutant(
        "retention by time takes what is a minute old",
        wrapper(Cleaning, "_expired_by_time", lambda original: lambda self, now_ms: original(self, now_ms + 3_500_000)),
    ),
)


def _decode_unchecked(data: bytes | None) -> Any:
    if data is None:
        return None
    body = data[: -len("crc32c 00000000\n")]
    try:
        return node_checkpoint.decode_node_checkpoint(body + f"crc32c {node_checkpoint.crc32c(body):08x}\n".encode())
    except (ValueError, IndexError) as error:
        raise StorageError(str(error)) from error


MUTANTS: Final = (*TRANSACTIONS, *PRODUCERS, *DURABILITY, *BELIEF)


def find(mutant: Mutant, seeds: int) -> tuple[int, str] | None:
    """How many seeds it took to find the mutant, and by what; None when it survives them."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.patch(patch)
        for seed in range(seeds):
            for run in mutant.runs:
                try:
                    run(seed)
                except FOUND as error:
                    return seed, repr(error)
    return None
