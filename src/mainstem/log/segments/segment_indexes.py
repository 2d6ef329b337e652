"""The three indexes of one segment, kept up batch by batch, and their files.

``add`` is called for every batch in file order, by the append as by recovery and rebuilding, so that all three give the
same indexes. As in Kafka: an offset index entry is due when more than ``interval_bytes`` of log follow the last entry.
The time index gets an entry at the same moment, if the greatest timestamp has grown, and a last one when the segment is
closed. The transaction index gets one entry for each marker that aborts a transaction. For that the indexes know which
transactions are open at their end; those of a new segment begin with those of the segment before it.

Index files are as long as their entries; nothing is preallocated. They are not synced: a seal that does not match them
after a power cut costs a walk over the segment's headers, never an answer.

Invariant: all of it describes exactly the batches in [0, ``log_bytes``) of the ``.log``; between two of them lies
nothing, or damage. Owned by one segment.
"""

from __future__ import annotations

from pathlib import PurePath

from mainstem.durable_files import replace_file
from mainstem.errors import CorruptBatchError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import OFFSET_INDEX, SEAL, TIME_INDEX, TRANSACTION_INDEX, offset_file
from mainstem.log.files.small_files import read_file
from mainstem.log.segments import offset_index, time_index
from mainstem.log.segments.batch_scan import Start
from mainstem.log.segments.index_checksums import IndexChecksums, decode_seal, encode_seal
from mainstem.log.segments.offset_index import OffsetIndex
from mainstem.log.segments.time_index import TimeIndex
from mainstem.log.segments.transaction_index import ENTRY_BYTES as TRANSACTION_ENTRY_BYTES
from mainstem.log.segments.transaction_index import TransactionIndex
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.record.checksum import crc32c
from mainstem.record.constants import HEADER_BYTES, NO_TIMESTAMP, TRANSACTIONAL_BIT
from mainstem.record.header import BatchHeader, read_header, verify
from mainstem.record.reader import EndMarker


class _Written:
    """The part of an index that its file holds: bytes, and their checksum."""

    __slots__ = ("bytes", "crc")

    def __init__(self, count: int = 0, crc: int = 0) -> None:
        self.bytes = count
        self.crc = crc


class SegmentIndexes:
    """``end_offset`` comes after the last batch; the first batch with the greatest timestamp ends with its offset."""

    __slots__ = (
        "_interval_bytes",
        "_lost",
        "_offsets_written",
        "_times_written",
        "_transactions_written",
        "aborted",
        "base_offset",
        "bytes_since_entry",
        "end_offset",
        "last_batch_crc",
        "last_batch_position",
        "log_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "open_transactions",
        "times",
    )

    def __init__(
        self, base_offset: int, interval_bytes: int, open_transactions: OpenTransactions | None = None
    ) -> None:
        self.base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._lost = (0, 0)
        self._reset(open_transactions)

    def _reset(self, open_transactions: OpenTransactions | None = None) -> None:
        self.open_transactions = open_transactions.copy() if open_transactions is not None else OpenTransactions()
        self.aborted = TransactionIndex()
        self._transactions_written = _Written()
        self.offsets = OffsetIndex(self.base_offset)
        self.times = TimeIndex(self.base_offset)
        self._offsets_written = _Written()
        self._times_written = _Written()
        self.log_bytes = 0
        self.end_offset = self.base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.bytes_since_entry = 0
        self.last_batch_position = 0
        self.last_batch_crc = 0

    def add(self, header: BatchHeader, file_position: int, marker: EndMarker | None = None) -> None:
        """Take in the next batch, whose header carries its final offset; ``marker`` is what a control batch holds."""
        assert header.base_offset >= self.end_offset, "offsets rise"
        if file_position != self.log_bytes:
            assert file_position > self.log_bytes, "batches are indexed in file order"
            self.bytes_since_entry = self._interval_bytes + 1  # damage was passed over: an entry right after it
        last_offset = header.last_offset
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_entry > self._interval_bytes:
            self.offsets.append(last_offset, file_position)
            self.times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        if header.attributes & TRANSACTIONAL_BIT:
            self._add_transactional(header, marker)
        size = header.size_bytes
        self.bytes_since_entry += size
        self.last_batch_position = file_position
        self.last_batch_crc = header.crc
        self.log_bytes = file_position + size
        self.end_offset = last_offset + 1

    def _add_transactional(self, header: BatchHeader, marker: EndMarker | None) -> None:
        ended = self.open_transactions.update(header, marker)
        if ended is not None and ended.is_aborted:
            first_open = self.open_transactions.first_offset
            self.aborted.append(ended, header.next_offset if first_open is None else first_open)

    def can_hold(self, batches: int, last_offset: int, index_bytes_max: int) -> bool:
        """Whether the indexes have room for ``batches`` more, up to ``last_offset``.

        ``index_bytes_max`` is ``segment.index.bytes``; one entry of the time index is kept for the end.
        """
        if last_offset - self.base_offset > offset_index.RELATIVE_OFFSET_MAX:
            return False
        if self.bytes_since_entry <= self._interval_bytes and batches == 1:
            return True
        return (
            len(self.offsets) + batches <= index_bytes_max // offset_index.ENTRY_BYTES
            and len(self.times) + batches < index_bytes_max // time_index.ENTRY_BYTES
        )

    def known_before(self, file_position: int) -> tuple[Start, tuple[int, int]]:
        """Of the last entry's batch that ends before a batch end: its start, and the greatest timestamp up to it."""
        start = self.offsets.start_before(file_position)
        if start is None or start.last_offset is None:
            return Start(0, self.base_offset), (NO_TIMESTAMP, self.base_offset)
        return start, self.times.last_until(start.last_offset) or (NO_TIMESTAMP, self.base_offset)

    @property
    def end(self) -> Start:
        """Where the next batch begins."""
        return Start(self.log_bytes, self.end_offset)

    def bound_after(self, file_position: int) -> int:
        """An offset that no batch before ``file_position`` reaches, and not much more."""
        return min(self.offsets.bound_after(file_position) or self.end_offset, self.end_offset)

    def rewind(self, file: DiskFile, offset: int) -> None:
        """Go back to some batch end at or before ``offset``; the caller walks the batches after it again.

        The caller also gives ``open_transactions`` at that place, because the indexes do not contain them.
        """
        entry = self.offsets.truncate(offset)
        if entry is None:
            self._reset()
            return
        last_offset, file_position = entry
        try:
            header = read_header(file.read(file_position, HEADER_BYTES))
        except CorruptBatchError:
            self._reset()  # the walk from the start will find the damage, and say where it is
            return
        if header.last_offset != last_offset:
            self._reset()
            return
        self.aborted.truncate(last_offset + 1)
        greatest = self.times.truncate(last_offset) or (NO_TIMESTAMP, self.base_offset)
        self.max_timestamp_ms, self.max_timestamp_offset = greatest
        self.bytes_since_entry = header.size_bytes
        self.last_batch_position = file_position
        self.last_batch_crc = header.crc
        self.log_bytes = file_position + header.size_bytes
        self.end_offset = last_offset + 1
        self._forget_written()

    def restore_transactions(self, disk: Disk, directory: PurePath, seal: IndexChecksums, log: DiskFile) -> bool:
        """Take from the files the state of the transactions at the end of ``index_checksums``; whether they say so.

        For a log whose markers may be damaged. The batches up to there must have been added, and none after.
        """
        aborted = None if _is_refuted(seal, log) else _read_aborted(disk, directory, seal)
        if aborted is None:
            return False
        self.aborted = aborted
        self._transactions_written = _Written()
        self.open_transactions = OpenTransactions(seal.open_transactions)
        return True

    def _forget_written(self) -> None:
        """Count as written only what the indexes still hold."""
        self._offsets_written = _Written(*_bytes_and_crc(self.offsets.encode(), self._offsets_written.bytes))
        self._times_written = _Written(*_bytes_and_crc(self.times.encode(), self._times_written.bytes))
        self._transactions_written = _Written(*_bytes_and_crc(self.aborted.encode(), self._transactions_written.bytes))

    def mark_lost(self, lost_until: int, file_bytes: int) -> None:
        """Let the seal say that the segment once reached to ``lost_until``, past its file's end."""
        self._lost = (file_bytes + 1, lost_until)

    def close(self) -> None:
        """Give the time index its last entry, as Kafka does when a segment is rolled or its log closed."""
        self.times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)

    def write(self, disk: Disk, directory: PurePath, durable_offset: int, *, sync: bool = False) -> None:
        """Bring the index files up to date, then the seal, which says that all before ``durable_offset`` is synced.

        With ``sync`` the seal is synced itself: where it may replace one that was, and that recovery relies on.
        """
        tail = self.offsets.encode(self._offsets_written.bytes // offset_index.ENTRY_BYTES)
        _append(disk, directory / offset_file(self.base_offset, OFFSET_INDEX), tail, self._offsets_written)
        tail = self.times.encode(self._times_written.bytes // time_index.ENTRY_BYTES)
        _append(disk, directory / offset_file(self.base_offset, TIME_INDEX), tail, self._times_written)
        tail = self.aborted.encode(self._transactions_written.bytes // TRANSACTION_ENTRY_BYTES)
        path = directory / offset_file(self.base_offset, TRANSACTION_INDEX)
        if len(self.aborted):
            _append(disk, path, tail, self._transactions_written)
        else:
            disk.remove(path)
        replace_file(
            disk, directory / offset_file(self.base_offset, SEAL), encode_seal(self.seal(durable_offset)), sync=sync
        )

    def encode(self, durable_offset: int) -> dict[str, bytes]:
        """The content of each index file, and of the seal, of a segment that is written as a whole."""
        self.close()
        offsets, times, transactions = self.offsets.encode(), self.times.encode(), self.aborted.encode()
        self._offsets_written = _Written(*_bytes_and_crc(offsets, len(offsets)))
        self._times_written = _Written(*_bytes_and_crc(times, len(times)))
        self._transactions_written = _Written(*_bytes_and_crc(transactions, len(transactions)))
        contents = {OFFSET_INDEX: offsets, TIME_INDEX: times, SEAL: encode_seal(self.seal(durable_offset))}
        return {**contents, TRANSACTION_INDEX: transactions} if transactions else contents

    def seal(self, durable_offset: int) -> IndexChecksums:
        """The seal of what ``write`` has written. One that claims more bytes than there are marks a lost end."""
        return IndexChecksums(
            self.base_offset,
            durable_offset,
            self._lost[0] or self.log_bytes,
            self._lost[1] or self.end_offset,
            self.last_batch_position,
            self.last_batch_crc,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            self.bytes_since_entry,
            self._offsets_written.bytes,
            self._offsets_written.crc,
            self._times_written.bytes,
            self._times_written.crc,
            self._transactions_written.bytes,
            self._transactions_written.crc,
            self.open_transactions.entries(),
        )

    @classmethod
    def read(
        cls, disk: Disk, directory: PurePath, seal: IndexChecksums, interval_bytes: int, log: DiskFile | None
    ) -> SegmentIndexes | None:
        """Load the index files, if the seal confirms them and this ``log``, where one is given; else None."""
        if log is not None and not _is_of(seal, log):
            return None
        base_offset = seal.base_offset
        offsets = read_file(disk, directory / offset_file(base_offset, OFFSET_INDEX)) or b""
        times = read_file(disk, directory / offset_file(base_offset, TIME_INDEX)) or b""
        if _bytes_and_crc(offsets, seal.offset_index_bytes) != (seal.offset_index_bytes, seal.offset_index_crc):
            return None
        if _bytes_and_crc(times, seal.time_index_bytes) != (seal.time_index_bytes, seal.time_index_crc):
            return None
        aborted = _read_aborted(disk, directory, seal)
        if aborted is None:
            return None
        indexes = cls(base_offset, interval_bytes, OpenTransactions(seal.open_transactions))
        indexes.aborted = aborted
        indexes._transactions_written = _Written(seal.transaction_index_bytes, seal.transaction_index_crc)
        indexes.offsets = OffsetIndex.decode(base_offset, offsets[: seal.offset_index_bytes])
        indexes.times = TimeIndex.decode(base_offset, times[: seal.time_index_bytes])
        indexes._offsets_written = _Written(seal.offset_index_bytes, seal.offset_index_crc)
        indexes._times_written = _Written(seal.time_index_bytes, seal.time_index_crc)
        indexes.log_bytes = seal.log_bytes
        indexes.end_offset = seal.end_offset
        indexes.last_batch_position = seal.last_batch_position
        indexes.last_batch_crc = seal.last_batch_crc
        indexes.max_timestamp_ms = seal.max_timestamp_ms
        indexes.max_timestamp_offset = seal.max_timestamp_offset
        indexes.bytes_since_entry = seal.bytes_since_entry
        return indexes


def read_seal(disk: Disk, directory: PurePath, base_offset: int) -> IndexChecksums | None:
    """The segment's seal; None when there is none that is whole."""
    seal = decode_seal(read_file(disk, directory / offset_file(base_offset, SEAL)))
    return seal if seal is not None and seal.base_offset == base_offset else None


def _read_aborted(disk: Disk, directory: PurePath, seal: IndexChecksums) -> TransactionIndex | None:
    """The aborted transactions of the segment, if the seal vouches for their file; else None."""
    data = b""
    if seal.transaction_index_bytes:
        data = read_file(disk, directory / offset_file(seal.base_offset, TRANSACTION_INDEX)) or b""
    if _bytes_and_crc(data, seal.transaction_index_bytes) != (seal.transaction_index_bytes, seal.transaction_index_crc):
        return None
    return TransactionIndex.decode(data[: seal.transaction_index_bytes])


def _is_refuted(seal: IndexChecksums, log: DiskFile) -> bool:
    """Whether ``log`` holds another batch, whole and proven, where the seal's last one should be."""
    try:
        header = read_header(log.read(seal.last_batch_position, HEADER_BYTES))
        verify(log.read(seal.last_batch_position, header.size_bytes), 0, header)
    except CorruptBatchError:
        return False
    return seal.log_bytes > 0 and header.crc != seal.last_batch_crc


def _is_of(seal: IndexChecksums, log: DiskFile) -> bool:
    """Whether the last batch that the seal covers is in ``log`` where it should be."""
    if seal.log_bytes == 0:
        return True
    try:
        header = read_header(log.read(seal.last_batch_position, HEADER_BYTES))
    except CorruptBatchError:
        return False
    end = (seal.last_batch_position + header.size_bytes, header.next_offset, header.crc)
    return end == (seal.log_bytes, seal.end_offset, seal.last_batch_crc)


def _bytes_and_crc(data: bytes, length: int) -> tuple[int, int]:
    """Length and checksum of the first ``length`` bytes, or of as many as there are."""
    prefix = data[:length]
    return len(prefix), crc32c(prefix)


def _append(disk: Disk, path: PurePath, tail: bytes, written: _Written) -> None:
    """Write ``tail`` after what is ``written`` and let the file end there, whatever it held before."""
    file = disk.open(path) if disk.exists(path) else disk.create(path)
    try:
        if file.size_bytes() != written.bytes:
            file.truncate(written.bytes)
        if tail:
            file.write(written.bytes, [tail])
    finally:
        file.close()
    written.bytes += len(tail)
    written.crc = crc32c(tail, written.crc)
