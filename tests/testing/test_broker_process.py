from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import MachineError
from mainstem.model import Position
from mainstem.testing import BrokerProcess


def test_what_was_acknowledged_survives_a_kill() -> None:
    with BrokerProcess() as broker, Log(broker.bootstrap) as log:
        log.create_topic("t")
        for number in range(3):
            assert log.append("t", str(number)) == Position.of("t", 0, number + 1)
            broker.kill()
            broker.restart()
        assert [record.value for record in log.read("t")] == [b"0", b"1", b"2"]


def test_a_killed_process_is_gone() -> None:
    with BrokerProcess() as broker:
        pid = broker.pid
        broker.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path), pytest.raises(MachineError, match=r"did not start: .*in use"):
        BrokerProcess(tmp_path).start()


def test_settings_are_kafkas_by_name() -> None:
    with BrokerProcess(settings={"num.partitions": "3"}) as broker, Log(broker.bootstrap) as log:
        assert log.create_topic("t").partitions == 3
