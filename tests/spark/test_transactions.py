"""Exactly once, by the seam itself and without Spark: every step of a micro-batch is the last one once."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.connection.connection import BrokerConnection
from mainstem.client.wire.produce.transaction_requests import end_all, learn_capabilities, open_transactions
from mainstem.errors import ConfigError, PipelineFailedError, ProducerFencedError, TransactionTimeoutError
from mainstem.model import Position
from mainstem.protocol.schema import Message
from mainstem.spark import clients
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.clients import borrowed
from mainstem.spark.sink import task_producers
from mainstem.spark.sink.sink_driver import SinkDriver
from mainstem.spark.sink.sink_run import LONGEST_TIMEOUT, SinkRun
from mainstem.spark.sink.transactions import _DRIVERS, _KEPT, decide_and_finish, end_open_transactions
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.sink_world import DRIVER_STEPS, NUMBERS, TASK_STEPS, KilledError, Sink, killing, truth


def requests_of_this_thread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the requests that this thread sends from now on: others may follow topics of theirs meanwhile."""
    sent: list[str] = []
    send, sender = BrokerConnection.send, threading.get_ident()

    def noted(self: BrokerConnection, body: Message, *arguments: Any) -> Any:
        if threading.get_ident() == sender:
            sent.append(type(body).__name__.removesuffix("Request"))
        return send(self, body, *arguments)

    monkeypatch.setattr(BrokerConnection, "send", noted)
    return sent


@pytest.fixture
def sink(mainstem_broker: EmbeddedBroker, mainstem_log: Log) -> Sink:
    topic = f"transactions-{next(NUMBERS)}"
    mainstem_log.create_topic(topic, partitions=3)
    return Sink(mainstem_broker.bootstrap, topic)


def test_each_micro_batch_is_there_once(sink: Sink) -> None:
    run = sink.begin()
    for batch_id in range(3):
        sink.batch(run, batch_id)
    assert sink.read() == truth(3)


@pytest.mark.parametrize("step", [*TASK_STEPS, *DRIVER_STEPS])
def test_a_run_that_ends_after_any_step_is_finished_by_the_next_one(
    sink: Sink, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    with monkeypatch.context() as dead:
        dead.setattr(task_producers.TaskProducer, "failed", lambda *_: None)  # nothing is cleared up
        with pytest.raises(KilledError):
            sink.batch(run, 1, killing(step))
    task_producers._THIS.renew()  # its workers are no more, either
    run = sink.begin()
    sink.batch(run, 1)
    sink.batch(run, 2)
    assert sink.read() == truth(3)


def test_a_run_that_was_taken_over_can_decide_nothing(sink: Sink) -> None:
    old = sink.begin()
    prepared = [sink.task(old, 0, 0)]
    new = sink.begin()  # which aborts that
    sink.batch(new, 0)
    with pytest.raises(ProducerFencedError, match="another run of this query has taken over"):
        decide_and_finish(old, 0, prepared)
    assert sink.read() == truth(1)


def test_a_task_that_nobody_waits_for_harms_nobody(sink: Sink) -> None:
    old = sink.begin()
    task_producers._THIS.renew()
    new = sink.begin()
    prepared = [sink.task(new, 0, task) for task in (0, 2)]
    task_producers._THIS.renew()  # another process
    sink.task(old, 0, 0)
    decide_and_finish(new, 0, prepared)
    assert sink.read() == truth(1)  # and what the late task has left open is ended


def test_what_a_killed_attempt_left_open_is_ended_with_the_micro_batch(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    with monkeypatch.context() as dead:
        dead.setattr(task_producers.TaskProducer, "failed", lambda *_: None)
        with pytest.raises(KilledError):
            sink.task(run, 1, 0, killing("task:appended"))
    task_producers._THIS.renew()
    again = replace(sink.task(run, 1, 0), attempt=1)
    decide_and_finish(run, 1, [again, sink.task(run, 1, 2)])
    assert sink.read() == truth(2)


def test_a_decision_may_be_asked_for_again(sink: Sink) -> None:
    run = sink.begin()
    prepared = [sink.task(run, 0, task) for task in (0, 2)]
    first = decide_and_finish(run, 0, prepared)
    again = decide_and_finish(run, 0, prepared)
    assert (again.position, again.records) == (first.position, 0)
    assert sink.read() == truth(1)


def test_a_sink_without_a_run_begins_with_each_decision(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id)
    for batch_id in (0, 1, 1, 2):  # the second one is run again, by tasks that do not know that it is decided
        sink.batch(run, batch_id)
    assert sink.read() == truth(3)


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_a_log_that_allows_only_short_transactions_is_written_to(two_phase: str) -> None:
    settings = {"transaction.max.timeout.ms": "30000", "transaction.two.phase.commit.enable": two_phase}
    with EmbeddedBroker(settings=settings) as broker, Log(broker.bootstrap) as log:
        log.create_topic("t", partitions=3)
        sink = Sink(broker.bootstrap, "t")
        sink.batch(sink.begin(), 0)
        assert sink.read() == truth(1)


def test_an_older_checkpoint_is_refused(sink: Sink) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    sink.batch(run, 1)
    with pytest.raises(ConfigError, match="has written micro-batch 1 already, and this is 0"):
        sink.batch(sink.begin(), 0)


def test_a_micro_batch_with_other_offsets_is_refused(sink: Sink) -> None:
    run = sink.begin()
    ends = [StreamOffsets(Position.of("t", 0, end), {}, Position()) for end in (5, 6)]
    decide_and_finish(run, 0, [sink.task(run, 0, 0)], ends[0])
    with pytest.raises(ConfigError, match="with other source offsets"):
        decide_and_finish(sink.begin(), 0, [], ends[1])


def test_two_hundred_tasks_are_decided_on_at_once(sink: Sink) -> None:
    run = sink.begin()
    decide_and_finish(run, 0, [sink.task(run, 0, task, rows=1) for task in range(200)])
    assert len(sink.read()) == 200
    decide_and_finish(run, 1, [sink.task(run, 1, 0, rows=1)])  # fewer, by producers that were there before
    run = sink.begin()
    assert run.decided == 1
    assert len(sink.read()) == 201


def test_an_abandoned_sink_holds_no_reader(sink: Sink) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    sink.task(run, 1, 0)
    assert end_open_transactions(sink.log, sink.sink_id) == 1
    assert sink.read() == truth(1)


def test_a_decided_transaction_that_was_aborted_is_said_to_be_lost(sink: Sink) -> None:
    run = sink.begin()
    with pytest.raises(KilledError):
        sink.batch(run, 0, killing("driver:decided"))
    with borrowed(sink.log) as client:
        found = open_transactions(client, run.group)
        end_all(client, found[:1], learn_capabilities(client), commit=False)  # as the log does after a time-out
    with pytest.raises(PipelineFailedError, match=r"1 of 2 transactions of micro-batch 0 .* records are lost"):
        sink.begin()


def test_an_empty_micro_batch_asks_the_log_for_nothing(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    sent = requests_of_this_thread(monkeypatch)
    decide_and_finish(run, 1, [sink.task(run, 1, task, rows=0) for task in range(4)])
    assert sent == []


def test_a_small_micro_batch_takes_four_requests(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sink.begin()
    for batch_id in range(2):
        decide_and_finish(run, batch_id, [sink.task(run, batch_id, 0, rows=1)])
    sent = requests_of_this_thread(monkeypatch)
    decide_and_finish(run, 2, [sink.task(run, 2, 0, rows=1)])
    assert sent == ["Produce", "TxnOffsetCommit", "EndTxn", "EndTxn"]


@pytest.mark.parametrize("is_in_another_process", [False, True])
def test_a_run_asks_for_no_more_than_it_needs_to_begin_and_go_on(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, is_in_another_process: bool
) -> None:
    sink.batch(sink.begin(), 0)
    sent = requests_of_this_thread(monkeypatch)
    run = sink.begin()
    begun = ["Metadata", "InitProducerId", "OffsetFetch", "EndTxn", "EndTxn", "Metadata", "ListTransactions"]
    assert sent == begun
    prepared = [sink.task(run, 1, 0, rows=1)]
    sent.clear()
    if is_in_another_process:
        _DRIVERS.renew()
        run = pickle.loads(pickle.dumps(run))
    decide_and_finish(run, 1, prepared)
    read = ["OffsetFetch"] if is_in_another_process else []
    searched = ["Metadata", "ListTransactions", "DescribeTransactions"]
    assert sent == [*read, *searched, "TxnOffsetCommit", "EndTxn", "EndTxn"]


def test_a_commit_in_a_process_of_its_own_finishes_what_one_before_has_left(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id)
    with pytest.raises(KilledError):
        sink.batch(run, 0, killing("driver:ended-first"))
    task_producers._THIS.renew()
    sink.batch(run, 1)  # though Spark would have had the former one committed before
    assert sink.read() == truth(2)


def test_a_commit_finds_out_that_its_transaction_was_aborted_meanwhile(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id)
    prepared = [sink.task(run, 0, 0)]
    sink.begin()  # which aborts that
    with pytest.raises(TransactionTimeoutError, match="aborted before the decision"):
        decide_and_finish(run, 0, prepared)
    assert sink.read() == []


def test_a_process_that_commits_again_asks_for_no_more_than_a_driver(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SinkRun(sink.log, sink.sink_id, query_run="1")
    for batch_id in range(2):
        decide_and_finish(run, batch_id, [sink.task(run, batch_id, 0, rows=1)])
    prepared = [sink.task(run, 2, 0, rows=1)]
    sent = requests_of_this_thread(monkeypatch)
    decide_and_finish(pickle.loads(pickle.dumps(run)), 2, prepared)
    assert sent == ["TxnOffsetCommit", "EndTxn", "EndTxn"]
    assert sink.read() == sorted(f"{batch_id}-0-0" for batch_id in range(3))


def test_processes_that_commit_in_turn_take_over_from_each_other(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id, query_run="1")
    processes: list[dict[SinkRun, SinkDriver]] = [{}, {}]
    for batch_id in range(6):
        kept = _KEPT.value
        kept.clear()
        kept.update(processes[batch_id // 2 % 2])
        sink.batch(run, batch_id)
        processes[batch_id // 2 % 2] = dict(kept)
    assert sink.read() == truth(6)


def test_a_kept_driver_that_was_fenced_writes_a_decided_micro_batch_once(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id, query_run="1")
    sink.batch(run, 0)
    kept = dict(_KEPT.value)
    _KEPT.renew()
    sink.batch(run, 1)  # in another process, which dies before Spark learns of it
    _KEPT.value.update(kept)
    sink.batch(run, 1)
    assert sink.read() == truth(2)


def test_a_kept_driver_decides_on_nothing_that_a_newer_run_has_aborted(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id, query_run="1")
    sink.batch(run, 0)
    prepared = [sink.task(run, 1, 0)]
    sink.begin()  # which aborts that
    with pytest.raises(TransactionTimeoutError, match="aborted before the decision"):
        decide_and_finish(run, 1, prepared)
    assert sink.read() == truth(1)


def test_a_restarted_query_begins_a_run_and_ends_what_the_former_left_open(sink: Sink) -> None:
    run = SinkRun(sink.log, sink.sink_id, query_run="1")
    sink.batch(run, 0)
    sink.task(run, 1, 0)  # by a query that is stopped then
    task_producers._THIS.renew()
    sink.batch(replace(run, query_run="2"), 1)
    assert sink.read() == truth(2)


def test_a_process_keeps_few_drivers(sink: Sink) -> None:
    for number in range(20):
        run = SinkRun(sink.log, sink.sink_id, query_run=str(number))
        decide_and_finish(run, number, [sink.task(run, number, 0, rows=1)])
    assert len(_KEPT.value) <= 16


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_sink_leaves_those_alone_whose_names_begin_with_its_own(sink: Sink, is_decided: bool) -> None:
    longer = Sink(sink.log.bootstrap, sink.topic)
    longer.sink_id = f"{sink.sink_id}-eu"
    runs = [SinkRun(each.log, each.sink_id, timeout_ms=LONGEST_TIMEOUT) for each in (sink, longer)]
    prepared = [longer.task(runs[1], 0, 0)]
    if is_decided:
        with pytest.raises(KilledError):
            decide_and_finish(runs[1], 0, prepared, on_step=killing("driver:decided"))
    sink.batch(runs[0], 0)
    end_open_transactions(sink.log, sink.sink_id)
    decide_and_finish(runs[1], 0, prepared)
    assert sink.read() == sorted([*truth(1), *(f"0-0-{row}" for row in range(10))])


def test_a_run_outlasts_any_number_of_others_that_begin(sink: Sink) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    other = Sink(sink.log.bootstrap, sink.topic)
    for _ in range(70):
        other.begin()  # and is gone at once, as a query is that fails when it starts
    sink.batch(run, 1)
    assert sink.read() == truth(2)
    assert len(_DRIVERS.value) < 70


def test_a_commit_in_a_process_of_its_own_asks_for_no_more_than_it_needs(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SinkRun(sink.log, sink.sink_id)
    for batch_id in range(2):
        decide_and_finish(run, batch_id, [sink.task(run, batch_id, 0, rows=1)])
    prepared = [sink.task(run, 2, 0, rows=1)]
    clients._IDLE.renew()  # as in a process that has just been forked
    task_producers._THIS.renew()
    sent = requests_of_this_thread(monkeypatch)
    decide_and_finish(run, 2, prepared)
    begun = ["Metadata", "FindCoordinator", "InitProducerId", "FindCoordinator", "OffsetFetch"]
    looked = ["ListTransactions", "DescribeTransactions"]
    assert sent == [*begun, *looked, "TxnOffsetCommit", "EndTxn", "EndTxn"]
    assert sink.read() == sorted(f"{batch_id}-0-0" for batch_id in range(3))
