"""``mainstem mirror`` from an Apache Kafka cluster of three brokers, of which one is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.model import TopicPartition
from tests.broker.harness import LogProcess
from tests.mirror import writing
from tests.mirror.pairs import MirrorProcess, assert_same, ends
from tests.support.eventually import eventually
from tests.support.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.cluster, pytest.mark.maven, pytest.mark.timeout(900)]

PARTITIONS = 6


def test_a_cluster_that_loses_a_broker_is_copied_at_equal_offsets(tmp_path: Path) -> None:
    with KafkaCluster() as cluster, LogProcess(tmp_path / "data") as target:
        source = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": source, **writing.QUIET})
        topic = NewTopic("orders", PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["orders"].result(60)
        writing.produce(source, "orders", 500)
        writing.transactions(source, "orders", 6, "before")
        with MirrorProcess(source, target.bootstrap, tmp_path / "mirror.log") as mirror:
            mirror.wait_ready()
            leader = admin.list_topics("orders", 30).topics["orders"].partitions[0].leader
            cluster.kill(leader)
            writing.produce(source, "orders", 500, begin=500)
            writing.transactions(source, "orders", 6, "after")
            tps = [TopicPartition("orders", number) for number in range(PARTITIONS)]

            def is_level() -> bool:
                return ends(source, tps) == ends(target.bootstrap, tps)

            eventually(is_level, "both end alike, with a broker less", 120)
            assert mirror.end() == 0, mirror.text
        assert assert_same(source, target.bootstrap, "orders", PARTITIONS) > 100
        committed = [writing.read(each, "orders", partitions=PARTITIONS) for each in (source, target.bootstrap)]
        assert committed[0] == committed[1]
