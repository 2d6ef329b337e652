"""The log features across SIGKILL of the log process, with RocksDB and the real disk."""

from __future__ import annotations

from pathlib import Path

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.errors import InvalidRecordError
from mainstem.model import TopicPartition
from mainstem.record.writer import NewRecord, build_batch
from tests.broker.harness import LogProcess

_CONFIGS = {
    "mainstem.key.index": "true",
    "mainstem.conditional.append": "true",
    "mainstem.idempotency.window.ms": "3600000",
}
_T = TopicPartition("t", 0)


def produce(client: WireClient, value: bytes, **headers: str) -> int | None:
    """The offset, or None when the condition does not hold."""
    named = tuple((f"mainstem-{name.replace('_', '-')}", text.encode()) for name, text in headers.items())
    try:
        return client.produce(_T, build_batch([NewRecord(b"k", value, named, 1_700_000_000_000)]))
    except InvalidRecordError:
        return None


def test_a_key_is_counted_up_across_kills_without_a_gap_or_a_repeat(tmp_path: Path) -> None:
    """A counter by compare-and-set: two writers expect the same offset each time, and the process is killed often."""
    with LogProcess(tmp_path / "data") as process:
        with WireClient(process.bootstrap, timeout_s=60) as client:
            create_topic(client, "t", partitions=1, configs=_CONFIGS)
        last = -1
        for _ in range(3):
            with WireClient(process.bootstrap, timeout_s=60) as client:
                for _ in range(4):
                    taken = [produce(client, b"v", expect_key_offset=str(last)) for _ in range(2)]
                    assert taken == [last + 1, None]
                    last += 1
            process.kill()
            process.start()
        with WireClient(process.bootstrap, timeout_s=60) as client:
            assert client.list_offsets([_T])[_T] == 12


def test_an_idempotency_key_outlives_a_kill(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as process:
        with WireClient(process.bootstrap, timeout_s=60) as client:
            create_topic(client, "t", partitions=1, configs=_CONFIGS)
            assert produce(client, b"a") == 0
            assert produce(client, b"b", idempotency_key="x") == 1
        process.kill()
        process.start()
        with WireClient(process.bootstrap, timeout_s=60) as client:
            assert produce(client, b"b", idempotency_key="x") == 1
            assert produce(client, b"c") == 2
