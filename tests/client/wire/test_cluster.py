from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster import listed_offsets
from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.coordinated import find_coordinator
from mainstem.client.wire.produce.producers import init_producer_id
from mainstem.errors import (
    CorruptBatchError,
    InputError,
    LogUnavailableError,
    OffsetOutOfRangeError,
    ProducerError,
    RecordTooLargeError,
    RemoteError,
    UnknownTopicError,
)
from mainstem.model import TopicPartition
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from mainstem.protocol.messages.init_producer_id import InitProducerIdResponse
from mainstem.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.client.scripted_broker import FALL_BACK, Answer, ScriptedBroker
from tests.support.eventually import eventually

NewTopic = Callable[..., str]
TP = TopicPartition("t", 0)


def batch(*values: bytes, stamp: ProducerStamp | None = None) -> bytes:
    return build_batch([NewRecord(None, value, (), 1_700_000_000_000) for value in values], producer=stamp)


def offsets_answer(code: int, offset: int = 17) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, timestamp=-1, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def produced_answer(base_offset: int, code: int = 0) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=base_offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


# ---- against real brokers


def test_batches_come_back_as_they_were_produced(wire: WireClient, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    assert [wire.produce(tp, batch(b"a", b"b")), wire.produce(tp, batch(b"c"))] == [0, 2]
    fetched = wire.fetch({tp: 0})[tp]
    assert [(r.offset, r.value) for r in iter_records(fetched.records)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (3, 3, 0)


def test_one_fetch_reads_several_partitions_and_keeps_their_errors_apart(wire: WireClient, new_topic: NewTopic) -> None:
    first, second = (TopicPartition(topic, p) for topic, p in ((new_topic(2), 1), (new_topic(), 0)))
    wire.produce(first, batch(b"a"))
    wire.list_offsets([second])  # a broker may learn of a new topic late, and says so for its partitions alone
    fetched = wire.fetch({first: 0, second: 5})
    assert [r.value for r in iter_records(fetched[first].records)] == [b"a"]
    assert isinstance(fetched[second].error, OffsetOutOfRangeError)
    assert "no offset 5" in str(fetched[second].error)


def test_fetches_may_reuse_their_memory(bootstrap: str, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    with WireClient(bootstrap, reuse_buffers=True) as wire:
        wire.produce(tp, batch(b"a" * 100_000))
        first, second = wire.fetch({tp: 0})[tp].records, wire.fetch({tp: 0})[tp].records
        assert first.obj is second.obj
        assert [len(r.value or b"") for r in iter_records(second)] == [100_000]


def test_a_fetch_waits_for_records(wire: WireClient, bootstrap: str, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    wire.fetch({tp: 0}, max_wait_ms=0)
    with WireClient(bootstrap) as other:
        appender = threading.Timer(0.05, lambda: other.produce(tp, batch(b"late")))
        appender.start()
        fetched = wire.fetch({tp: 0}, max_wait_ms=10_000)[tp]
        appender.join(10)
    assert [r.value for r in iter_records(fetched.records)] == [b"late"]


def test_offsets_are_listed_at_both_ends_and_at_a_time(wire: WireClient, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    wire.produce(tp, batch(b"a"))
    assert wire.list_offsets([tp], EARLIEST) == {tp: 0}
    assert wire.list_offsets([tp], LATEST, Isolation.READ_COMMITTED) == {tp: 1}
    assert wire.list_offsets([tp], 1_700_000_000_000) == {tp: 0}
    assert wire.list_offsets([tp], 1_700_000_000_001) == {}


def test_offsets_of_many_partitions_are_listed_in_several_requests(
    wire: WireClient, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_offsets, "_PARTITIONS_MAX", 2)
    topics = {new_topic(count): count for count in (3, 4)}
    tps = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    for number, tp in enumerate(tps):
        wire.produce(tp, batch(*[b"a"] * (number + 1)))
    ends = {tp: number + 1 for number, tp in enumerate(tps)}
    assert wire.list_offsets(tps) == ends
    assert wire.list_ends(tps) == [dict.fromkeys(tps, 0), ends]


def test_an_error_among_several_requests_leaves_no_answer_to_the_next_one(
    wire: WireClient, new_topic: NewTopic, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_offsets, "_PARTITIONS_MAX", 1)
    gone, kept = TopicPartition(new_topic(), 0), TopicPartition(new_topic(), 0)
    wire.metadata([gone.topic, kept.topic])
    log.delete_topic(gone.topic)

    def is_refused() -> bool:
        try:
            wire.list_offsets([gone, kept])
        except UnknownTopicError:
            return True
        return False

    eventually(is_refused, "the broker no longer knows the topic")  # Apache Kafka answers the deletion before
    assert wire.list_ends([kept]) == [{kept: 0}, {kept: 0}]


def test_metadata_leaves_out_what_does_not_exist_and_creates_nothing(wire: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    found = wire.metadata([topic, "never-made"])
    assert list(found) == [topic]
    assert sorted(found[topic].partitions) == [0, 1]
    assert "never-made" not in wire.metadata()


@pytest.mark.parametrize("tp", [TopicPartition("never-made", 0), None])
def test_a_partition_that_does_not_exist_is_unknown(
    wire: WireClient, new_topic: NewTopic, tp: TopicPartition | None
) -> None:
    tp = tp or TopicPartition(new_topic(), 1)
    for call in (lambda: wire.fetch({tp: 0}), lambda: wire.list_offsets([tp]), lambda: wire.produce(tp, batch(b"x"))):
        with pytest.raises(UnknownTopicError):
            call()


def test_a_partition_that_was_added_is_found(wire: WireClient, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic(partitions=1)
    wire.metadata([name])
    added = CreatePartitionsTopic(name=name, count=2, assignments=None)
    with WireClient(bootstrap) as other:
        other.request(CreatePartitionsRequest(topics=[added], timeout_ms=10_000, validate_only=False))
        # A broker of Apache Kafka learns of it after the controller has answered.
        eventually(lambda: len(other.metadata([name])[name].partitions) == 2, "the broker knows the new partition")
    new = TopicPartition(name, 1)
    assert wire.fetch({new: 0})[new].records.nbytes == 0


def test_a_topic_made_again_is_not_read_at_its_former_offsets(wire: WireClient, log: Log, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    wire.produce(tp, batch(b"former"))
    wire.fetch({tp: 0})
    log.delete_topic(tp.topic)
    log.create_topic(tp.topic)
    assert isinstance(wire.fetch({tp: 0})[tp].error, UnknownTopicError)
    assert wire.fetch({tp: 0}, max_wait_ms=0)[tp].error is None


def test_a_stamped_batch_that_is_sent_twice_stands_in_the_log_once(wire: WireClient, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(), 0)
    producer_id, epoch = init_producer_id(wire)
    data = batch(b"a", b"b", stamp=ProducerStamp(producer_id, epoch, 0))
    assert [wire.produce(tp, data), wire.produce(tp, data)] == [0, 0]
    assert wire.list_offsets([tp]) == {tp: 2}
    with pytest.raises(ProducerError):
        wire.produce(tp, batch(b"c", stamp=ProducerStamp(producer_id, epoch, 9)))


def test_a_batch_that_the_log_refuses_is_a_clear_error(wire: WireClient, new_topic: NewTopic) -> None:
    tp = TopicPartition(new_topic(max_message_bytes="1000"), 0)
    damaged = bytearray(batch(b"x" * 100))
    damaged[-1] ^= 1
    with pytest.raises(RecordTooLargeError):
        wire.produce(tp, batch(b"x" * 2000))
    with pytest.raises(CorruptBatchError):
        wire.produce(tp, damaged)
    with pytest.raises(InputError, match="acks=0"):
        wire.produce(tp, batch(b"x"), acks=0)
    assert wire.list_offsets([tp]) == {tp: 0}


def test_any_request_can_be_sent(wire: WireClient) -> None:
    [node] = wire.metadata() and wire.brokers
    answer = wire.request(MetadataRequest(topics=[]), node)
    assert [broker.node_id for broker in answer.brokers] == [node]


# ---- against a broker that follows a script


def test_an_error_that_may_heal_is_tried_again_with_fresh_metadata() -> None:
    codes = iter([6, 5, 0])

    def answer(request: Request) -> Answer | NotImplementedError:
        return offsets_answer(next(codes)) if request.api_key == ApiKey.LIST_OFFSETS else FALL_BACK

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=5) as wire:
        assert wire.list_offsets([TP]) == {TP: 17}
        assert broker.count(ApiKey.METADATA) == 3


def test_a_broken_connection_is_opened_again() -> None:
    breaks = iter([True, True, False])

    def answer(request: Request) -> Answer | NotImplementedError:
        if request.api_key != ApiKey.LIST_OFFSETS:
            return FALL_BACK
        return None if next(breaks) else offsets_answer(0)

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=5) as wire:
        assert wire.list_offsets([TP]) == {TP: 17}
        assert broker.count(ApiKey.API_VERSIONS) == 3


def loses_the_first_produce() -> Callable[[Request], Answer | NotImplementedError]:
    lost = iter([True, False])

    def answer(request: Request) -> Answer | NotImplementedError:
        if request.api_key != ApiKey.PRODUCE:
            return FALL_BACK
        return None if next(lost) else produced_answer(17)

    return answer


def test_a_stamped_batch_is_sent_again_when_its_answer_got_lost() -> None:
    with ScriptedBroker(loses_the_first_produce()) as broker, WireClient(broker.bootstrap, timeout_s=60) as wire:
        assert wire.produce(TP, batch(b"x", stamp=ProducerStamp(7, 0, 0))) == 17
        assert broker.count(ApiKey.PRODUCE) == 2


def test_a_batch_without_a_stamp_is_not_sent_again() -> None:
    with ScriptedBroker(loses_the_first_produce()) as broker, WireClient(broker.bootstrap, timeout_s=60) as wire:
        with pytest.raises(LogUnavailableError):
            wire.produce(TP, batch(b"x"))
        assert broker.count(ApiKey.PRODUCE) == 1


def test_a_producer_id_is_asked_for_again_when_its_answer_got_lost() -> None:
    breaks = iter([True, False])

    def answer(request: Request) -> Answer | NotImplementedError:
        if request.api_key == ApiKey.API_VERSIONS:
            return ScriptedBroker.versions((ApiKey.INIT_PRODUCER_ID, 0, 4), (ApiKey.METADATA, 0, 12))
        if request.api_key != ApiKey.INIT_PRODUCER_ID:
            return FALL_BACK
        return None if next(breaks) else InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=0)

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=5) as wire:
        assert init_producer_id(wire).producer_id == 7


def test_what_does_not_heal_in_time_is_unavailable_and_names_its_code() -> None:
    def answer(request: Request) -> Answer | NotImplementedError:
        return broker.metadata(leader=-1) if request.api_key == ApiKey.METADATA else FALL_BACK

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=2) as wire:
        with pytest.raises(LogUnavailableError, match=r"gave up after 2 s: t/0: .*LEADER_NOT_AVAILABLE") as raised:
            wire.list_offsets([TP])
    assert isinstance(raised.value.__cause__, RemoteError)
    assert raised.value.__cause__.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_coordinator_that_loads_for_too_long_is_unavailable() -> None:
    loading = FindCoordinatorResponse(error_code=0, node_id=1, host="", port=0, coordinators=[loading_coordinator("g")])

    def answer(request: Request) -> Answer | NotImplementedError:
        if request.api_key == ApiKey.API_VERSIONS:
            return ScriptedBroker.versions((ApiKey.METADATA, 0, 12), (ApiKey.FIND_COORDINATOR, 0, 4))
        return loading if request.api_key == ApiKey.FIND_COORDINATOR else FALL_BACK

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=1) as wire:
        with pytest.raises(LogUnavailableError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            find_coordinator(wire, "g")


def loading_coordinator(key: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error_message=None
    )


def test_a_batch_that_the_log_refuses_until_the_time_is_over_stays_refused() -> None:
    """A LogUnavailableError would leave open whether the batch is in the log."""

    def answer(request: Request) -> Answer | NotImplementedError:
        return produced_answer(-1, ErrorCode.NOT_ENOUGH_REPLICAS) if request.api_key == ApiKey.PRODUCE else FALL_BACK

    with ScriptedBroker(answer) as broker, WireClient(broker.bootstrap, timeout_s=1) as wire:
        with pytest.raises(RemoteError, match="NOT_ENOUGH_REPLICAS"):
            wire.produce(TP, batch(b"x", stamp=ProducerStamp(7, 0, 0)))


def test_closing_a_client_ends_who_waits_on_it() -> None:
    asked, over, failures = threading.Event(), threading.Event(), []

    def answer(request: Request) -> Answer | NotImplementedError:
        if request.api_key != ApiKey.FETCH:
            return FALL_BACK
        asked.set()
        over.wait(10)
        return None

    def fetch() -> None:
        try:
            wire.fetch({TP: 0}, max_wait_ms=60_000)
        except LogUnavailableError as error:
            failures.append(str(error))

    with ScriptedBroker(answer) as broker:
        wire = WireClient(broker.bootstrap)
        thread = threading.Thread(target=fetch)
        thread.start()
        assert asked.wait(10)
        wire.close()
        thread.join(10)
        over.set()
    assert failures == ["the client is closed"]


def test_one_dead_address_of_several_does_not_matter() -> None:
    with ScriptedBroker(lambda request: FALL_BACK) as broker:
        with WireClient(f"127.0.0.1:1,{broker.bootstrap}", timeout_s=5) as wire:
            assert list(wire.metadata()) == ["t"]
