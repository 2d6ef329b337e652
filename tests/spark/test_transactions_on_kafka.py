"""The same on Apache Kafka, which knows no two-phase transactions: every step of a micro-batch is the last one once."""

from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.produce.transaction_requests import end_all, learn_capabilities, open_transactions
from mainstem.errors import PipelineFailedError, ProducerFencedError, TransactionTimeoutError
from mainstem.spark.clients import borrowed
from mainstem.spark.sink import task_producers
from mainstem.spark.sink.sink_run import SinkRun
from mainstem.spark.sink.transactions import begin_run, decide_and_finish
from tests.spark.sink_world import DRIVER_STEPS, NUMBERS, TASK_STEPS, KilledError, Sink, killing, truth
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually


@pytest.fixture
def sink(apache_kafka: ApacheKafka) -> Sink:
    topic = f"transactions-{next(NUMBERS)}"
    with Log(apache_kafka.bootstrap) as log:
        log.create_topic(topic, partitions=3)
    return Sink(apache_kafka.bootstrap, topic)


def test_runs_that_end_after_each_step_are_finished(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*TASK_STEPS, *DRIVER_STEPS)
    for batch_id, step in enumerate(steps):
        with monkeypatch.context() as dead:
            dead.setattr(task_producers.TaskProducer, "failed", lambda *_: None)  # nothing is cleared up
            with pytest.raises(KilledError):
                sink.batch(sink.begin(), batch_id, killing(step))
        task_producers._THIS.renew()  # its workers are no more, either
        sink.batch(sink.begin(), batch_id)
    assert sink.read() == truth(len(steps))


def test_producers_go_on_from_micro_batch_to_micro_batch(sink: Sink) -> None:
    run = sink.begin()
    for batch_id in range(5):
        sink.batch(run, batch_id)
    assert sink.read() == truth(5)


def test_a_sink_without_a_run_begins_with_each_decision(sink: Sink) -> None:
    for batch_id in (0, 1, 1, 2):
        sink.batch(SinkRun(sink.log, sink.sink_id), batch_id)
    assert sink.read() == truth(3)


def test_a_run_that_was_taken_over_can_decide_nothing(sink: Sink) -> None:
    old = sink.begin()
    prepared = [sink.task(old, 0, 0)]
    sink.batch(sink.begin(), 0)
    with pytest.raises(ProducerFencedError, match="another run of this query has taken over"):
        decide_and_finish(old, 0, prepared)
    assert sink.read() == truth(1)


def test_a_decided_transaction_that_was_aborted_is_said_to_be_lost(sink: Sink) -> None:
    with pytest.raises(KilledError):
        sink.batch(sink.begin(), 0, killing("driver:decided"))
    with borrowed(sink.log) as client:
        found = open_transactions(client, f"mainstem-sink-{sink.sink_id}")
        end_all(client, found[:1], learn_capabilities(client), commit=False)
    with pytest.raises(PipelineFailedError, match="1 of 2 transactions"):
        sink.begin()


def test_a_micro_batch_that_takes_longer_than_the_time_out_counts_for_nothing(sink: Sink) -> None:
    run = begin_run(sink.log, sink.sink_id, timeout_ms=1000)
    prepared = [sink.task(run, 0, task) for task in (0, 2)]
    with borrowed(sink.log) as client:
        eventually(lambda: not open_transactions(client, run.group), "the log aborts them")
    with pytest.raises(TransactionTimeoutError, match="Nothing of it counts"):
        decide_and_finish(run, 0, prepared)
    sink.batch(sink.begin(), 0)
    assert sink.read() == truth(1)
