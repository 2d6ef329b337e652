"""Apache Kafka as the source: what its own broker and log cleaner wrote is at the same offsets in a Mainstem log."""

from __future__ import annotations

from mainstem.client.wire.admin.groups import committed_offsets
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import delete_topic, set_topic_configs, topic_configs
from mainstem.model import Position
from tests.broker.harness import LogProcess
from tests.mirror import writing
from tests.mirror.pairs import assert_same, batches, copy_all
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually


def test_transactions_idempotent_producers_and_groups(apache_kafka: ApacheKafka, target: LogProcess) -> None:
    source = apache_kafka.bootstrap
    writing.create(source, "orders", 2, retention_ms="604800001")
    writing.produce(source, "orders", 100, **{"compression.type": "lz4"})
    writing.transactions(source, "orders", 6, "from-kafka")
    offset = writing.consume_some(source, "orders", "billing", 20)
    copy_all(source, target.bootstrap, "orders")
    assert assert_same(source, target.bootstrap, "orders", 2) > 10
    for committed in (True, False):
        assert writing.read(source, "orders", committed=committed, partitions=2) == writing.read(
            target.bootstrap, "orders", committed=committed, partitions=2
        )
    with WireClient(target.bootstrap) as client:
        assert topic_configs(client, "orders")["retention.ms"] == "604800001"
        assert offset in committed_offsets(client, "billing").values()
        assert committed_offsets(client, "billing") != Position()


def test_a_compacted_topic_keeps_its_gaps(apache_kafka: ApacheKafka, target: LogProcess) -> None:
    source = apache_kafka.bootstrap
    configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100"}
    writing.create(source, "compacted", 1, **configs)
    writing.produce(source, "compacted", 60)
    writing.transactions(source, "compacted", 4, "compacted-kafka")

    def has_gaps() -> bool:
        writing.produce(source, "compacted", 5)
        headers = [header for header, _ in batches(source, "compacted")]
        ends = [0, *(header.next_offset for header in headers)]
        return any(end != header.base_offset for end, header in zip(ends, headers, strict=False))

    eventually(has_gaps, "Apache Kafka's cleaner has taken whole batches", 120)
    with WireClient(source) as client:
        set_topic_configs(client, "compacted", {"min.compaction.lag.ms": "9000000000"})

    def copied() -> bool:
        """Whether the copy is compared with a source that stayed as it was from before the copying until after it."""
        before, read = batches(source, "compacted"), writing.read(source, "compacted")
        copy_all(source, target.bootstrap, "compacted")
        found = batches(target.bootstrap, "compacted"), writing.read(target.bootstrap, "compacted")
        if batches(source, "compacted") == before:
            assert found == (before, read)
            return True
        with WireClient(target.bootstrap) as client:  # a round of the cleaner still had the old configs
            delete_topic(client, "compacted")
        return False

    eventually(copied, "the source stays as it is while it is copied", 120)
