from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import LogUnavailableError
from mainstem.model import TopicPartition
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request
from mainstem.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, build_batch
from tests.client.scripted_broker import FALL_BACK, Answer, ScriptedBroker, cluster_metadata

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Two brokers, each of which leads one partition of topic ``t`` and answers fetches with a record of its own."""

    def __init__(self) -> None:
        self.brokers = [ScriptedBroker(self.answering(number)) for number in range(2)]
        self.waits_ms: list[int] = []
        self.is_down = [False, False]

    def answering(self, number: int) -> Callable[[Request], Answer | NotImplementedError]:
        def answer(request: Request) -> Answer | NotImplementedError:
            if request.api_key == ApiKey.METADATA:
                ports = {node: broker.port for node, broker in enumerate(self.brokers, 1)}
                return cluster_metadata(ports, ["t"], [1, 2])
            if request.api_key != ApiKey.FETCH:
                return FALL_BACK
            self.waits_ms.append(request.body.max_wait_ms)
            return None if self.is_down[number] else self.fetched(number)

        return answer

    def fetched(self, number: int) -> FetchResponse:
        records = build_batch([NewRecord(None, b"of broker %d" % (number + 1))])
        partition = PartitionData(
            partition_index=number, error_code=0, high_watermark=1, aborted_transactions=None, records=records
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    with ExitStack() as stack:
        for broker in cluster.brokers:
            stack.enter_context(broker)
        yield cluster


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.brokers[0].bootstrap, timeout_s=0.3) as wire:
        yield wire


def values(wire: WireClient) -> dict[TopicPartition, list[bytes | None]]:
    fetched = wire.fetch({FIRST: 0, SECOND: 0}, max_wait_ms=10_000)
    return {tp: [record.value for record in iter_records(part.records)] for tp, part in fetched.items()}


def test_each_partition_is_fetched_from_its_leader(wire: WireClient) -> None:
    assert values(wire) == {FIRST: [b"of broker 1"], SECOND: [b"of broker 2"]}


def test_no_broker_is_waited_for_while_another_may_have_records(cluster: Cluster, wire: WireClient) -> None:
    values(wire)
    wire.fetch({FIRST: 0}, max_wait_ms=10_000)
    assert cluster.waits_ms == [50, 50, 10_000]


def test_a_broker_that_is_down_takes_only_its_own_partitions_with_it(cluster: Cluster, wire: WireClient) -> None:
    cluster.is_down[1] = True
    fetched = wire.fetch({FIRST: 0, SECOND: 0})
    assert fetched[FIRST].error is None
    assert isinstance(fetched[SECOND].error, LogUnavailableError)
    assert fetched[SECOND].heals
    cluster.is_down[1] = False
    assert values(wire)[SECOND] == [b"of broker 2"]


def test_when_all_brokers_are_down_the_fetch_gives_up_in_time(cluster: Cluster, wire: WireClient) -> None:
    cluster.is_down = [True, True]
    with pytest.raises(LogUnavailableError, match="gave up after"):
        wire.fetch({FIRST: 0, SECOND: 0}, max_wait_ms=0)
