"""A log process that is killed at each step of a segment's way from the disk into the store goes on as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.client.append.transaction import TransactionSession
from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.clock import SystemClock
from mainstem.errors import StorageError
from mainstem.model import TopicPartition
from mainstem.record.writer import NewRecord
from tests.backup.support import once, require_sound, values_of
from tests.broker.harness import LogProcess
from tests.support.eventually import eventually

TOPIC = "old"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0", "retention.ms": "-1"}
STEPS = (
    "before rename .log.deleted",
    "after rename .log.deleted",
    "before remove .log.deleted",
    "after remove .log.deleted",
)


class KilledLog(LogProcess):
    """The log process, which dies at a step."""

    def argv(self, *more: str) -> list[str]:
        return [
            "tests.broker.killing_process" if part == "mainstem.broker.process" else part
            for part in super().argv(*more)
        ]


def append(bootstrap: str, first: int, count: int) -> None:
    with Log(bootstrap) as log:
        log.append_many(TOPIC, [f"value {n} {'x' * 900}" for n in range(first, first + count)])


def numbers(bootstrap: str) -> list[int]:
    with Log(bootstrap) as log:
        return sorted(int(each.split()[1]) for each in values_of(log, TOPIC))


def has_died(process: LogProcess, data: Path, url: str) -> bool:
    """Back the log up while it lives: with that a release begins. A log that dies meanwhile ends the round early."""
    try:
        once(data, url)
    except StorageError:
        if process.is_alive:
            raise
    return not process.is_alive


def test_a_log_that_is_killed_at_each_step_of_a_release_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, url = tmp_path / "data", f"file://{tmp_path}/store"
    settings = {"mainstem_remote_storage_url": url, "remote_log_manager_task_interval_ms": "50"}
    process = KilledLog(data, **settings)
    with process:
        with Log(process.bootstrap) as log:
            log.create_topic(TOPIC, partitions=1, configs=TIERED | {"internal.segment.bytes": "20000"})
        append(process.bootstrap, 0, 20)
        session = TransactionSession(WireClient(process.bootstrap), SystemClock(), "open", 900.0)
        session.begin()
        session.produce(TopicPartition(TOPIC, 0), [NewRecord(None, b"uncommitted", (), 0)] * 15)
        for round_number, step in enumerate(STEPS):
            append(process.bootstrap, 20 + 25 * round_number, 25)
            process.kill()
            monkeypatch.setenv("KILL_AT", step)
            process.start()
            eventually(lambda: has_died(process, data, url), f"it dies {step}")
            process.kill()
            monkeypatch.delenv("KILL_AT")
            process.start()
            assert numbers(process.bootstrap) == list(range(20)), step
        session.producer.end(commit=False)
        session.close()
        assert numbers(process.bootstrap) == list(range(20 + 25 * len(STEPS)))
    assert len(list((data / f"{TOPIC}-0").glob("*.remote"))) > len(STEPS)
    require_sound(url)
