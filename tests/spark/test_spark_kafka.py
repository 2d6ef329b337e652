"""Our source beside Spark's own Kafka connector, on the version of Spark that it comes for: the same rows."""

from __future__ import annotations

import json

import pytest

from mainstem import Log
from mainstem.client.wire.cluster import WireClient
from mainstem.model import TopicPartition
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing import BrokerProcess
from tests.support.spark_kafka import ensure_spark_kafka

pytestmark = [pytest.mark.spark, pytest.mark.maven]


def fill(bootstrap: str, topic: str) -> None:
    """Batches of each codec, of records with and without keys, values and headers, in two partitions."""
    with WireClient(bootstrap) as client:
        for number, codec in enumerate(Compression):
            records = [
                NewRecord(
                    None if n % 3 == 0 else f"key-{n}".encode(),
                    None if n % 5 == 0 else bytes([n]) * n,
                    () if n % 4 == 0 else (("name", b"value"), ("name", None), ("héàder", b"")),
                    1_700_000_000_000 + n,
                )
                for n in range(200)
            ]
            client.produce(TopicPartition(topic, number % 2), build_batch(records, compression=codec))


@pytest.mark.timeout(1200)  # the first run fetches the other Spark
def test_the_rows_of_both_connectors_are_the_same() -> None:
    both = ensure_spark_kafka()
    with BrokerProcess() as broker, Log(broker.bootstrap) as log:
        log.create_topic("mixed", partitions=2, configs={"retention.ms": "-1"})
        fill(broker.bootstrap, "mixed")
        done = both.run("-m", "tests.support.same_rows", broker.bootstrap, "mixed")
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {"topic": "mixed", "ours": 1000, "theirs": 1000, "only_ours": [], "only_theirs": []}
