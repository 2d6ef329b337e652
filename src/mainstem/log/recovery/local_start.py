"""Finds the transactions and producers of where the local segments begin: nothing before it is on the disk.

A release leaves a synced snapshot of exactly this offset, and the seal of each segment says which transactions are open
at its end. So there is mostly nothing to do; without them an error says what is lost. Functions over the disk port.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final
from uuid import UUID

from mainstem.durable_files import replace_file
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import SEAL, SNAPSHOT, offset_file
from mainstem.log.partition.producer_snapshot import encode_snapshot, find_snapshot
from mainstem.log.partition.producer_state import ProducerEntry, ProducerState
from mainstem.log.segments.segment import Segment
from mainstem.log.segments.segment_indexes import read_seal
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger(__name__)


def open_at(
    disk: Disk, stored: Sequence[Segment], first: Segment, name: TopicPartition, topic_id: UUID
) -> OpenTransactions:
    """The transactions that are open where ``first``, the first local segment, begins after the ``stored`` ones.

    From the last seal, else from the snapshot there, else from the newest seal that is left: readers of committed
    records then wait for what may have ended since. Where the last seal says it, ``first`` follows that segment.
    """
    last = stored[-1]
    seal = read_seal(disk, last.directory, last.base_offset)
    if seal is not None:
        first.previous = last
        return OpenTransactions(seal.open_transactions)
    at = (first.base_offset, first.base_offset)
    state = find_snapshot(disk, first.directory, at, topic_id, name.partition)
    if state is not None:
        return state.open_transactions.copy()
    seals = (read_seal(disk, each.directory, each.base_offset) for each in reversed(stored[:-1]))
    seal = next((each for each in seals if each is not None), None)
    _LOG.error(
        "%s: %s is lost: a transaction that began after offset %d and was open at offset %d counts from its first "
        "record after that; those that were open before hold the last stable offset. If a coordinator does not end "
        "them, end them with kafka-transactions.sh abort",
        name,
        last.path(SEAL),
        stored[0].base_offset if seal is None else seal.end_offset,
        first.base_offset,
    )
    return OpenTransactions(() if seal is None else seal.open_transactions)


def producers_without_snapshot(
    disk: Disk, first: Segment, open_transactions: OpenTransactions, name: TopicPartition, topic_id: UUID
) -> ProducerState:
    """The producers where ``first`` begins, without a snapshot: those that have a transaction open, and no other.

    They are written durably: the next start needs them, too. Raises StorageError.
    """
    path: PurePath = first.directory / offset_file(first.base_offset, SNAPSHOT)
    _LOG.error(
        "%s: %s is lost or damaged: it has the producers of the records before, which are in the backup's store alone. "
        "A batch before offset %d that an idempotent producer sends again is appended twice: restart such "
        "producers. The %d transactions that are open there are known from the segment's seal",
        name,
        path,
        first.base_offset,
        len(open_transactions),
    )
    entries = [ProducerEntry(producer_id) for producer_id, _ in open_transactions.entries()]
    state = ProducerState(entries, first.base_offset)
    state.restore_transactions(open_transactions)
    write_base_snapshot(disk, first, state, name, topic_id, sync=True)
    return state


def write_base_snapshot(
    disk: Disk, segment: Segment, state: ProducerState, name: TopicPartition, topic_id: UUID, *, sync: bool = False
) -> None:
    """Write the producers of where a segment begins, as a roll does: it may become the first local one.

    Nothing is left between what ``state`` has seen and this place. Raises StorageError.
    """
    state.end_offset = segment.base_offset
    data = encode_snapshot(state, topic_id, name.partition)
    replace_file(disk, segment.directory / offset_file(segment.base_offset, SNAPSHOT), data, sync=sync)
