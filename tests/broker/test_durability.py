"""SIGKILL of the log under producers with acks=all, again and again: what was acknowledged stays, at its offset.

``MAINSTEM_LOG_KILLS`` is how often (8; by ``make history`` 200).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker.harness import LogProcess

KILLS = int(os.environ.get("MAINSTEM_LOG_KILLS", "8"))
RECORDS_BETWEEN_KILLS = 300
DEADLINE_S = 90.0


class AcknowledgedWrites:
    """A librdkafka producer that notes the offset of everything that was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.offsets: dict[bytes, int] = {}
        self.failed: list[str] = []
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "enable.sparse.connections": False,  # or it looks for a lost broker once a second only
                "delivery.timeout.ms": 60_000,
                "log_level": 0,
            }
        )

    def write_until(self, count: int, deadline: float) -> None:
        """Write on until ``count`` are acknowledged, with some more always on the way."""
        while len(self.offsets) < count and not self.failed:
            assert time.monotonic() < deadline, f"{len(self.offsets)} of {count} records acknowledged in time"
            while self._next < len(self.offsets) + 100:
                value = b"%d" % self._next
                self._producer.produce("t", value=value, on_delivery=self._delivered)
                self._next += 1
            self._producer.poll(0.01)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.offsets[message.value()] = message.offset()  # type: ignore[attr-defined]


def read_all(bootstrap: str) -> dict[int, bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    partition = TopicPartition("t", 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=20)
    consumer.assign([partition])
    found: dict[int, bytes] = {}
    while len(found) < end:
        messages = consumer.consume(min(1000, end - len(found)), timeout=20)  # it waits for as many
        assert messages, f"{len(found)} of {end} records could be read"
        found.update({message.offset(): message.value() for message in messages})
    consumer.close()
    return found


def test_every_acknowledged_record_is_there_once_at_its_offset_after_kills(tmp_path: Path) -> None:
    log = LogProcess(tmp_path / "data").start()
    writes = AcknowledgedWrites(log.bootstrap)
    try:
        for _ in range(KILLS):
            writes.write_until(len(writes.offsets) + RECORDS_BETWEEN_KILLS, time.monotonic() + DEADLINE_S)
            log.kill()
            log.start()
        writes.finish()
        found = read_all(log.bootstrap)
    finally:
        log.kill()
    assert writes.failed == []
    assert {found.get(offset) for offset in writes.offsets.values()} >= set(writes.offsets)
    assert all(found[offset] == value for value, offset in writes.offsets.items())
    assert len(set(found.values())) == len(found), "no record is there twice"
    assert sorted(found) == list(range(len(found)))
