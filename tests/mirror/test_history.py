"""The history checker judges clients that are switched in the middle, as planned and because the source is lost.

Before the switch the source is killed and stopped, and so are clients; the mirror is killed once.
``make mirror-history`` asks for longer ones (``MAINSTEM_HISTORY_S``, ``MAINSTEM_HISTORY_SEED``), and it alone runs the
one of a lost source: ``test_promote`` shows such losses in a few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.mirror.promotion import losses, promote, promote_alone
from tests.broker.harness import LogProcess
from tests.history.checker import check, check_moved
from tests.history.nemesis import Clients, Plan, disturb
from tests.history.operations import INFO, OK, Operation, Poll, Send, read_history
from tests.history.test_histories import read_everything, wait_until_nothing_is_open
from tests.mirror import writing
from tests.mirror.pairs import MirrorProcess, linked

IS_LONG = "MAINSTEM_HISTORY_S" in os.environ
SECONDS = float(os.environ.get("MAINSTEM_HISTORY_S", "4"))
SEED = int(os.environ.get("MAINSTEM_HISTORY_SEED", "1"))
KINDS = ("plain", "transactions", "transactions", "group", "mover")
_NOT_AFTER_A_LOSS = frozenset({"torn-transaction"})
"""A transaction over several partitions may be copied in a part when its log is lost."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LogProcess, LogProcess]]:
    with LogProcess(tmp_path / "a") as a, LogProcess(tmp_path / "b") as b:
        writing.create(a.bootstrap, "h", 2)
        writing.create(a.bootstrap, "moved")
        yield a, b


def _first_half(a: LogProcess, b: LogProcess, directory: Path) -> tuple[Clients, MirrorProcess]:
    """Clients that still write to ``a``, and the mirror to ``b``, after kills of all of them."""
    plan = Plan("h", "moved", 2, SECONDS, SEED, KINDS)
    MirrorProcess(a.bootstrap, b.bootstrap, directory / "mirror.log").wait_ready().end(9)
    mirror = MirrorProcess(a.bootstrap, b.bootstrap, directory / "mirror.log")
    clients = Clients(plan, a, directory)
    try:
        disturb(a, clients, plan)
    except BaseException:
        clients.stop()
        mirror.end(9)
        raise
    return clients, mirror


def _second_half(b: LogProcess, directory: Path) -> list[int]:
    clients = Clients(Plan("h", "moved", 2, SECONDS / 2, SEED + 1, KINDS), b, directory, first=100)
    try:
        codes = clients.wait()
        wait_until_nothing_is_open(b, "h", 2)
        return [*codes, *clients.drain()]
    finally:
        clients.stop()


def _history(b: LogProcess, directory: Path) -> list[Operation]:
    files = sorted(directory.glob("*.jsonl"))
    return [*read_history(files), read_everything(b, "h", 2), read_everything(b, "moved", 1)]


@pytest.mark.timeout(SECONDS + 1500)
def test_a_planned_switch_loses_nothing_and_moves_everything_once(
    pair: tuple[LogProcess, LogProcess], tmp_path: Path
) -> None:
    a, b = pair
    clients, mirror = _first_half(a, b, tmp_path)
    try:
        with linked(a.bootstrap, b.bootstrap) as link:
            promote(link, lambda _: None, 90)
    finally:
        clients.stop()
        mirror.end(9)
    codes = _second_half(b, tmp_path)
    history = _history(b, tmp_path)
    assert codes[-1] == 0
    assert check(history)[:20] == []
    assert check_moved(history, "h", "moved") == []
    assert len([each for each in history if each.is_transaction and each.status == OK]) > 5


@pytest.mark.skipif(not IS_LONG, reason="make mirror-history runs it")
@pytest.mark.timeout(SECONDS + 1500)
def test_a_lost_source_loses_what_is_named_and_nothing_else(
    pair: tuple[LogProcess, LogProcess], tmp_path: Path
) -> None:
    a, b = pair
    clients, mirror = _first_half(a, b, tmp_path)
    a.kill()
    clients.stop()
    mirror.end(9)
    with linked(a.bootstrap, b.bootstrap) as link:
        position = promote_alone(link).promotion.position
    assert _second_half(b, tmp_path)[-1] == 0
    a.start()
    with linked(a.bootstrap, b.bootstrap) as link:
        lost = losses(link)
    named = {(str(each.topic_partition), offset) for each in lost for offset in range(each.first, each.last + 1)}
    history = _history(b, tmp_path)
    kept = [part for each in history for part in (_in_two(each, named) if _is_before(each) else [each])]
    assert [each for each in check(kept) if each.kind not in _NOT_AFTER_A_LOSS][:20] == []
    sent = sum(len(each.sends) for each in kept if _is_before(each))
    assert sent > 0
    assert {(each.topic_partition, each.first) for each in lost if each.producer_id is None} <= set(position.items())


def _is_before(operation: Operation) -> bool:
    """Whether it was done at the former source."""
    number = operation.client.lstrip("abcdefghijklmnopqrstuvwxyz")
    return number.isdecimal() and int(number) <= 100


def _in_two(operation: Operation, named: Collection[tuple[str, int]]) -> list[Operation]:
    """The operation without what was lost, and its lost sends: these may be there or not."""
    steps: list[Send | Poll] = []
    lost: list[Send] = []
    for step in operation.steps:
        if isinstance(step, Poll):
            records = {
                place: [each for each in of if (place, each[0]) not in named] for place, of in step.records.items()
            }
            steps.append(Poll(records))
        elif step.offset is None or (step.partition, step.offset) in named:
            lost.append(step._replace(offset=None))
        else:
            steps.append(step)
    kept = replace(operation, steps=tuple(steps), is_transaction=False)
    return [kept, replace(kept, steps=tuple(lost), status=INFO if operation.status == OK else operation.status)]
