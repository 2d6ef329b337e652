"""Reading one key's records: by the log's key index where there is one, else by a scan of the key's partition.

The index says where records of the key may be; they are fetched and compared all the same, so an index that says too
much costs time and nothing else. Both ways return the same records, transactions and compaction included.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final
from uuid import UUID

from mainstem.client.failures import error_of
from mainstem.client.read.reader import BoundedReader
from mainstem.client.read.start import Offsets, TopicIds
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.pool import Pool
from mainstem.errors import RemoteError
from mainstem.model import OnDamaged, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_key_offsets import ListKeyOffsetsRequest, ListKeyOffsetsResponse
from mainstem.protocol.schema import ZERO_UUID
from mainstem.record.constants import INT64_MAX

_PAGE: Final = 1_000
_NEARBY_BYTES: Final = 16 * 1024
"""How much is fetched at once by offset: the batch that holds it, and what lies right after."""
_NO_INDEX: Final = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.OFFSET_NOT_AVAILABLE})


class KeyOffsets:
    """The offsets of one key in a partition, asked for page by page."""

    def __init__(self, pool: Pool[WireClient], tp: TopicPartition, key: bytes) -> None:
        self.last_offset = -1
        self.is_being_built = False
        self._pool = pool
        self._tp = tp
        self._key = key
        self._page: list[int] = []
        self._page_start = INT64_MAX
        self._asked_to = -1
        self._ends = False

    def open(self, start: int, end: int) -> str | None:
        """Ask for the first page; why there is no index to ask, or None."""
        try:
            answer = self._ask(start, end)
        except RemoteError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                return "this log knows no key index"
            raise
        if answer.error_code in _NO_INDEX:
            self.is_being_built = answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            return answer.error_message or "the topic has no key index"
        self._take(answer, start)
        return None

    def between(self, start: int, end: int) -> KeyOffsets | None:
        """The offsets from ``start`` to ``end - 1``, when the last page or ``last_offset`` says them; else None.

        ``end`` lies in the range that was asked for.
        """
        first, stop = bisect_left(self._page, start), bisect_left(self._page, end)
        if start >= self._page_start and (self._ends or stop < len(self._page)):
            offsets = self._page[first:stop]
        elif (start, end) == (self.last_offset, self.last_offset + 1):
            offsets = [start]
        else:
            return None
        part = KeyOffsets(self._pool, self._tp, self._key)
        part.last_offset, part._page, part._page_start, part._ends = self.last_offset, offsets, start, True
        return part

    def are_only(self, offset: int) -> bool:
        """Whether ``offset`` is the only one, as far as is known without another request."""
        return self._ends and self._page == [offset]

    def next_from(self, offset: int, end: int) -> int:
        """The first offset at or after ``offset`` where the key may have a record; ``end`` when there is none."""
        while True:
            if self._ends or (self._page and offset <= self._page[-1]):
                return min(self.known_from(offset), end)
            start = max(offset, self._asked_to)
            self._take(self._ask(start, end), start)

    def known_from(self, offset: int) -> int:
        """The first offset at or after ``offset`` where the key may have a record, as far as the pages so far say."""
        at = bisect_left(self._page, offset)
        if at < len(self._page):
            return self._page[at]
        return INT64_MAX if self._ends else offset

    def _take(self, answer: ListKeyOffsetsResponse, start: int) -> None:
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, f"{self._tp} cannot be read by key", answer.error_message)
        self._page, self._page_start = list(answer.offsets), start
        self._ends = len(answer.offsets) < _PAGE
        if answer.offsets:
            self._asked_to = answer.offsets[-1] + 1
        self.last_offset = answer.last_offset

    def _ask(self, start: int, end: int) -> ListKeyOffsetsResponse:
        request = ListKeyOffsetsRequest(
            topic=self._tp.topic,
            partition=self._tp.partition,
            key=self._key,
            start_offset=start,
            end_offset=end,
            max_offsets=_PAGE,
        )
        with self._pool.borrow() as client:
            # Any broker: only Mainstem has the index, and it is one node.
            answer: ListKeyOffsetsResponse = client.request(request, resends=True)
        return answer


class KeyReader(BoundedReader):
    """The records of one key between two offsets of its partition."""

    def __init__(
        self,
        pool: Pool[WireClient],
        start: Offsets,
        end: Offsets,
        *,
        key: bytes,
        limit: int | None = None,
        on_damaged: OnDamaged = "stop",
        offsets: KeyOffsets | None = None,
        topic_ids: TopicIds | None = None,
    ) -> None:
        """``start`` and ``end`` name the one partition; ``offsets``: the key's between them, if known."""
        super().__init__(pool, start, end, key=key, limit=limit, on_damaged=on_damaged, topic_ids=topic_ids)
        [self._tp] = start
        self._offsets = offsets or KeyOffsets(pool, self._tp, key)
        self._scan_reason = None if offsets else self._offsets.open(start[self._tp], end[self._tp])
        if self._scan_reason is None:
            self._chunks.wanted = self._offsets.known_from

    @property
    def scan_reason(self) -> str | None:
        """Why the partition is scanned from start to end; None when the log's key index leads to the records."""
        return self._scan_reason

    @property
    def is_index_being_built(self) -> bool:
        """Whether the log is building the key index, so that a later reader may have it; see ``scan_reason``."""
        return self._offsets.is_being_built

    @property
    def last_offset(self) -> int | None:
        """The offset of the key's last record when the reader began, -1 without any; None when there is no index.

        What a conditional append has to expect: tombstones count, and records of transactions, even aborted ones.
        """
        return None if self._scan_reason is not None else self._offsets.last_offset

    def between(self, start: int, end: int) -> KeyReader:
        """Another reader of this key, up to where this one ends.

        The log is not asked again where the partition ends, nor for offsets that it has given already.
        """
        end = min(end, self._end[self._tp])
        start = min(start, end)
        assert self._key is not None
        offsets = self._offsets.between(start, end) if self._scan_reason is None else None
        return KeyReader(
            self._pool,
            {self._tp: start},
            {self._tp: end},
            key=self._key,
            offsets=offsets,
            topic_ids=self._topic_ids,
        )

    @property
    def topic_id(self) -> UUID:
        """The id of the topic that is read; zeros where it has none."""
        return self._topic_ids.get(self._tp.topic, ZERO_UUID)

    def has_only(self, offset: int) -> bool:
        """Whether the index says, without another request, that the key has its one record here at ``offset``."""
        return self._scan_reason is None and self._offsets.are_only(offset)

    def _wanted(self) -> Offsets:
        wanted = super()._wanted()
        if self._scan_reason is None and wanted:
            end = self._end[self._tp]
            self._chunks.skip_to(self._tp, self._offsets.next_from(wanted[self._tp], end))
            wanted = super()._wanted()
        return wanted

    def _partition_bytes(self) -> int:
        return super()._partition_bytes() if self._scan_reason is not None else _NEARBY_BYTES
