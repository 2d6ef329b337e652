"""From a fetch's bytes to records: what a reader of committed records sees, and how far it then is.

Control batches (transaction markers), the records of aborted transactions and records before the wanted offset are left
out; the position goes past them. Every batch's checksum is proven. Pure functions over the caller's buffer; records are
copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.client.wire.cluster.damage import damage_at
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.errors import CorruptBatchError
from mainstem.model import Record, TopicPartition
from mainstem.record.constants import INT64_MAX
from mainstem.record.header import BatchHeader, iter_headers, verify
from mainstem.record.reader import AbortedRecords, Wanted, read_records


class Chunk:
    """The records of one fetched partition from ``start`` to before ``end``, to be iterated over once.

    ``next_offset`` is where to go on after the records that have been taken: at the end of the iteration it is past
    everything that the fetch returned, markers and gaps included, but never past ``end``. With ``since_ms``, batches in
    which every record is earlier are passed over.
    """

    def __init__(
        self,
        tp: TopicPartition,
        fetched: FetchedPartition,
        start: int,
        end: int | None = None,
        *,
        since_ms: int | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """``wanted``: from an offset, the next one whose record matters. Others may be left out."""
        self.topic_partition = tp
        self.next_offset = start
        self._fetched = fetched
        self._records = fetched.records
        self._end = end
        self._since_ms = since_ms
        self._wanted = wanted
        self._aborted = AbortedRecords(fetched.aborted_transactions)

    def __iter__(self) -> Iterator[Record]:
        """Raises DamagedRecordsError, which names the offsets that cannot be read."""
        try:
            yield from self._all()
        except CorruptBatchError as error:
            raise damage_at(self.topic_partition, self._fetched, self.next_offset, error) from error

    def _all(self) -> Iterator[Record]:
        for file_position, header in iter_headers(self._records):
            if header.next_offset <= self.next_offset:
                continue
            if self._end is not None and header.base_offset >= self._end:
                self.next_offset = self._end
                return
            yield from self._of_batch(file_position, header)
            self.next_offset = header.next_offset if self._end is None else min(header.next_offset, self._end)

    def _of_batch(self, file_position: int, header: BatchHeader) -> Iterator[Record]:
        verify(self._records, file_position, header)
        batch = self._records[file_position : file_position + header.size_bytes]
        if header.is_control:
            self._aborted.pass_marker(header, batch)
            return
        if self._aborted.holds(header) or (self._since_ms is not None and header.max_timestamp < self._since_ms):
            return
        topic, partition = self.topic_partition.topic, self.topic_partition.partition
        start, end = self.next_offset, self._end
        is_part = (
            self._wanted is not None or start > header.base_offset or (end is not None and end <= header.last_offset)
        )
        wanted = self._next_wanted if is_part else None
        for offset, timestamp_ms, key, value, headers in read_records(batch, wanted=wanted):
            if offset < start:
                continue
            if end is not None and offset >= end:
                return
            self.next_offset = offset + 1
            yield Record(topic, partition, offset, timestamp_ms, key, value, headers)

    def _next_wanted(self, offset: int) -> int:
        offset = max(offset, self.next_offset)
        if self._wanted is not None:
            offset = self._wanted(offset)
        return offset if self._end is None or offset < self._end else INT64_MAX
