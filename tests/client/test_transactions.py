"""Reading over transactions; against Apache Kafka, which has them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.model import TopicPartition

pytestmark = pytest.mark.maven


@pytest.fixture
def kafka_log(kafka_bootstrap: str) -> Log:
    log = Log(kafka_bootstrap, timeout_s=15.0)
    log.create_topic("transactional", exist_ok=True)
    return log


def test_a_reader_passes_aborted_records_and_markers_and_stops_before_what_is_open(kafka_log: Log) -> None:
    producer = Producer({"bootstrap.servers": kafka_log.bootstrap, "transactional.id": "txn"})
    producer.init_transactions(15)
    for values, finish in (("ab", producer.commit_transaction), ("cd", producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce("transactional", value)
        producer.flush(15)
        finish(15)
    producer.begin_transaction()
    open_offsets: list[int | None] = []
    producer.produce("transactional", "open", on_delivery=lambda _, message: open_offsets.append(message.offset()))
    producer.flush(15)
    reader = kafka_log.read("transactional")
    assert [record.value for record in reader] == [b"a", b"b"]
    assert open_offsets == [reader.position[TopicPartition("transactional", 0)]]
    producer.abort_transaction(15)
    kafka_log.close()
