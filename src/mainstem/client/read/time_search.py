"""Where a time is in a partition: its first record that a reader sees and whose timestamp is that time or later.

ListOffsets answers with the first entry of the log whose timestamp is late enough, as Kafka does
(``FileRecords.searchForTimestamp``). That may be a transaction's marker, which has the coordinator's clock, or a record
of a transaction that was aborted: neither is a record that a reader sees. So its answer is where the search begins:
batches are fetched from there, and only those whose header says that they may hold the record are decoded.

Records after the first one may have earlier timestamps: writers choose them. In a topic whose records are older than
the markers between them, the search reads on to the first record that is late enough, or to the end.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.client.read.decoding import Chunk
from mainstem.client.wire.cluster.cluster import EARLIEST, Isolation, WireClient
from mainstem.client.wire.cluster.stored_records import is_in_store
from mainstem.errors import CorruptBatchError, DamagedRecordsError, LogUnavailableError
from mainstem.model import OnDamaged, TopicPartition

_WAIT_MS: Final = 500
_FIRST_BYTES: Final = 16 * 1024
_FETCH_BYTES: Final = 4 * 1024 * 1024
_EMPTY_FETCHES_MAX: Final = 20


def first_records_at(
    client: WireClient,
    ends: Mapping[TopicPartition, int],
    time_ms: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
    on_damaged: OnDamaged = "stop",
) -> dict[TopicPartition, int]:
    """The offset of each partition's first record before its end whose timestamp is at least ``time_ms``.

    A partition without one is not in the answer. With ``on_damaged="skip"`` the search goes on after records that
    cannot be read. Raises UnknownTopicError, DamagedRecordsError, LogUnavailableError.
    """
    try:
        begins = client.list_offsets(ends, time_ms, isolation) if ends else {}
    except CorruptBatchError:  # the log's own search has met the damage, and does not say where
        if on_damaged == "stop":
            raise
        begins = client.list_offsets(ends, EARLIEST)
    return first_records(client, begins, ends, time_ms, isolation, on_damaged)


def first_records(
    client: WireClient,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    time_ms: int | None = None,
    isolation: Isolation = Isolation.READ_COMMITTED,
    on_damaged: OnDamaged = "stop",
) -> dict[TopicPartition, int]:
    """The same between two offsets of each partition; without ``time_ms``, the first record of any time."""
    left = {tp: offset for tp, offset in begins.items() if offset < ends[tp]}
    found: dict[TopicPartition, int] = {}
    empty, fetch_bytes = 0, _FIRST_BYTES
    while left:
        before = dict(left)
        fetched = client.fetch(
            before,
            max_wait_ms=_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            partition_max_bytes=fetch_bytes,
            read_committed=isolation is Isolation.READ_COMMITTED,
        )
        for tp, part in fetched.items():
            try:
                if part.error is not None and not part.heals:
                    raise part.error
                chunk = Chunk(tp, part, left.pop(tp), ends[tp], since_ms=time_ms)
                first = next((each for each in chunk if time_ms is None or each.timestamp_ms >= time_ms), None)
                if first is not None:
                    found[tp] = first.offset
                    continue
                next_offset = chunk.next_offset
            except DamagedRecordsError as damage:
                if on_damaged == "stop" or damage.last_offset is None:
                    raise
                left.pop(tp, None)
                next_offset = damage.last_offset + 1
            if next_offset < ends[tp]:
                left[tp] = next_offset
        empty = empty + 1 if left == before else 0
        if empty == _EMPTY_FETCHES_MAX:
            if any(is_in_store(client, tp, offset) for tp, offset in left.items()):
                empty = 0  # the log loads it; should its store fail, it says so
                continue
            tp, offset = next(iter(left.items()))
            raise LogUnavailableError(f"{tp} has no records from offset {offset} on, though it once reached {ends[tp]}")
        fetch_bytes = _FETCH_BYTES
    return found
