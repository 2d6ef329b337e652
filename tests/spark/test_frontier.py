"""How far a stream's partitions reach, while a broker of the cluster is gone."""

from __future__ import annotations

from contextlib import ExitStack

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.model import Position
from mainstem.protocol.schema import ZERO_UUID
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning.micro_batch_offsets import OffsetRangePlanner
from tests.client.wire.test_several_brokers import FIRST, SECOND, Cluster


def test_a_partition_without_a_leader_stands_still_and_is_no_new_life() -> None:
    since = StreamOffsets(Position({FIRST: 0, SECOND: 0}), {"t": str(ZERO_UUID)}, Position())
    cluster = Cluster()
    cluster.is_down[1] = True
    with ExitStack() as stack:
        for broker in cluster.brokers:
            stack.enter_context(broker)
        bootstrap = cluster.brokers[0].bootstrap
        client = stack.enter_context(WireClient(bootstrap, timeout_s=60))
        scout = OffsetRangePlanner(ReadOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "t"}))
        frontier = scout.find(client, since, "reader", 0)
    assert (frontier.ends.get(SECOND), frontier.losses) == (0, ())
    assert frontier.topic_ids == since.topic_ids
