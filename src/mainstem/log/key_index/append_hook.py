"""The hook of a topic's log features in ``PartitionLog.append``.

The guarantees depend on this order within an append:

1. ``scan`` reads the batches; it writes nothing.
2. ``find_duplicate``: was this append made before, by its idempotency keys?
3. Is it a repeat of the producer's, by sequence? May the producer write?
4. ``check``: do the conditions hold?
5. The log is written; then ``on_appended`` writes the index.

The log process does one append at a time, so no other append comes in between: of two appends with the same condition
one is refused.

Concurrency: owned by the thread that owns the partition log; ``scan`` may run in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mainstem.errors import InvalidRecordError
from mainstem.log.key_index.conditions import check_conditions
from mainstem.log.key_index.idempotency import earlier_offset
from mainstem.log.key_index.key_entries import IndexedBatch
from mainstem.log.key_index.key_index import KeyIndex
from mainstem.log.partition.config import LogConfig
from mainstem.record.append_headers import (
    EXPECT_END,
    EXPECT_KEY_OFFSET,
    IDEMPOTENCY_KEY,
    PREFIX,
    AppendMarks,
    read_marks,
)
from mainstem.record.constants import Buffer
from mainstem.record.header import BatchHeader
from mainstem.record.key_scan import ScannedKey, scan_headers, scan_keys


class ScannedAppend(NamedTuple):
    """The result of scanning an append: marks by the records' index, and for each batch its keys, if needed."""

    marks: dict[int, AppendMarks]
    keys: list[list[ScannedKey]]
    record_count: int


class DuplicateAppend(NamedTuple):
    """The records that an append repeats."""

    base_offset: int
    last_offset: int


class AppendFeatures:
    """The features of one partition, as its topic's configs say. ``index`` is None for a topic that needs none."""

    def __init__(self, config: LogConfig, index: KeyIndex | None) -> None:
        self.index = index
        self._keeps_keys = config.mainstem_key_index
        self._enabled_headers: set[str] = set()
        if config.mainstem_conditional_append:
            self._enabled_headers |= {EXPECT_KEY_OFFSET, EXPECT_END}
        if config.remembers_idempotency_keys:
            self._enabled_headers.add(IDEMPOTENCY_KEY)

    def scan(self, headers: Sequence[BatchHeader], plain: Sequence[Buffer]) -> ScannedAppend:
        """Read what the features need from checked batches, whose decompressed records are ``plain``. In any thread.

        Raises CorruptBatchError, InvalidRecordError.
        """
        marks: dict[int, AppendMarks] = {}
        records = [(header, bytes(each)) for header, each in zip(headers, plain, strict=True)]
        count = 0
        for header, data in records:
            if self._enabled_headers:
                found = read_marks(scan_headers(header, data, PREFIX), self._enabled_headers, count)
                if found and header.is_transactional:
                    raise _in_transaction(found)
                marks.update(found)
            count += header.record_count
        keys = [scan_keys(*each) for each in records] if marks or self._keeps_keys else []
        return ScannedAppend(marks, keys, count)

    def find_duplicate(self, scanned: ScannedAppend) -> DuplicateAppend | None:
        """The records that were appended before under the same idempotency keys.

        Raises InvalidRecordError when that is so for some of them only, IndexNotReadyError.
        """
        if not scanned.marks or IDEMPOTENCY_KEY not in self._enabled_headers:
            return None
        assert self.index is not None, "who remembers idempotency keys has an index"
        base_offset = earlier_offset(scanned.marks, scanned.record_count, self.index.remembered_offset)
        return None if base_offset is None else DuplicateAppend(base_offset, base_offset + scanned.record_count - 1)

    def check(self, scanned: ScannedAppend, log_end_offset: int) -> None:
        """Prove that the conditions hold at the log end.

        Raises ConditionFailedError, InvalidRecordError, IndexNotReadyError.
        """
        if scanned.marks:
            keys = [key for batch in scanned.keys for _, key in batch]
            last_offset = self.index.last_offset if self.index is not None and self._keeps_keys else None
            check_conditions(scanned.marks, keys, log_end_offset, last_offset)

    def on_appended(
        self, scanned: ScannedAppend, sent: Sequence[BatchHeader], base_offset: int, leader_epoch: int
    ) -> None:
        """The batches are in the log, from ``base_offset`` on."""
        if self.index is None:
            return
        batches, first = [], 0
        for at, header in enumerate(sent):
            end = first + header.record_count
            idempotency_keys = [
                (index - first, mark.idempotency_key)
                for index, mark in scanned.marks.items()
                if mark.idempotency_key is not None and first <= index < end
            ]
            keys = scanned.keys[at] if scanned.keys else ()
            batches.append(IndexedBatch(base_offset + first, leader_epoch, keys, idempotency_keys))
            first = end
        self.index.appended(batches)


def _in_transaction(marks: Mapping[int, AppendMarks]) -> InvalidRecordError:
    text = "conditions and idempotency keys are not for transactions"
    return InvalidRecordError(text, records=dict.fromkeys(marks, text))
