"""Transactions with Apache Kafka's own Java client (version 2 of transactions), its tools, and its dump of files."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.broker.harness import LogProcess, running
from tests.broker.transactions.producer import end_offset
from tests.conformance.test_confluent_kafka import new_topic, produce
from tests.conformance.test_transactions import TIMEOUT_S, read, transactional
from tests.support.apache_kafka import run_tool

pytestmark = [pytest.mark.maven, pytest.mark.usefixtures("kafka_jars")]

TOOLS = "org.apache.kafka.tools."


def tool(name: str, *arguments: str) -> str:
    done = run_tool(TOOLS + name, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def transactions(bootstrap: str, *arguments: str) -> str:
    return tool("TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)


def rows(output: str) -> list[list[str]]:
    """The lines of a table, without its head."""
    return [line.split() for line in output.splitlines()[1:] if line.strip()]


def test_the_java_producer_commits_and_its_copier_commits_offsets_with_records(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log:
        source, copy = new_topic(log), new_topic(log)
        to_source = ("--topic", source, "--num-records", "500", "--record-size", "50", "--throughput", "-1")
        transaction = ("--transactional-id", "perf", "--transaction-duration-ms", "20")
        tool("ProducerPerformance", "--bootstrap-server", log.bootstrap, *to_source, *transaction)
        copier = ("--input-topic", source, "--input-partition", "0", "--output-topic", copy, "--max-messages", "300")
        names = ("--transactional-id", "copier", "--consumer-group", "copiers", "--transaction-size", "100")
        tool("TransactionalMessageCopier", "--broker-list", log.bootstrap, *copier, *names)
        assert read(log, copy) == read(log, source)[:300]
        listed = {row[0]: row[3] for row in rows(transactions(log.bootstrap, "list"))}
        assert listed == {"perf": "CompleteCommit", "copier": "CompleteCommit"}
        described = rows(transactions(log.bootstrap, "describe", "--transactional-id", "copier"))[0]
        assert (described[1], int(described[3])) == ("copier", 3)  # an epoch for each transaction
    _is_read_by_the_dump_tool(tmp_path / "data", source)


def _is_read_by_the_dump_tool(data: Path, topic: str) -> None:
    def dump(partition: str, *options: str) -> str:
        (segment,) = (data / partition).glob("*.log")
        return tool("DumpLogSegments", "--files", str(segment), *options)

    states = dump("__transaction_state-0", "--transaction-log-decoder")
    assert {int(state) for state in re.findall(r'"transactionStatus":(\d)', states)} == {0, 1, 2, 4}
    assert '"transactionalId":"copier"' in states
    offsets = dump("__consumer_offsets-0", "--offsets-decoder")
    assert f'"group":"copiers","topic":"{topic}","partition":0' in offsets
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in offsets
    assert "isTransactional: true" in dump(f"{topic}-0", "--deep-iteration")


def test_an_open_transaction_is_described_and_aborted(log: LogProcess) -> None:
    topic = new_topic(log)
    producer = transactional(log, f"{topic}-tx")
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(TIMEOUT_S)
    produce(log, topic, b"behind")
    described = rows(transactions(log.bootstrap, "describe", "--transactional-id", f"{topic}-tx"))[0]
    assert described[4] == "Ongoing"
    assert described[-1] == f"{topic}-0"
    producers = transactions(log.bootstrap, "describe-producers", "--topic", topic, "--partition", "0")
    assert rows(producers)[0][-1] == "0"  # where its transaction began
    assert read(log, topic) == []
    transactions(log.bootstrap, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert read(log, topic) == [b"behind"]


def test_a_hanging_transaction_is_found(tmp_path: Path) -> None:
    """One that no coordinator knows: no request leads to it, so it is written past the coordinator."""

    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            partition = client.broker.node.topics.partition("t", 0)
            stamp = ProducerStamp(4711, 3, 0, is_transactional=True)
            partition.append(build_batch([NewRecord(None, b"v", (), 1_000_000)], producer=stamp))
            client.broker.node.commit.appended(partition)
            bootstrap = f"{client.address[0]}:{client.address[1]}"
            found = rows(await asyncio.to_thread(transactions, bootstrap, "find-hanging", "--broker-id", "1"))
            assert found[0][:3] == ["t", "0", "4711"]
            place = ("--topic", "t", "--partition", "0", "--producer-id", "4711", "--producer-epoch", "3")
            await asyncio.to_thread(transactions, bootstrap, "abort", *place, "--coordinator-epoch", "0")
            assert await end_offset(client, "t", committed=True) == 2

    asyncio.run(main())
