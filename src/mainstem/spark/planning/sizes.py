"""Estimates how many bytes an offset takes in the log, from a sample: a fetch of a few record batches.

Bytes are those of record batches as they lie there, compressed or not. A sample needs no right but the reader's own;
the sizes of whole partitions (DescribeLogDirs) need one on the cluster, and say nothing of a part of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.client.wire.cluster.cluster import Isolation, WireClient
from mainstem.model import TopicPartition
from mainstem.record.constants import HEADER_BYTES
from mainstem.record.header import read_header

# A partition whose first batch is larger than the first sample is asked for a larger one.
_SAMPLES_BYTES = (64 * 1024, 1024 * 1024 + 4096)
_TOGETHER_BYTES_MAX = 16 * 1024 * 1024


def bytes_per_offset(
    client: WireClient, offsets: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, float]:
    """The bytes of one offset, from each of ``offsets`` on; a partition that has nothing there is left out."""
    sizes: dict[TopicPartition, float] = {}
    for sample_bytes in _SAMPLES_BYTES:
        fetched = client.fetch(
            {tp: offset for tp, offset in offsets.items() if tp not in sizes},
            max_wait_ms=0,
            max_bytes=_TOGETHER_BYTES_MAX,
            partition_max_bytes=sample_bytes,
            read_committed=isolation is Isolation.READ_COMMITTED,
        )
        sampled = {tp: _bytes_per_offset(found.records) for tp, found in fetched.items()}
        sizes.update({tp: size for tp, size in sampled.items() if size is not None})
    return sizes


def _bytes_per_offset(records: memoryview) -> float | None:
    first, at, next_offset = None, 0, 0
    while len(records) - at >= HEADER_BYTES:
        header = read_header(records[at:])
        if len(records) - at < header.size_bytes:
            break
        first = header.base_offset if first is None else first
        next_offset, at = header.next_offset, at + header.size_bytes
    return None if first is None or next_offset <= first else at / (next_offset - first)
