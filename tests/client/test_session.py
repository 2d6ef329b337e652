from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mainstem.client.append.session import AppendSession
from mainstem.client.log import Log
from mainstem.client.records import EncodedRecord
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.clock import SystemClock
from mainstem.errors import (
    AuthorizationError,
    ConditionFailedError,
    InvalidTimestampError,
    LogUnavailableError,
    MainstemError,
    OutcomeUnknownError,
    PartitionOfflineError,
    RecordTooLargeError,
)
from mainstem.model import Position, TopicPartition
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request
from mainstem.protocol.messages.init_producer_id import InitProducerIdResponse
from mainstem.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from mainstem.record.append_headers import EXPECT_END, condition_failed
from mainstem.record.header import read_header
from tests.client.scripted_broker import FALL_BACK, Answer, ScriptedBroker

TOO_LARGE, NO_ACCESS, BAD_TIMESTAMP, OUT_OF_ORDER, STORAGE_ERROR, INVALID_RECORD = 10, 29, 32, 45, 56, 87
UNKNOWN_TOPIC, NOT_LEADER = 3, 6


class Producing:
    """Answers produce requests with the given error codes, or by breaking the connection; keeps the stamps it saw."""

    def __init__(self, *codes: int | None) -> None:
        self.codes = iter(codes)
        self.stamps: list[tuple[int, int]] = []
        self.producers = 0

    def __call__(self, request: Request) -> Answer | NotImplementedError:
        if request.api_key == ApiKey.API_VERSIONS:
            return ScriptedBroker.versions((0, 3, 9), (3, 0, 12), (18, 0, 4), (22, 0, 4))
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            self.producers += 1
            return InitProducerIdResponse(error_code=0, producer_id=self.producers, producer_epoch=0)
        if request.api_key != ApiKey.PRODUCE:
            return FALL_BACK
        header = read_header(request.body.topic_data[0].partition_data[0].records)
        self.stamps.append((header.producer_id, header.base_sequence))
        code = next(self.codes)
        said = str(condition_failed(0, EXPECT_END, 1, 2)) if code == INVALID_RECORD else None
        partition = PartitionProduceResponse(index=0, error_code=code or 0, base_offset=40, error_message=said)
        topic = TopicProduceResponse(name="t", partition_responses=[partition])
        return None if code is None else ProduceResponse(responses=[topic])


def session(broker: ScriptedBroker, timeout_s: float = 5.0) -> AppendSession:
    return AppendSession(WireClient(broker.bootstrap, timeout_s=timeout_s), SystemClock())


def records(*values: bytes) -> list[EncodedRecord]:
    return [EncodedRecord(value, None) for value in values]


def test_sequences_follow_from_what_was_acknowledged() -> None:
    with ScriptedBroker(producing := Producing(0, 0)) as broker:
        one = session(broker)
        assert one.append("t", records(b"a", b"b")) == Position.of("t", 0, 42)
        one.append("t", records(b"c"))
        one.close()
    assert producing.stamps == [(1, 0), (1, 2)]


def test_a_batch_whose_answer_got_lost_is_sent_again_as_the_same() -> None:
    with ScriptedBroker(producing := Producing(None, 0, 0)) as broker:
        one = session(broker)
        one.append("t", records(b"a"))
        one.append("t", records(b"b"))
        one.close()
    assert producing.stamps == [(1, 0), (1, 0), (1, 1)]


def test_a_batch_whose_answer_never_comes_may_have_been_appended() -> None:
    with ScriptedBroker(Producing(*[None] * 1000)) as broker:
        one = session(broker, timeout_s=2.0)
        with pytest.raises(OutcomeUnknownError) as unknown:
            one.append("t", records(b"a"))
        one.close()
    assert not unknown.value.retriable


def test_what_was_never_sent_was_not_appended() -> None:
    with ScriptedBroker(Producing(0)) as broker:
        one = session(broker, timeout_s=2.0)
        one.append("t", records(b"a"))
        one._client._connections.close()
    with pytest.raises(LogUnavailableError) as away:
        one.append("t", records(b"b"))
    assert type(away.value) is LogUnavailableError
    one.close()


@pytest.mark.parametrize("code", [UNKNOWN_TOPIC, NOT_LEADER, OUT_OF_ORDER])
def test_a_batch_whose_answer_got_lost_is_not_sent_as_a_new_one(code: int) -> None:
    """None of these says whether the first attempt was appended."""
    with ScriptedBroker(producing := Producing(None, *[code] * 1_000)) as broker:
        one = session(broker, timeout_s=1.0)
        with pytest.raises(OutcomeUnknownError):
            one.append("t", records(b"a"))
        one.close()
    assert set(producing.stamps) == {(1, 0)}


def test_a_batch_whose_fate_is_unknown_ends_the_producer() -> None:
    with ScriptedBroker(producing := Producing(STORAGE_ERROR, 0)) as broker:
        one = session(broker)
        with pytest.raises(PartitionOfflineError):
            one.append("t", records(b"a"))
        one.append("t", records(b"b"))
        one.close()
    assert producing.stamps[-1] == (2, 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [(NO_ACCESS, AuthorizationError), (TOO_LARGE, RecordTooLargeError), (BAD_TIMESTAMP, InvalidTimestampError)],
)
def test_a_record_whose_answer_got_lost_before_it_was_refused_hides_no_later_one(
    code: int, error: type[MainstemError]
) -> None:
    with ScriptedBroker(producing := Producing(None, code, 0)) as broker:
        one = session(broker)
        with pytest.raises(error):
            one.append("t", records(b"perhaps in the log as (1, 0)"))
        one.append("t", records(b"another"))
        one.close()
    assert producing.stamps == [(1, 0), (1, 0), (2, 0)]


def test_a_condition_that_does_not_hold_leaves_the_producer_as_it_was() -> None:
    with ScriptedBroker(producing := Producing(INVALID_RECORD, 0)) as broker:
        one = session(broker)
        with pytest.raises(ConditionFailedError):
            one.append("t", records(b"a"))
        one.append("t", records(b"b"))
        one.close()
    assert producing.stamps == [(1, 0), (1, 0)]


def test_a_producer_that_the_log_has_forgotten_is_replaced_without_a_word() -> None:
    with ScriptedBroker(producing := Producing(0, OUT_OF_ORDER, 0)) as broker:
        one = session(broker)
        one.append("t", records(b"a"))
        assert one.append("t", records(b"b")) == Position.of("t", 0, 41)
        one.close()
    assert producing.stamps == [(1, 0), (1, 1), (2, 0)]


def test_records_without_a_key_stay_together_and_keys_have_their_partition(
    wire: WireClient, new_topic: Callable[..., str]
) -> None:
    topic, one = new_topic(partitions=8), AppendSession(wire, SystemClock())
    assert len(one.append(topic, records(b"a", b"b", b"c"))) == 1
    position = one.append(topic, [EncodedRecord(b"v", b"k%d" % n) for n in range(100)])
    assert position.keys() == {TopicPartition(topic, partition) for partition in range(8)}


@pytest.mark.parametrize(
    ("api_key", "says"),
    [
        (ApiKey.API_VERSIONS, "the client is closed"),
        (ApiKey.PRODUCE, "it is not known whether the record was appended: the client is closed"),
    ],
)
def test_closing_the_log_ends_an_append_whose_answer_does_not_come(api_key: ApiKey, says: str) -> None:
    asked, over = threading.Event(), threading.Event()
    errors: list[str] = []

    def hang(request: Request) -> Answer | NotImplementedError:
        if request.api_key == api_key:
            asked.set()
            over.wait(60)
            return None
        return producing(request)

    def append() -> None:
        try:
            log.append("t", "v")
        except LogUnavailableError as error:
            errors.append(str(error))

    producing = Producing()
    with ScriptedBroker(hang) as broker:
        log = Log(broker.bootstrap, timeout_s=300)
        thread = threading.Thread(target=append, daemon=True)
        thread.start()
        assert asked.wait(60)
        log.close()
        thread.join(60)
        over.set()
    assert errors == [says]
