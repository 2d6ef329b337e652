"""SIGKILL of the log and of its backup, under load; then the disk is lost, and the log is restored.

A few kills here; ``make backup-kills`` does a hundred, into a directory and into a real S3 server.
"""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import confluent_kafka

from mainstem.backup.manifest import ManifestReader
from mainstem.backup.moments import time_text
from mainstem.client.log import Log
from mainstem.errors import MainstemError
from mainstem.model import Position, TopicPartition
from mainstem.object_stores.opening import open_store
from mainstem.testing.broker_process import BrokerProcess
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import BackupProcess, require_prefix, require_sound, restored
from tests.support.eventually import eventually
from tests.support.ports import free_port

KILLS = int(os.environ.get("MAINSTEM_BACKUP_KILLS", "3"))
_SEED = 5
_GROUP = "readers"


class Load:
    """Appends numbers to a topic, one after the other, and commits the offset after each to a group."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: dict[int, int] = {}
        self.committed: set[int] = set()

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        with Log(self._bootstrap, timeout_s=3) as log:
            while not self._is_over.is_set():
                number += 1
                with suppress(MainstemError):
                    end = dict(log.append("orders", f"{number}", key="k"))
                    ((_, offset),) = end.items()
                    self.acknowledged[offset - 1] = number
                    self.committed.add(offset)
                    log.group_admin.set_offsets(_GROUP, {TopicPartition("orders", 0): offset})


def test_a_log_that_is_lost_under_load_is_restored(store_url: str, tmp_path: Path) -> None:
    chance = random.Random(_SEED)
    data = tmp_path / "data"
    broker = BrokerProcess(data, port=free_port()).start()
    with Log(broker.bootstrap) as log:
        log.create_topic("orders", partitions=1)
    backup = BackupProcess(data, store_url)
    try:
        with Load(broker.bootstrap) as load:
            for kill in range(KILLS):
                known = len(load.acknowledged)
                eventually(lambda count=known: len(load.acknowledged) > count + 20, "the log takes records")
                threading.Event().wait(chance.random())
                if kill % 2:
                    broker.kill()
                    broker.start()
                else:
                    backup.kill()
                    backup = BackupProcess(data, store_url)
            floor = len(load.acknowledged)
            eventually(lambda: _held(store_url).get("orders/0", 0) >= floor, "the backup goes on")
            broker.kill()
            backup.kill()
    finally:
        broker.kill()
    lost = data.rename(tmp_path / "lost")
    done = restored(store_url, tmp_path / "restored")
    require_sound(store_url)
    require_prefix(tmp_path / "restored", lost)
    _require_named(tmp_path / "restored", done.newest, load)
    _require_moments(store_url, tmp_path, lost, chance)


def _held(url: str) -> dict[str, int]:
    with suppress(MainstemError):
        ends = ManifestReader(open_store(url)).newest().ends
        return {f"{name.topic}/{name.partition}": end.end_offset for name, end in ends.items()}
    return {}


def _require_named(directory: Path, named: Position, load: Load) -> None:
    """All acknowledged records before the named offset are there, none after; the group is where it was."""
    (end,) = [offset for name, offset in named.items() if name.topic == "orders"]
    with EmbeddedBroker(directory) as broker, Log(broker.bootstrap) as log:
        found = {record.offset: int(record.value or b"0") for record in log.read("orders")}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": _GROUP})
        (committed,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], 30)
        consumer.close()
    assert set(found) == set(range(end))
    acknowledged = {offset: number for offset, number in load.acknowledged.items() if offset < end}
    assert acknowledged.items() <= found.items()
    assert committed.offset in load.committed
    assert committed.offset <= end
    assert end - committed.offset <= 3  # of the same moment as the records


def _require_moments(url: str, tmp_path: Path, lost: Path, chance: random.Random) -> None:
    """At moments drawn at random, the restored directory is a beginning of the lost one."""
    reader = ManifestReader(open_store(url))
    first, last = reader.root.chapters[0][1], reader.newest().time_ms
    for slot in range(3 if KILLS < 20 else 20):
        time_ms = chance.randint(first, last)
        target = tmp_path / f"at-{slot}"
        assert restored(url, target, time_text(time_ms)).time_ms <= time_ms
        require_prefix(target, lost)
