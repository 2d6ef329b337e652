from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import AddressInUseError, DirectoryLockedError
from mainstem.model import Position
from mainstem.testing import EmbeddedBroker


def test_a_broker_takes_a_record_as_soon_as_it_is_there() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic("t")
        log.append("t", "x")
        assert log.end("t") == Position.of("t", 0, 1)


def test_what_was_appended_is_there_after_a_restart_at_the_same_address() -> None:
    with EmbeddedBroker() as broker:
        bootstrap = broker.bootstrap
        with Log(bootstrap) as log:
            log.create_topic("t")
            log.append_many("t", ["a", "b"])
            broker.restart()
            assert broker.bootstrap == bootstrap
            assert [record.value for record in log.read("t")] == [b"a", b"b"]
            assert log.append("t", "c") == Position.of("t", 0, 3)


def test_a_writer_that_goes_on_over_restarts_loses_and_repeats_nothing() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic("t")
        positions: list[Position] = []
        writer = threading.Thread(target=lambda: positions.extend(log.append("t", str(n)) for n in range(300)))
        writer.start()
        for _ in range(3):
            broker.restart()
        writer.join(60)
        assert positions == [Position.of("t", 0, n + 1) for n in range(300)]
        assert [record.value for record in log.read("t")] == [str(n).encode() for n in range(300)]


def test_settings_are_kafkas_by_name() -> None:
    with EmbeddedBroker(settings={"num.partitions": "3"}) as broker, Log(broker.bootstrap) as log:
        assert log.create_topic("t").partitions == 3


def test_its_own_directory_is_removed_and_a_given_one_is_kept(tmp_path: Path) -> None:
    with EmbeddedBroker() as own, EmbeddedBroker(tmp_path / "kept"):
        directory = own.directory
        assert (directory / "meta.properties").exists()
    assert not directory.exists()
    assert (tmp_path / "kept" / "meta.properties").exists()


def test_two_brokers_do_not_share_a_directory_or_a_port(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with pytest.raises(DirectoryLockedError):
            EmbeddedBroker(tmp_path).start()
        with pytest.raises(AddressInUseError):
            EmbeddedBroker(port=broker.port).start()


def test_stopping_twice_does_nothing() -> None:
    broker = EmbeddedBroker().start()
    broker.stop()
    broker.stop()


def test_a_stopped_broker_has_no_file_of_its_directory_open(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker, Log(broker.bootstrap) as log:
        log.create_topic("orders", partitions=3)
        log.append_many("orders", [("key", "value")] * 10)
        assert open_below(tmp_path)
    assert not open_below(tmp_path)


def open_below(directory: Path) -> list[str]:
    """The files below a directory that this process has open."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [name for name in (os.readlink(link) for link in links) if name.startswith(f"{directory}/")]  # noqa: PTH115 it may be a pipe
