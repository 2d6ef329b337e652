"""Real clients write, read and move records while the log is killed and stopped under them; the checker judges.

``MAINSTEM_HISTORY_S`` says for how long (15 seconds), ``MAINSTEM_HISTORY_SEED`` with which choices; ``make history``
runs an hour.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.broker.harness import LogProcess
from tests.history.checker import check, check_moved
from tests.history.client import HUNG, Reader
from tests.history.nemesis import Clients, Plan, disturb
from tests.history.operations import OK, Operation, Poll, read_history
from tests.support.eventually import eventually

SECONDS = float(os.environ.get("MAINSTEM_HISTORY_S", "15"))
SEED = int(os.environ.get("MAINSTEM_HISTORY_SEED", "1"))
KINDS = ("plain", "plain", "transactions", "transactions", "transactions", "group", "group", "mover", "mover")


def wait_until_nothing_is_open(log: LogProcess, topic: str, partitions: int) -> None:
    """Transactions of killed clients hold the last stable offset until their time is over; then the log aborts them."""
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

    def open_places() -> list[TopicPartition]:
        stable, end = (
            {
                place: future.result(30).offset
                for place, future in admin.list_offsets(places, isolation_level=level).items()
            }
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return [place for place in places if stable[place] != end[place]]

    eventually(lambda: not open_places(), f"no transaction in {topic} is open", within_s=100, pause_s=0.2)


def read_everything(log: LogProcess, topic: str, partitions: int) -> Operation:
    """All that is committed, from every partition's beginning to its end."""
    wait_until_nothing_is_open(log, topic, partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": "final",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    reader, records, deadline_s = Reader(consumer), dict[str, list[tuple[int, str]]](), time.monotonic() + 100
    while len(reader.at_end) < partitions:
        assert time.monotonic() < deadline_s, f"only {reader.at_end} were read to the end"
        for place, more in reader.poll(1000, 0.2).records.items():
            records.setdefault(place, []).extend(more)
    consumer.close()
    return Operation(f"final {topic}", 0, OK, (Poll(records),), is_final=True)


@pytest.mark.timeout(SECONDS + 1500)
def test_no_client_ever_sees_what_a_log_must_not_do(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data", group_min_session_timeout_ms="1000") as log:
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        for future in admin.create_topics([NewTopic("h", 4, 1), NewTopic("moved", 1, 1)]).values():
            future.result(30)
        plan = Plan("h", "moved", 4, SECONDS, SEED, KINDS)
        clients = Clients(plan, log, tmp_path)
        try:
            done = disturb(log, clients, plan)
            codes = clients.wait()
            wait_until_nothing_is_open(log, "h", 4)
            codes += clients.drain()
        finally:
            clients.stop()
        files = sorted(tmp_path.glob("*.jsonl"))
        history = [*read_history(files), read_everything(log, "h", 4), read_everything(log, "moved", 1)]
    print(done, Counter((operation.client.rstrip("0123456789"), operation.status) for operation in history))  # noqa: T201
    assert set(codes) <= {0, HUNG}
    assert codes[-1] == 0
    assert check(history)[:20] == []
    assert check_moved(history, "h", "moved") == []
    assert done["kill log"] > 0
    assert (
        len([operation for operation in history if operation.is_transaction and operation.status == OK]) > SECONDS / 10
    )
