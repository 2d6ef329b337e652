"""The pages of a topic's records: each record once, in order, however large they are and however rare their key is."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.console.records.record_pages import PAGE_RECORDS, RecordPages, RecordQuery
from mainstem.console.requests import ConsoleRequest
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.topics import reads
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served


@pytest.fixture(scope="module")
def log(mainstem_broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(mainstem_broker.bootstrap, timeout_s=30.0) as opened:
        yield opened


@pytest.fixture(scope="module")
def gateway(log: Log) -> Iterator[httpx.Client]:
    with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client:
        yield client


def filled(log: Log, records: list[NewRecord], partitions: int = 1) -> str:
    topic = f"con-pages-{uuid.uuid4().hex[:8]}"
    log.create_topic(topic, partitions=partitions)
    log.append_many(topic, records)
    return topic


def pages_of(gateway: httpx.Client, question: RecordQuery, pages_max: int = 1_000) -> list[list[dict[str, Any]]]:
    """All pages, as the console gets them."""
    about = gateway.get(f"/topics/{question.topic}").json()

    async def ask(asked: ConsoleRequest) -> Any:
        return gateway.get(asked.target).raise_for_status().json()

    pages = RecordPages(ask, question, Position.parse(about["beginning"]), Position.parse(about["committed_end"]))
    found = []
    while pages.has_more and len(found) < pages_max:
        found.append(asyncio.run(pages.next_page()))
    return found


def offsets(pages: list[list[dict[str, Any]]]) -> list[int]:
    return [record["offset"] for page in pages for record in page]


@pytest.mark.parametrize("start", [None, "earliest"], ids=["newest first", "oldest first"])
def test_records_that_fill_an_answer_by_their_size_are_all_shown(
    log: Log, gateway: httpx.Client, start: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_ANSWER_BYTES_MAX", 80_000)
    topic = filled(log, [NewRecord("x" * 4_000) for _ in range(60)])
    wanted = list(range(60))
    assert offsets(pages_of(gateway, RecordQuery(topic, start))) == (wanted[::-1] if start is None else wanted)


@pytest.mark.parametrize("key", ["k", ".."])
def test_a_keys_newest_records_come_first_and_go_on_to_its_oldest(log: Log, gateway: httpx.Client, key: str) -> None:
    topic = filled(log, [NewRecord(number, key) for number in range(1_200)], partitions=3)
    pages = pages_of(gateway, RecordQuery(topic, None, key))
    assert offsets(pages) == list(range(1_199, -1, -1))
    assert max(map(len, pages)) <= 2 * PAGE_RECORDS


def test_a_keys_records_go_on_from_a_moment_to_its_newest(log: Log, gateway: httpx.Client) -> None:
    topic = filled(log, [NewRecord(number, "k") for number in range(120)])
    assert offsets(pages_of(gateway, RecordQuery(topic, "30", "k"))) == list(range(30, 120))


def test_a_rare_key_is_found_on_the_first_page(log: Log, gateway: httpx.Client) -> None:
    topic = filled(log, [NewRecord(number, "rare" if number == 7 else f"k{number}") for number in range(4_000)])
    [page] = pages_of(gateway, RecordQuery(topic, None, "rare"))
    assert [record["offset"] for record in page] == [7]


def test_several_partitions_are_shown_by_time(log: Log, gateway: httpx.Client) -> None:
    records = [NewRecord(number, partition=number % 4, timestamp_ms=10_000 + number) for number in range(200)]
    topic = filled(log, records, partitions=4)
    shown = [record["timestamp_ms"] for page in pages_of(gateway, RecordQuery(topic)) for record in page]
    assert shown == list(range(10_199, 9_999, -1))


def test_a_quiet_partitions_old_records_come_after_the_newer_ones_of_a_busy_one(
    log: Log, gateway: httpx.Client
) -> None:
    busy = [NewRecord(number, partition=0, timestamp_ms=100_000 + number) for number in range(400)]
    quiet = [NewRecord(number, partition=1, timestamp_ms=10_000 + number) for number in range(40)]
    topic = filled(log, busy + quiet, partitions=3)
    pages = pages_of(gateway, RecordQuery(topic))
    shown = [record["timestamp_ms"] for page in pages for record in page]
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == 440
    assert max(map(len, pages)) <= 2 * PAGE_RECORDS


@pytest.mark.parametrize("start", [None, "earliest", "3"])
def test_the_records_of_one_partition_alone(log: Log, gateway: httpx.Client, start: str | None) -> None:
    topic = filled(log, [NewRecord(number, partition=number % 3) for number in range(300)], partitions=3)
    found = pages_of(gateway, RecordQuery(topic, start, partition=1))
    assert {record["partition"] for page in found for record in page} == {1}
    assert sorted(offsets(found)) == list(range(3 if start == "3" else 0, 100))


def test_an_open_transaction_hides_its_own_records_alone(log: Log, gateway: httpx.Client) -> None:
    topic = filled(log, [NewRecord(number) for number in range(80)])
    with log.transaction(f"{topic}-writer") as transaction:
        transaction.append_many(topic, ["x" * 400_000] * 6)  # so many that they are sent before the end
        assert log.describe_topic(topic).offsets > 80
        assert offsets(pages_of(gateway, RecordQuery(topic))) == list(range(79, -1, -1))


def test_a_page_that_failed_is_asked_for_again(log: Log, gateway: httpx.Client) -> None:
    topic = filled(log, [NewRecord(number) for number in range(10)], partitions=1)
    answers = iter([False, True])

    async def ask(asked: ConsoleRequest) -> Any:
        if not next(answers):
            raise ConnectionError
        return gateway.get(asked.target).json()

    pages = RecordPages(ask, RecordQuery(topic), Position(), log.end(topic))
    with pytest.raises(ConnectionError):
        asyncio.run(pages.next_page())
    assert offsets([asyncio.run(pages.next_page())]) == list(range(9, -1, -1))
