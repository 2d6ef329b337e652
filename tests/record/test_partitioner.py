from __future__ import annotations

import pytest

from mainstem.errors import InputError
from mainstem.record.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_the_java_clients(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_a_negative_hash_still_gives_a_partition() -> None:
    assert partition_for(b"foobar", 12) == (-790332482 & 0x7FFFFFFF) % 12


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(count: int) -> None:
    with pytest.raises(InputError):
        partition_for(b"key", count)
