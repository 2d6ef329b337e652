"""A micro-batch whose driver is killed, behind another open transaction and with time-outs: each loss is reported.

Another transaction that is open before the micro-batch in its partitions keeps the last stable offset below it, so a
read_committed fetch tells nothing about the micro-batch's own transactions. Run against Mainstem and Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.transaction_requests import end_all, learn_capabilities, open_transactions
from mainstem.errors import LogUnavailableError, PipelineFailedError
from mainstem.spark.clients import borrowed
from mainstem.spark.sink import task_producers
from mainstem.spark.sink.sink_commits import DecidedTransaction
from mainstem.spark.sink.sink_run import SinkRun
from mainstem.spark.sink.transaction_outcome import is_aborted
from mainstem.spark.sink.transactions import begin_run, decide_and_finish, end_open_transactions
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.sink_world import DRIVER_STEPS, NUMBERS, TASK_STEPS, KilledError, Sink, killing, truth
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually

STEPS = (*TASK_STEPS, *DRIVER_STEPS)
LOST_AFTER = {"driver:decided", "driver:ended-first"}
"""After these a time-out aborts decided transactions. Before them nothing is decided, after them all are ended."""
TIMEOUT_MS = 4_000
SHORT_TIMEOUT_MS = 4_000
"""Where two tasks write within it, and nothing else."""


@pytest.fixture(scope="module", params=["mainstem", pytest.param("kafka", marks=pytest.mark.maven)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "mainstem":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap
    else:
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap


def new_sink(bootstrap: str) -> Sink:
    topic = f"outcome-{next(NUMBERS)}"
    with Log(bootstrap) as log:
        log.create_topic(topic, partitions=3)
    return Sink(bootstrap, topic)


@contextmanager
def another_open(sink: Sink) -> Iterator[None]:
    """Another writer's transaction, open in every partition of the sink's topic; aborted at the end of the block."""
    other = Sink(sink.log.bootstrap, sink.topic)
    other.task(SinkRun(other.log, other.sink_id), 0, 0, rows=60)
    try:
        yield
    finally:
        end_open_transactions(other.log, other.sink_id)


def kill(sink: Sink, step: str, monkeypatch: pytest.MonkeyPatch, *, timeout_ms: int | None = None) -> None:
    """Run a first micro-batch, which ends with the step; the workers' memory is gone with it."""
    run = begin_run(sink.log, sink.sink_id, timeout_ms=timeout_ms)
    with monkeypatch.context() as dead:
        dead.setattr(task_producers.TaskProducer, "failed", lambda *_: None)  # nothing is cleared up
        with pytest.raises(KilledError):
            sink.batch(run, 0, killing(step))
    task_producers._THIS.renew()


def let_time_out(sink: Sink) -> None:
    with borrowed(sink.log) as client:
        eventually(lambda: not open_transactions(client, f"mainstem-sink-{sink.sink_id}"), "the log aborts them")


def test_a_driver_killed_after_each_step_loses_nothing_behind_an_open_transaction(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in STEPS:
        sink = new_sink(bootstrap)
        with another_open(sink):
            kill(sink, step, monkeypatch)
            run = sink.begin()
            sink.batch(run, 0)
            sink.batch(run, 1)
        assert sink.read() == truth(2), step


def test_a_driver_away_for_longer_than_the_time_out_says_what_is_lost(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = []
    with ExitStack() as others:
        for step, is_another_open in product(STEPS, (False, True)):
            sink = new_sink(bootstrap)
            if is_another_open:
                others.enter_context(another_open(sink))
            kill(sink, step, monkeypatch, timeout_ms=TIMEOUT_MS)
            killed.append((step, sink))
        for step, sink in killed:
            let_time_out(sink)
            if step in LOST_AFTER:
                with pytest.raises(PipelineFailedError, match=r"of 2 transactions of micro-batch 0 .* are lost"):
                    sink.begin()
            else:
                sink.batch(sink.begin(), 0)
    for step, sink in killed:
        assert step in LOST_AFTER or sink.read() == truth(1), step


def test_a_run_that_goes_on_says_what_a_time_out_took_behind_an_open_transaction(bootstrap: str) -> None:
    sink = new_sink(bootstrap)
    run = begin_run(sink.log, sink.sink_id, timeout_ms=SHORT_TIMEOUT_MS)

    def away(step: str) -> None:
        if step == "driver:decided":
            let_time_out(sink)

    with another_open(sink), pytest.raises(PipelineFailedError, match="2 of 2 transactions"):
        decide_and_finish(run, 0, [sink.task(run, 0, task) for task in (0, 2)], on_step=away)


def test_a_batch_write_with_a_name_says_what_a_time_out_took_behind_an_open_transaction(bootstrap: str) -> None:
    sink = new_sink(bootstrap)
    write = SinkRun(sink.log, sink.sink_id, timeout_ms=SHORT_TIMEOUT_MS)
    with another_open(sink):
        with pytest.raises(KilledError):
            sink.batch(write, 0, killing("driver:decided"))
        let_time_out(sink)
        with pytest.raises(PipelineFailedError, match="2 of 2 transactions"):
            decide_and_finish(write, 0, [])


def test_a_transaction_that_has_not_ended_is_waited_for(bootstrap: str) -> None:
    sink = new_sink(bootstrap)
    prepared = sink.task(sink.begin(), 0, 0)
    tp = min(prepared.position)
    decided = DecidedTransaction(prepared.instance, tp, prepared.position[tp] - 1)
    with WireClient(bootstrap, timeout_s=1) as client:
        with pytest.raises(LogUnavailableError, match=f"has no marker in {tp.topic}"):
            is_aborted(client, decided)
    with WireClient(bootstrap) as client:
        end_all(client, [prepared.instance], learn_capabilities(client), commit=True)
        assert not is_aborted(client, decided)


def test_of_two_transactions_of_one_producer_each_has_its_own_outcome(bootstrap: str) -> None:
    sink = new_sink(bootstrap)
    run = sink.begin()
    with another_open(sink), WireClient(bootstrap) as client:
        found = []
        for batch_id, commit in enumerate([True, False, True, False]):
            prepared = sink.task(run, batch_id, 0)
            end_all(client, [prepared.instance], learn_capabilities(client), commit=commit)
            found += [
                is_aborted(client, DecidedTransaction(prepared.instance, tp, end - 1))
                for tp, end in prepared.position.items()
            ]
            assert found[-1] is not commit
        assert set(found) == {True, False}
