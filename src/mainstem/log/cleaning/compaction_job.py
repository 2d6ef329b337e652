"""The compaction jobs that a log's owner sends to a worker, and the worker's answers: values, and their text on a pipe.

A job names segments that do not change any more, oldest first, from the log start to ``end_offset``. The worker answers
with a line for each new segment that it has written and synced, in order, and then with a line for the whole job.

Pure data, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

CLEANED = ".cleaned"
"""Suffix of a file that a worker writes. Without an owner that takes it, it is removed."""
SWAP = ".swap"
"""Suffix of a file that is whole: it replaces the file of that name, also after a crash."""


class SegmentFile(NamedTuple):
    """A segment by its base offset, and how many bytes of it may be read."""

    base_offset: int
    size_bytes: int


class LastOfProducer(NamedTuple):
    """The batch that must be kept of an active producer: its last data batch, or else its last marker. -1: no data."""

    last_offset: int
    epoch: int


class CompactionJob(NamedTuple):
    """``segments`` are to be compacted; ``later`` tell how transactions ended that are open at their end.

    ``first_dirty_offset``: before it, no key has two records. ``durable_offset``: all before it is synced.
    """

    directory: str
    segments: Sequence[SegmentFile]
    later: Sequence[SegmentFile]
    first_dirty_offset: int
    end_offset: int
    last_stable_offset: int
    durable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    index_bytes: int
    map_bytes: int
    producers: Mapping[int, LastOfProducer]


class CleanedSegment(NamedTuple):
    """One new segment, in files that end in ``.cleaned``, in the place of those that began at ``replaced``."""

    base_offset: int
    end_offset: int
    replaced: Sequence[int]
    size_bytes: int


class CompactionResult(NamedTuple):
    """Up to ``cleaned_offset`` no key has two records left."""

    cleaned_offset: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


def encode_job(job: CompactionJob) -> bytes:
    """One line."""
    return json.dumps(job._asdict()).encode() + b"\n"


def decode_job(line: bytes) -> CompactionJob:
    """The inverse of ``encode_job``."""
    fields = json.loads(line)
    fields["segments"] = [SegmentFile(*each) for each in fields["segments"]]
    fields["later"] = [SegmentFile(*each) for each in fields["later"]]
    fields["producers"] = {int(producer_id): LastOfProducer(*last) for producer_id, last in fields["producers"].items()}
    return CompactionJob(**fields)


def encode_answer(answer: CleanedSegment | CompactionResult | Exception) -> bytes:
    """One line; an error by its kind and its text."""
    if isinstance(answer, CleanedSegment):
        return json.dumps({"segment": answer}).encode() + b"\n"
    if isinstance(answer, CompactionResult):
        return json.dumps({"result": answer}).encode() + b"\n"
    return json.dumps({"error": [type(answer).__name__, str(answer)]}).encode() + b"\n"


def decode_answer(line: bytes) -> CleanedSegment | CompactionResult | tuple[str, str]:
    """The inverse of ``encode_answer``; an error is (kind, text)."""
    answer = json.loads(line)
    if "segment" in answer:
        return CleanedSegment(*answer["segment"])
    if "result" in answer:
        return CompactionResult(*answer["result"])
    kind, text = answer["error"]
    return kind, text
