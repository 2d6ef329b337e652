"""Whether a transaction that has ended was committed or aborted, found out from one of its records.

The sink needs it when the log refuses to end a decided transaction: either the transaction was committed before and its
producer has gone on, or the log has aborted it after its time-out.

1. Below the partition's last stable offset every transaction has ended. A read_committed fetch at the record then names
   each aborted transaction that the record may belong to.
2. From the last stable offset on, such a fetch names no aborted transaction, because an earlier transaction is still
   open. There the markers decide: the first one of the producer after the record ends its transaction. They are read
   with isolation level read_uncommitted. Compaction does not reach these offsets, so the marker is still there.
3. Without a marker the transaction has not ended in this partition: its coordinator is still writing the markers. The
   caller waits.

Functions over a ``WireClient``, whose contract they have; called from one thread at a time.
"""

from __future__ import annotations

import time
from typing import Final

from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.cluster.stored_records import fetch_loaded
from mainstem.client.wire.connection.deadline import Deadline, pauses_s
from mainstem.clock import SystemClock
from mainstem.errors import LogUnavailableError, UnknownTopicError
from mainstem.record.constants import ControlType
from mainstem.record.header import iter_headers
from mainstem.record.reader import read_end_marker
from mainstem.spark.sink.sink_commits import DecidedTransaction

_ONE_BATCH: Final = 1
_SCAN_BYTES: Final = 8 << 20


def is_aborted(client: WireClient, transaction: DecidedTransaction) -> bool:
    """Whether the log has aborted a transaction that it refuses to end. Waits for its marker for up to ``timeout_s``.

    False also when retention or a deleted topic has removed the record: no reader can see it then.
    Raises LogUnavailableError when the transaction has not ended in time, and what a fetch raises.
    """
    tp, offset = transaction.witness, transaction.witness_offset
    try:
        if offset < client.list_offsets([tp], EARLIEST).get(tp, 0):
            return False
        fetched = _fetch(client, transaction, offset, _ONE_BATCH, read_committed=True)
        if offset < fetched.last_stable_offset:
            producer_id = transaction.instance.producer_id
            aborted = fetched.aborted_transactions
            return any(each.producer_id == producer_id and each.first_offset <= offset for each in aborted)
        return _marker(client, transaction) is ControlType.ABORT
    except UnknownTopicError:
        return False


def _marker(client: WireClient, transaction: DecidedTransaction) -> ControlType:
    """The marker that ends the transaction. Waits until the partition has had no new batch for ``timeout_s``."""
    offset = transaction.witness_offset
    deadline, pauses = Deadline(SystemClock(), client.timeout_s), pauses_s()
    while True:
        fetched = _fetch(client, transaction, offset, _SCAN_BYTES, read_committed=False)
        found, next_offset = _marker_in(fetched, transaction, offset)
        if found is not None:
            return found
        if next_offset > offset:
            offset, deadline, pauses = next_offset, Deadline(SystemClock(), client.timeout_s), pauses_s()
            continue
        pause_s = next(pauses)
        if deadline.left_s() <= pause_s:
            raise LogUnavailableError(
                f"the transaction of {transaction.instance.transactional_id!r} has no marker in {transaction.witness} "
                f"up to offset {offset} after {client.timeout_s:g} s, so its outcome is not known yet: check "
                "that its coordinator is up, and start the query again"
            )
        time.sleep(pause_s)


def _marker_in(
    fetched: FetchedPartition, transaction: DecidedTransaction, offset: int
) -> tuple[ControlType | None, int]:
    """The first marker of the transaction's producer after its record, and where the fetched batches end."""
    producer_id = transaction.instance.producer_id
    for file_position, header in iter_headers(fetched.records):
        offset = max(offset, header.next_offset)
        if not header.is_control or header.producer_id != producer_id:
            continue
        if header.base_offset > transaction.witness_offset:
            end = read_end_marker(fetched.records[file_position : file_position + header.size_bytes])
            if end is not None:
                return end.control_type, offset
    return None, offset


def _fetch(
    client: WireClient, transaction: DecidedTransaction, offset: int, size_bytes: int, *, read_committed: bool
) -> FetchedPartition:
    fetched = fetch_loaded(client, transaction.witness, offset, size_bytes, read_committed=read_committed)
    if fetched.error is not None:
        raise fetched.error
    return fetched
