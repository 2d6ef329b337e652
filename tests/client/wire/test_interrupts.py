"""Ctrl-C in mid-call: the connection that it left is not used again, because an answer is on its way on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mainstem.addresses import Address
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.connection.pool import Pool
from mainstem.client.wire.connection.transport import Stream, connect
from mainstem.model import TopicPartition
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.schema import Buffer
from mainstem.testing.embedded import EmbeddedBroker

Call = Callable[[WireClient, TopicPartition], object]


class Interrupting:
    """Dials streams that raise KeyboardInterrupt once it is ``due``: in sending, or before an answer is read."""

    def __init__(self) -> None:
        self.due: str | None = None

    def __call__(self, address: Address, deadline: Deadline) -> Stream:
        return _InterruptedStream(self, address, deadline)

    def maybe_interrupt(self, what: str) -> None:
        if self.due == what:
            self.due = None
            raise KeyboardInterrupt


class _InterruptedStream(Stream):
    def __init__(self, interrupting: Interrupting, address: Address, deadline: Deadline) -> None:
        super().__init__(connect(address, deadline), address)
        self._interrupting = interrupting

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        super().send(buffers[:1], deadline)
        self._interrupting.maybe_interrupt("sending")
        super().send(buffers[1:], deadline)

    def receive_some(self, view: memoryview, deadline: Deadline) -> int:
        self._interrupting.maybe_interrupt("receiving")
        return super().receive_some(view, deadline)


def metadata(client: WireClient, tp: TopicPartition) -> object:
    return sorted(client.metadata([tp.topic]))


def list_offsets(client: WireClient, tp: TopicPartition) -> object:
    return client.list_offsets([tp])


def fetch(client: WireClient, tp: TopicPartition) -> object:
    return client.fetch({tp: 0}, max_wait_ms=0)[tp].high_watermark


def request_all(client: WireClient, tp: TopicPartition) -> object:
    [node] = client.brokers
    groups, topic = client.request_all([(ListGroupsRequest(), node), (MetadataRequest(topics=None), node)])
    return type(groups), type(topic)


@pytest.mark.parametrize("when", ["sending", "receiving"])
@pytest.mark.parametrize("call", [metadata, list_offsets, fetch, request_all])
def test_an_interrupted_call_leaves_no_answer_to_the_next_one(
    mainstem_broker: EmbeddedBroker, mainstem_topic: str, call: Call, when: str
) -> None:
    interrupting, tp = Interrupting(), TopicPartition(mainstem_topic, 0)
    with WireClient(mainstem_broker.bootstrap, timeout_s=60, dial=interrupting) as client:
        answers = [each(client, tp) for each in (metadata, list_offsets, call)]
        interrupting.due = when
        with pytest.raises(KeyboardInterrupt):
            call(client, tp)
        assert [each(client, tp) for each in (metadata, list_offsets, call)] == answers


def test_what_was_interrupted_is_not_lent_again() -> None:
    pool = Pool(lambda: WireClient("127.0.0.1:1"))
    lent: list[WireClient] = []

    def be_interrupted() -> None:
        with pool.borrow() as client:
            lent.append(client)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        be_interrupted()
    with pool.borrow() as other:
        assert other not in lent
