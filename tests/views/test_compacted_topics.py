"""Key-value views of a topic that the log's own cleaner compacts beneath them, before them, and while they are away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.testing import BrokerProcess
from mainstem.views.read_options import ReadOptions
from tests.views.hosting import REQUESTS, Setting

KEYS = 7
DEADLINE_S = 120.0
SETTINGS = {
    "log.cleanup.policy": "compact",
    "log.segment.bytes": "2000",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with BrokerProcess(settings=SETTINGS) as broker, Log(broker.bootstrap, timeout_s=60) as opened:
        yield opened


def append(setting: Setting, first: int, count: int) -> Position:
    """Flights of few keys in turn; the first key's flights end with a tombstone."""
    numbers = range(first, first + count)
    position = Position.join(setting.append(f"k{n % KEYS}", miles=n) for n in numbers)
    return position | setting.log.append(setting.topic, None, key="k0")


def latest(first: int, count: int) -> dict[str, int]:
    """What a view of these and all before them holds."""
    return {f"k{n % KEYS}": n for n in range(first, first + count) if n % KEYS}


def wait_for_the_cleaner(setting: Setting, records: int) -> None:
    """Return when the log has at most half of the records that were appended to it."""
    deadline_s = time.monotonic() + DEADLINE_S
    while sum(1 for _ in setting.log.read(setting.topic)) > records // 2:
        assert time.monotonic() < deadline_s, "the cleaner has not compacted the topic"


def assert_whole(setting: Setting, position: Position, expected: dict[str, int]) -> None:
    with setting.host() as host:
        rows = host.query("kv", REQUESTS["kv"], ReadOptions(at_least=position, timeout_s=DEADLINE_S)).rows
        assert {row["_key"]: row["miles"] for row in rows} == expected
        assert host.verify("kv").equal


def test_a_view_and_its_verification_are_right_whatever_the_cleaner_removes(log: Log, tmp_path: Path) -> None:
    setting = Setting(log, tmp_path / "before")
    assert_whole(setting, append(setting, 0, 100), latest(0, 100))
    end = append(setting, 100, 100)
    wait_for_the_cleaner(setting, 200)
    assert_whole(setting, end, latest(100, 100))  # the view had read a half of it
    setting.directory = tmp_path / "after"
    assert_whole(setting, end, latest(100, 100))  # a view that begins in what is left


def test_a_view_is_right_while_the_cleaner_works_beneath_it(log: Log, tmp_path: Path) -> None:
    setting = Setting(log, tmp_path)
    with setting.host() as host:
        for first in range(0, 200, 50):
            end = append(setting, first, 50)
            rows = host.query("kv", REQUESTS["kv"], ReadOptions(at_least=end, timeout_s=DEADLINE_S)).rows
            assert {row["_key"]: row["miles"] for row in rows} == latest(first, 50)
            assert host.verify("kv").equal
        wait_for_the_cleaner(setting, 200)
        assert host.verify("kv").equal
