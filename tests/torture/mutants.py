"""Faults of the sink, built in on purpose: a proof that finds none of them proves nothing.

============== ======================================================================================================
undecided      the driver ends the prepared transactions and writes down no decision
ended-early    the prepared transactions are ended before the decision is made
unresolved     nobody aborts what an earlier run has left open
task-commits   each task ends its own transaction, as if tasks were never run again
============== ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mainstem.client.wire.produce.transaction_requests import end_all
from mainstem.spark.sink import transactions
from mainstem.spark.sink.sink_driver import SinkDriver
from mainstem.spark.sink.task_producers import TaskProducer


def build_in(mutant: str) -> None:
    """Change this process, and those that it forks, for good. Raises KeyError for an unknown name."""
    if mutant:
        _MUTANTS[mutant]()


def _undecided() -> None:
    def decide(driver: SinkDriver, _client: Any, decision: Any, on_step: Callable[[str], None]) -> None:
        on_step("driver:begun")
        on_step("driver:decided")
        driver.decision = decision

    SinkDriver.decide = decide  # type: ignore[method-assign]


def _ended_early() -> None:
    decided = SinkDriver.decide

    def decide(driver: SinkDriver, client: Any, decision: Any, on_step: Callable[[str], None]) -> None:
        end_all(client, decision.instances, driver._capabilities, commit=True)
        decided(driver, client, decision, on_step)

    SinkDriver.decide = decide  # type: ignore[method-assign]


def _unresolved() -> None:
    SinkDriver.abort_undecided = lambda *_, **__: []  # type: ignore[method-assign]
    SinkDriver._find_strays = lambda *_: []  # type: ignore[method-assign]


def _task_commits() -> None:
    prepared = TaskProducer.prepared

    def ended(producer: TaskProducer) -> None:
        if producer.has_begun:
            with transactions.borrowed(producer._key[0]) as client:
                end_all(client, [producer.instance], producer._capabilities, commit=True)
        prepared(producer)

    TaskProducer.prepared = ended  # type: ignore[method-assign]


_MUTANTS: Final = {
    "undecided": _undecided,
    "ended-early": _ended_early,
    "unresolved": _unresolved,
    "task-commits": _task_commits,
}
