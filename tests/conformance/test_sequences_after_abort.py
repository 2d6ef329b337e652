"""A sequence that an aborted transaction has used, used again in the next one of the same producer epoch.

So librdkafka does under version 1 of transactions with a record that is on its way when it aborts. A broker cannot tell
that record from a repeat of the first: it acknowledges it with the first one's offset, and stores nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple, cast

import pytest
from confluent_kafka import Producer as ConfluentProducer

from mainstem.broker.server import Broker
from mainstem.client.log import Log
from mainstem.protocol.errors import ErrorCode
from tests.broker.harness import Client, LogProcess
from tests.broker.transactions.producer import V1, Producer, visible
from tests.support.kafka_or_skip import kafka_or_skip, with_controls

TOPIC, TRANSACTIONAL_ID = "sequences-after-abort", "sequences-after-abort-tx"


class Answered(NamedTuple):
    """What a broker said to the second record, and what is there of both."""

    error_code: int
    base_offset: int
    committed: list[bytes | None]
    everything: list[bytes | None]


@pytest.fixture(scope="module", params=with_controls())
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "mainstem":
        yield cast("LogProcess", request.getfixturevalue("log")).bootstrap
        return
    with kafka_or_skip() as kafka:
        yield kafka.bootstrap


async def begin(producer: Producer) -> None:
    """Make the partition part of a new transaction; Apache Kafka answers an end before it has ended."""
    deadline_s = time.monotonic() + 60
    while (code := await producer.add(TOPIC)) == ErrorCode.CONCURRENT_TRANSACTIONS:
        assert time.monotonic() < deadline_s
    assert code == ErrorCode.NONE


async def use_a_sequence_twice(bootstrap: str) -> Answered:
    host, port = bootstrap.split(":")
    client = await Client((host, int(port)), cast("Broker", None)).connect()
    producer = await Producer(client, TRANSACTIONAL_ID, version=V1).ready(version=4)
    await begin(producer)
    assert (await producer.produce(TOPIC, b"of the aborted")).error_code == ErrorCode.NONE
    assert (await producer.end(commit=False, version=4)).error_code == ErrorCode.NONE
    await begin(producer)
    producer.sequences.clear()
    answer = await producer.produce(TOPIC, b"of the committed")
    assert (await producer.end(commit=True, version=4)).error_code == ErrorCode.NONE
    found = [await visible(client, TOPIC, committed=committed) for committed in (True, False)]
    client.writer.close()
    return Answered(answer.error_code, answer.base_offset, *found)


def test_a_sequence_of_an_aborted_transaction_counts_as_a_repeat(bootstrap: str) -> None:
    with Log(bootstrap, timeout_s=60) as log:
        log.create_topic(TOPIC, partitions=1)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID, "log_level": 0}
    ConfluentProducer(settings).init_transactions(60)  # which waits until the coordinator is there
    answered = asyncio.run(use_a_sequence_twice(bootstrap))
    assert answered == Answered(ErrorCode.NONE, 0, [], [b"of the aborted"])
