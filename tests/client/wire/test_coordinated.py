"""Asking coordinators that move, or that are gone."""

from __future__ import annotations

import itertools
import socket

import pytest

from mainstem.client.wire.admin.groups import committed_offsets, list_groups
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import LogUnavailableError
from mainstem.model import Position
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request
from mainstem.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from mainstem.protocol.messages.list_groups import ListGroupsResponse
from mainstem.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tests.client.scripted_broker import FALL_BACK, Answer, ScriptedBroker, cluster_metadata

GONE, LIVE = 2, 1


def port_of_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return int(gone.getsockname()[1])


class HalfACluster:
    """A broker whose fellow is gone; ``says`` are the coordinators that it names, the last one for ever."""

    def __init__(self, *says: int) -> None:
        self._says = itertools.chain(says, itertools.repeat(says[-1]))
        self._ports = {GONE: port_of_nobody()}
        self._looks = 0
        self.broker = ScriptedBroker(self.answer)
        self._ports[LIVE] = self.broker.port

    def answer(self, request: Request) -> Answer | NotImplementedError:
        if request.api_key == ApiKey.API_VERSIONS:
            return ScriptedBroker.versions((3, 0, 12), (9, 1, 9), (10, 0, 6), (16, 0, 5))
        if request.api_key == ApiKey.METADATA:
            self._looks += 1
            return cluster_metadata(self._ports if self._looks < 3 else {LIVE: self.broker.port}, [], [])
        if request.api_key == ApiKey.FIND_COORDINATOR:
            node = next(self._says)
            found = Coordinator(key="g", node_id=node, host="127.0.0.1", port=self._ports[node], error_code=0)
            return FindCoordinatorResponse(
                error_code=0, node_id=node, host="127.0.0.1", port=found.port, coordinators=[found]
            )
        if request.api_key == ApiKey.OFFSET_FETCH:
            group = OffsetFetchResponseGroup(group_id="g", topics=[], error_code=0)
            return OffsetFetchResponse(topics=[], error_code=0, groups=[group])
        if request.api_key == ApiKey.LIST_GROUPS:
            return ListGroupsResponse(error_code=0, groups=[])
        return FALL_BACK


def test_a_coordinator_that_is_gone_is_looked_for_again() -> None:
    cluster = HalfACluster(GONE, GONE, LIVE)
    with cluster.broker as broker, WireClient(broker.bootstrap, timeout_s=60) as client:
        assert committed_offsets(client, "g") == Position()
        assert broker.count(ApiKey.FIND_COORDINATOR) == 3
        assert committed_offsets(client, "g") == Position()
        assert broker.count(ApiKey.FIND_COORDINATOR) == 3


def test_a_coordinator_that_stays_away_is_an_error_in_time() -> None:
    cluster = HalfACluster(GONE)
    with cluster.broker as broker, WireClient(broker.bootstrap, timeout_s=2.0) as client:
        with pytest.raises(LogUnavailableError, match=r"gave up after 2 s: the log at .* cannot be reached"):
            committed_offsets(client, "g")


def test_a_list_of_all_brokers_leaves_out_one_that_is_gone_once_the_cluster_does() -> None:
    cluster = HalfACluster(LIVE)
    with cluster.broker as broker, WireClient(broker.bootstrap, timeout_s=60) as client:
        assert list_groups(client) == []
