"""The coordinators' own topics are compacted under them, and a restart reads what is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstem.protocol.errors import ErrorCode
from mainstem.record.reader import iter_records
from tests.broker.handlers.test_transactions import _state
from tests.broker.harness import Client, running
from tests.broker.transactions.producer import Producer, committed_offset, visible

TIMEOUT_S = 60
TRANSACTIONS = 60
SETTINGS = {
    "offsets.topic.segment.bytes": "2000",
    "transaction.state.log.segment.bytes": "2000",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


async def until_compacted(client: Client, topic: str, records: int) -> None:
    """Wait until compaction has left at most so many records in it, markers aside."""
    (log,) = client.broker.node.topics.find(topic).logs
    async with asyncio.timeout(TIMEOUT_S):
        while len([*iter_records(b"".join(log.read(0, 1 << 20).buffers))]) > records:
            await visible(client, "t")


def test_transactions_and_their_offsets_outlast_compaction_and_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "data", SETTINGS) as client:
            await client.create_topic("t")
            producer = await Producer(client).ready()
            for number in range(TRANSACTIONS):
                await producer.send("t", b"%d" % number)
                await producer.offset("g", "t", number)
                await producer.end(commit=number % 2 == 0)
            open_one = await Producer(client, "open").ready()
            await open_one.send("t", b"open")
            await open_one.offset("open", "t", 7)
            await until_compacted(client, "__consumer_offsets", TRANSACTIONS // 2)
            await until_compacted(client, "__transaction_state", TRANSACTIONS // 2)
            expected = await visible(client, "t")
        async with running(tmp_path / "data", SETTINGS) as client:
            assert await visible(client, "t") == expected
            assert await committed_offset(client, "g", "t", stable=True) == (TRANSACTIONS - 2, ErrorCode.NONE)
            assert (await committed_offset(client, "open", "t", stable=True))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await _state(client, "tx") == "CompleteAbort"
            open_one.client = producer.client = client
            await open_one.commit()
            assert await committed_offset(client, "open", "t", stable=True) == (7, ErrorCode.NONE)
            await producer.send("t", b"next")
            await producer.commit()
            assert (await visible(client, "t"))[-2:] == [b"open", b"next"]

    asyncio.run(main())
