"""SIGKILL of the mirror, of the source and of the target, at random moments, while clients write.

A few rounds by default; ``MAINSTEM_MIRROR_KILLS`` asks for more (``make mirror-kills``).
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from mainstem.model import TopicPartition
from tests.broker.harness import LogProcess
from tests.mirror import writing
from tests.mirror.pairs import MirrorProcess, assert_same, copy_all, ends
from tests.support.eventually import eventually

KILLS = int(os.environ.get("MAINSTEM_MIRROR_KILLS", "4"))
SEED = int(os.environ.get("MAINSTEM_MIRROR_SEED", "1"))


class _Writer:
    """Writes until it is stopped, with and without transactions, over kills of its log."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.acknowledged: list[bytes] = []
        self._threads = [threading.Thread(target=self._plain), threading.Thread(target=self._transactional)]
        for thread in self._threads:
            thread.start()

    def _options(self) -> dict[str, object]:
        return {"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 200, **writing.QUIET}

    def _plain(self) -> None:
        producer = Producer({**self._options(), "enable.idempotence": True, "linger.ms": 2})
        number = 0
        while not self._stop.is_set():
            value = b"plain-%d" % number
            producer.produce("t", value, key=value, on_delivery=self._delivered)
            number += 1
            if number % 50 == 0:
                producer.flush(30)
        producer.flush(60)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append(message.value())  # type: ignore[attr-defined]

    def _transactional(self) -> None:
        producer = Producer({**self._options(), "transactional.id": "kills"})
        producer.init_transactions(60)
        number = 0
        while not self._stop.is_set():
            values = [b"tx-%d-%d" % (number, each) for each in range(3)]
            try:
                producer.begin_transaction()
                for value in values:
                    producer.produce("t", value, key=value)
                if number % 3 == 0:
                    producer.flush(30)
                    producer.abort_transaction(60)
                else:
                    producer.commit_transaction(60)
                    self.acknowledged += values
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(60)
            number += 1

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()


def test_every_batch_is_there_once_whatever_was_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with LogProcess(tmp_path / "a") as source, LogProcess(tmp_path / "b") as target:
        writing.create(source.bootstrap, "t", 2, segment_bytes="1048576")
        tps = [TopicPartition("t", number) for number in range(2)]
        output = tmp_path / "mirror.log"
        mirror = MirrorProcess(source.bootstrap, target.bootstrap, output).wait_ready()
        writer = _Writer(source.bootstrap)
        try:
            for _ in range(KILLS):
                before = sum(ends(target.bootstrap, tps).values())
                eventually(lambda before=before: sum(ends(target.bootstrap, tps).values()) > before, "the copy grows")
                threading.Event().wait(chance.random() * 0.3)
                which = chance.choice(("mirror", "source", "target"))
                if which == "mirror":
                    mirror.end(9)
                    mirror = MirrorProcess(source.bootstrap, target.bootstrap, output)
                else:
                    log = source if which == "source" else target
                    log.kill()
                    log.start()
        finally:
            writer.stop()
            mirror.end(9)
        copy_all(source.bootstrap, target.bootstrap, "t")
        assert assert_same(source.bootstrap, target.bootstrap, "t", 2) > 20
        read = writing.read(target.bootstrap, "t", partitions=2)
        assert read == writing.read(source.bootstrap, "t", partitions=2)
        values = [value for _, _, value in read]
        assert len(values) == len(set(values))
        assert set(values) >= set(writer.acknowledged)
