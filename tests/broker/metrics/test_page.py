"""What ``/metrics`` says of a node that has been used."""

from __future__ import annotations

import re

from scripts.metrics import METRICS

from mainstem.broker.metrics.page import metrics_page
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, fetch_request, with_broker

_SAMPLE = re.compile(r"^([a-z_]+)(\{[^\n]*\})? (\S+)$")
_COMMENT = re.compile(r"^# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ (counter|gauge|histogram))$")


async def page(client: Client) -> dict[str, float]:
    """Every sample by its name and labels; each line is one that Prometheus can read."""
    samples: dict[str, float] = {}
    async for text in metrics_page(client.broker):
        for line in text.splitlines():
            if line.startswith("#"):
                assert _COMMENT.match(line), line
                continue
            found = _SAMPLE.match(line)
            assert found, line
            name = found[1] + (found[2] or "")
            assert name not in samples
            samples[name] = float(found[3])
    return samples


async def commit(client: Client, group_id: str, topic: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    await client.request(OffsetCommitRequest(group_id=group_id, member_id="", topics=topics), 8)


@with_broker()
async def test_what_was_written_and_read_is_counted(client: Client) -> None:
    await client.create_topic("t", 2)
    await client.produce("t", b"a", b"b")
    await client.produce("t", b"c", partition=1)
    size = len((await client.fetch("t", 0)).records)
    samples = await page(client)
    assert samples['mainstem_topic_log_end_offset_total{topic="t"}'] == 3
    assert samples['mainstem_topic_fetched_bytes_total{topic="t"}'] == size
    assert samples['mainstem_topic_appended_bytes_total{topic="t"}'] > size
    assert samples['mainstem_partition_durable_offset{topic="t",partition="0"}'] == 2
    assert samples['mainstem_request_seconds_count{api="Produce"}'] == 2
    assert samples['mainstem_request_seconds_bucket{api="Fetch",le="+Inf"}'] == 1
    assert samples["mainstem_flush_seconds_count"] >= 2
    assert samples["mainstem_connections"] == 1
    assert samples["mainstem_undurable_records"] == 0
    assert samples["process_open_fds"] > 3
    assert samples["mainstem_disk_size_bytes"] > samples["mainstem_disk_free_bytes"] > 0
    assert samples["mainstem_transactions_open"] == samples["mainstem_transaction_oldest_seconds"] == 0
    for sample in samples:
        name, _, labels = sample.partition("{")
        family = re.sub("_(bucket|sum|count)$", "", name)
        found = [label for label in re.findall(r'([a-z_]+)="', labels) if label != "le"]
        assert METRICS[family].labels == tuple(found), "scripts/metrics.py, then `make reference`"


@with_broker()
async def test_a_groups_lag_is_what_it_has_not_read_yet(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", b"b", b"c")
    await commit(client, "g", "t", 1)
    samples = await page(client)
    assert samples['mainstem_group_topic_lag_records{group="g",topic="t"}'] == 2
    assert samples["mainstem_group_lag_records"] == 2


@with_broker()
async def test_a_load_reads_nothing_and_has_no_lag(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", b"b", b"c")
    await commit(client, "mainstem-load-0123", "t", 1)
    samples = await page(client)
    assert [name for name in samples if "mainstem-load-0123" in name] == []
    assert samples["mainstem_group_lag_records"] == 0


@with_broker()
async def test_a_request_that_waits_is_in_flight(client: Client) -> None:
    await client.create_topic("t")
    client.send(fetch_request("t", 0, max_wait_ms=60_000), 11)
    other = await client.another()
    while not client.broker.node.fetches.statistics()["waiting"]:
        await other.request(MetadataRequest(topics=[]), 9)
    samples = await page(client)
    assert samples["mainstem_requests_in_flight"] == samples["mainstem_delayed_fetches"] == 1
    assert samples["mainstem_request_memory_bytes"] > 0


@with_broker(mainstem_metrics_series_max="3")
async def test_where_there_are_too_many_only_sums_are_told(client: Client) -> None:
    await client.create_topic("t", 4)
    for partition in range(4):
        await client.produce("t", b"a", partition=partition)
    samples = await page(client)
    assert samples["mainstem_partitions_open"] >= 4
    assert samples['mainstem_topic_log_end_offset_total{topic="t"}'] == 4
    assert not [name for name in samples if name.startswith("mainstem_partition_")]
    for number in range(3):
        await client.create_topic(f"more-{number}")
    samples = await page(client)
    assert samples["mainstem_appended_bytes_total"] > 0
    assert not [name for name in samples if name.startswith("mainstem_topic_")]


@with_broker()
async def test_a_deleted_topic_is_listed_no_more(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a")
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    assert not [name for name in await page(client) if '"t"' in name]
