from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.client.partitioner import murmur2, partition_of
from mainstem.model import Position


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
def test_murmur2_gives_what_kafkas_own_gives(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_the_producer_puts_keys_where_the_reader_looks(log: Log) -> None:
    log.create_topic("partitioned", partitions=7)
    for key in (b"", b"a", b"ab", b"abc", b"abcd", "Zürich".encode(), b"\xff\x00"):
        position = log.append("partitioned", "x", key=key)
        assert position.covers(Position.of("partitioned", partition_of(key, 7), 1))
