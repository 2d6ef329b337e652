"""Orders to kill are executed once, one after the other, by whoever does the step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.orders import KillingSteps, Order, Orders


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "orders")


def died_of(orders: Orders, *steps: str) -> int | None:
    """The signal that ended a process that does these steps; None when it came through."""
    pid = os.fork()
    if pid == 0:
        for step in steps:
            KillingSteps(orders.directory).done(step)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return -code if code < 0 else None


def test_an_order_is_executed_once_and_at_its_step(orders: Orders) -> None:
    order = Order("task:prepared", "self")
    orders.give([order])
    assert died_of(orders, "task:appended") is None
    assert orders.left == [order]
    assert died_of(orders, "task:appended", "task:prepared", "driver:begun") == signal.SIGKILL
    assert orders.executed == [order]
    assert died_of(orders, "task:prepared") is None
    assert orders.steps == ["task:appended", "task:appended", "task:prepared", "task:prepared"]


def test_orders_come_one_after_the_other_each_at_its_time(orders: Orders) -> None:
    orders.give([Order("a", "self", after=2), Order("b", "self")])
    assert died_of(orders, "b", "a", "b", "a", "b") is None
    assert died_of(orders, "a") == signal.SIGKILL
    assert died_of(orders, "b") == signal.SIGKILL
    assert orders.left == []


@pytest.mark.parametrize("alone", [True, False])
def test_another_process_is_killed_and_the_killer_with_it_unless_alone(orders: Orders, alone: bool) -> None:
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    orders.name_process("jvm", victim.pid)
    orders.give([Order("a", "jvm", alone=alone)])
    assert died_of(orders, "a") == (None if alone else signal.SIGKILL)
    assert victim.wait(20) == -signal.SIGKILL
    assert victim.stdin is not None
    victim.stdin.close()
