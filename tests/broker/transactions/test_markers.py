"""Markers that a partition refuses: no transaction stays open because of one."""

from __future__ import annotations

import pytest

from mainstem.broker.transactions.markers import Marker
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.broker.harness import Client, with_broker
from tests.broker.transactions.producer import V1, V2, Producer, end_offset, visible

PARTITION = TopicPartition("t", 0)


async def write_marker(client: Client, producer: Producer, coordinator_epoch: int) -> None:
    """End the producer's transaction as an administrator does."""
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=coordinator_epoch,
    )
    answer = await client.request(WriteTxnMarkersRequest(markers=[marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commit", [True, False])
@with_broker()
async def test_a_decision_holds_where_a_marker_of_a_later_coordinator_epoch_was_written(
    client: Client, commit: bool, version: int
) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=version).ready()
    await producer.send("t", b"a")
    await write_marker(client, producer, coordinator_epoch=100)
    await producer.end(commit=False)
    await producer.send("t", b"b")
    assert (await producer.end(commit=commit)).error_code == ErrorCode.NONE
    assert await end_offset(client, "t", committed=True) == await end_offset(client, "t", committed=False)
    assert await visible(client, "t") == ([b"b"] if commit else [])


@with_broker()
async def test_a_transaction_that_the_coordinator_does_not_know_is_aborted_by_its_producers_next_decision(
    client: Client,
) -> None:
    """As after the loss of what the coordinator knew: the partition holds a later epoch."""
    await client.create_topic("t")
    producer = await Producer(client, version=V1).ready()
    assert await producer.add("t") == ErrorCode.NONE
    log = client.broker.node.topics.partition("t", 0)
    stamp = ProducerStamp(producer.producer_id, producer.epoch + 3, 0, is_transactional=True)
    log.append(build_batch([NewRecord(None, b"lost", (), 0)], producer=stamp))
    client.broker.node.commit.appended(log)
    await producer.commit()
    await client.produce("t", b"later")
    assert await end_offset(client, "t", committed=True) == await end_offset(client, "t", committed=False)
    assert await visible(client, "t") == [b"later"]


@with_broker()
async def test_a_producer_without_an_open_transaction_needs_no_marker(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"a")
    await producer.commit()
    before = await end_offset(client, "t", committed=False)
    late = Marker(ProducerIdAndEpoch(producer.producer_id, 0), 0, commit=True, raises_epoch=False)
    assert await client.broker.node.markers.write([PARTITION, TopicPartition("gone", 0)], late) == {}
    assert await end_offset(client, "t", committed=False) == before
