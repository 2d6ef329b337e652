"""What a client sees of a log that goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import LogUnavailableError
from mainstem.model import Position, Record
from mainstem.testing import BrokerProcess, EmbeddedBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port


@pytest.mark.parametrize("kind", [EmbeddedBroker, BrokerProcess])
def test_a_bulk_append_goes_on_over_a_restart_and_repeats_nothing(
    kind: type[EmbeddedBroker] | type[BrokerProcess],
) -> None:
    def records(broker: EmbeddedBroker | BrokerProcess) -> Iterator[str]:
        for number in range(20_000):
            if number == 10_000:
                if isinstance(broker, BrokerProcess):
                    broker.kill()
                broker.restart()
            yield str(number)

    with kind(port=free_port()) as broker, Log(broker.bootstrap) as log:
        log.create_topic("t")
        assert log.append_many("t", records(broker)) == Position.of("t", 0, 20_000)
        assert [int(record.value or b"") for record in log.read("t")] == list(range(20_000))


def test_a_follower_goes_on_over_a_restart() -> None:
    with EmbeddedBroker(port=free_port()) as broker, Log(broker.bootstrap) as log:
        log.create_topic("t")
        with log.follow("t") as follower:
            log.append("t", "before")
            assert next(follower).value == b"before"
            broker.restart()
            log.append("t", "after")
            assert next(follower).value == b"after"
            assert follower.position == log.end("t")


def test_a_follower_whose_log_is_away_too_long_can_be_asked_again(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, port=free_port()).start()
    with Log(broker.bootstrap) as log:
        log.create_topic("t")
        log.append("t", "kept")
    with Log(broker.bootstrap, timeout_s=1.0) as log:
        follower = log.follow("t", start="earliest")
        broker.stop()
        with pytest.raises(LogUnavailableError):
            next(follower)

        def asked() -> Record | None:
            try:
                return next(follower)
            except LogUnavailableError:  # a slow machine
                return None

        with EmbeddedBroker(tmp_path, port=broker.port):
            assert eventually(asked, "the follower goes on").value == b"kept"
        follower.close()
