"""Quotas as clients meet them: whose counts, what is throttled, what is refused, what survives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.quotas.entities import CONSUMER_BYTES, KEYS, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT, Entity
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from mainstem.testing import ManualClock
from tests.broker.harness import Client, fetch_request, produce_request, running, with_broker


def with_clock(scenario: Callable[[Client, ManualClock], Awaitable[None]]) -> Callable[[Path], None]:
    """A test with a broker whose clock stands still."""

    def test(tmp_path: Path) -> None:
        async def main() -> None:
            clock = ManualClock()
            # The records' timestamps are of today, which that clock is not.
            settings = {"log.message.timestamp.after.max.ms": str(2**60)}
            async with running(tmp_path / "data", settings, clock=clock) as client:
                await scenario(client, clock)

        asyncio.run(main())

    test.__name__ = scenario.__name__  # type: ignore[attr-defined]
    return test


def limit(client: Client, key: str, value: float, **parts: str | None) -> None:
    named = {name.replace("_", "-"): text for name, text in parts.items()}
    client.broker.node.quotas.change(Entity.of(named), {key: value})


async def throttle_ms(client: Client, size: int) -> int:
    """What a produce request of about that size is told."""
    return int((await client.request(produce_request("t", b"v" * size), 9)).throttle_time_ms)


@with_clock
async def test_who_sends_too_much_is_answered_at_once_and_told_to_wait(client: Client, clock: ManualClock) -> None:
    await client.create_topic("t")
    limit(client, PRODUCER_BYTES, 1_000_000, client_id="test")
    told = [await throttle_ms(client, 900_000) for _ in range(11)]
    assert told[:11] == [0] * 11
    assert 700 < await throttle_ms(client, 900_000) < 900
    clock.advance(60)
    assert await throttle_ms(await client.another(), 900_000) == 0


@pytest.mark.parametrize(
    ("limits", "counts"),
    [
        ({}, None),
        ({("client-id", None): 1.0}, 1.0),
        ({("client-id", None): 1.0, ("client-id", "c"): 2.0}, 2.0),
        ({("client-id", "c"): 2.0, ("user", None): 3.0}, 3.0),
        ({("user", None): 3.0, ("user", None, "client-id", None): 4.0}, 4.0),
        ({("user", None, "client-id", None): 4.0, ("user", None, "client-id", "c"): 5.0}, 5.0),
        ({("user", None, "client-id", "c"): 5.0, ("user", "u"): 6.0}, 6.0),
        ({("user", "u"): 6.0, ("user", "u", "client-id", None): 7.0}, 7.0),
        ({("user", "u", "client-id", None): 7.0, ("user", "u", "client-id", "c"): 8.0}, 8.0),
        ({("user", "other"): 9.0, ("client-id", "other"): 9.0}, None),
    ],
)
def test_the_most_special_limit_counts(
    tmp_path: Path, limits: dict[tuple[str | None, ...], float], counts: Any
) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            quotas = client.broker.node.quotas
            for key, value in limits.items():
                parts = {str(kind): name for kind, name in zip(key[::2], key[1::2], strict=True)}
                quotas.change(Entity.of(parts), {PRODUCER_BYTES: value})
            found = quotas.limit(PRODUCER_BYTES, "u", "c")
            assert (found.value if found else None) == counts

    asyncio.run(main())


@with_clock
async def test_a_default_holds_for_each_client_by_itself(client: Client, clock: ManualClock) -> None:
    quotas = client.broker.node.quotas
    limit(client, PRODUCER_BYTES, 100, client_id=None)
    assert quotas.use(PRODUCER_BYTES, "u", "one", 2000) == 10.0
    assert quotas.use(PRODUCER_BYTES, "u", "two", 100) == 0.0
    clock.advance(11)
    assert quotas.use(PRODUCER_BYTES, "u", "one", 100) == 0.0


@with_clock
async def test_clients_of_a_user_share_the_users_limit(client: Client, clock: ManualClock) -> None:
    quotas = client.broker.node.quotas
    limit(client, PRODUCER_BYTES, 100, user="u")
    assert quotas.use(PRODUCER_BYTES, "u", "one", 1000) == 0.0
    assert quotas.use(PRODUCER_BYTES, "u", "two", 100) == 1.0


@with_broker()
async def test_a_connection_is_not_read_from_while_it_waits(client: Client) -> None:
    await client.create_topic("t")
    limit(client, PRODUCER_BYTES, 100_000, client_id="test")
    began_s = time.monotonic()
    told_ms = await throttle_ms(client, 1_020_000)
    assert 0 < told_ms < 5000
    await client.request(ApiVersionsRequest(client_software_name="", client_software_version=""), 3)
    assert time.monotonic() - began_s >= told_ms / 1000


@with_clock
async def test_who_reads_too_much_waits(client: Client, clock: ManualClock) -> None:
    await client.create_topic("t")
    for _ in range(2):
        assert (await client.produce("t", b"v" * 600_000)).error_code == 0
    limit(client, CONSUMER_BYTES, 100_000, client_id="test")
    fetched = await client.request(fetch_request("t", 0, max_bytes=4_000_000, partition_max_bytes=4_000_000), 11)
    size = len(fetched.responses[0].partitions[0].records)
    assert abs(fetched.throttle_time_ms - (size - 1_000_000) / 100) < 50


@with_clock
async def test_time_on_the_loop_counts(client: Client, clock: ManualClock) -> None:
    await client.create_topic("t")
    limit(client, REQUEST_PERCENT, 0.0001, client_id="test")
    answer = await client.request(produce_request("t", b"v"), 9)
    assert 0 < answer.throttle_time_ms <= 11_000


async def create(client: Client, name: str, partitions: int, version: int) -> tuple[int, int]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    answer = await client.request(CreateTopicsRequest(topics=[topic]), version)
    return answer.topics[0].error_code, answer.throttle_time_ms


@with_clock
async def test_too_many_partitions_are_refused_until_there_are_tokens(client: Client, clock: ManualClock) -> None:
    limit(client, MUTATIONS, 1.0, user=None)
    assert await create(client, "a", 12, 7) == (0, 0)
    another = await client.another()
    assert await create(another, "b", 1, 7) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)
    clock.advance(1.5)
    another = await client.another()
    assert await create(another, "b", 1, 7) == (0, 0)
    clock.advance(100)
    removed = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in "ab"], timeout_ms=1000)
    answer = await another.request(removed, 6)
    codes = [each.error_code for each in answer.responses]
    assert codes == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]


@with_clock
async def test_an_older_client_is_let_through_and_waits(client: Client, clock: ManualClock) -> None:
    limit(client, MUTATIONS, 10.0, user=None)
    assert await create(client, "a", 111, 5) == (0, 100)


def alter(**ops: float | None) -> list[OpData]:
    return [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()]


async def change(client: Client, parts: dict[str, str | None], ops: list[OpData], *, only_try: bool = False) -> int:
    entity = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()]
    request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=entity, ops=ops)], validate_only=only_try)
    return int((await client.request(request, 1)).entries[0].error_code)


async def described(client: Client, *components: ComponentData, strict: bool = False) -> list[Any]:
    answer = await client.request(DescribeClientQuotasRequest(components=components, strict=strict), 1)
    assert answer.error_code == 0
    return [
        ({e.entity_type: e.entity_name for e in entry.entity}, {v.key: v.value for v in entry.values})
        for entry in answer.entries
    ]


def test_quotas_are_set_described_removed_and_survive(tmp_path: Path) -> None:
    both: dict[str, str | None] = {"user": "u", "client-id": None}

    async def first() -> None:
        async with running(tmp_path / "data") as client:
            assert await change(client, both, alter(producer_byte_rate=100.0), only_try=True) == 0
            assert await described(client) == []
            assert not client.broker.node.quotas.is_active
            assert await change(client, both, alter(producer_byte_rate=100.0, request_percentage=50.5)) == 0
            assert await change(client, {"user": "u"}, alter(consumer_byte_rate=7.0)) == 0
            assert await change(client, both, alter(producer_byte_rate=None, no_such_quota=None)) == 0

    async def second() -> None:
        async with running(tmp_path / "data") as client:
            with_both, user_alone = (both, {"request_percentage": 50.5}), ({"user": "u"}, {"consumer_byte_rate": 7.0})
            assert await described(client) == [with_both, user_alone]
            user = ComponentData(entity_type="user", match_type=0, match="u")
            assert await described(client, user) == [with_both, user_alone]
            assert await described(client, user, strict=True) == [user_alone]
            default = ComponentData(entity_type="client-id", match_type=1, match=None)
            assert await described(client, default) == [with_both]
            assert await described(client, ComponentData(entity_type="user", match_type=1, match=None)) == []
            assert await change(client, both, alter(request_percentage=None)) == 0
            assert await change(client, {"user": "u"}, alter(consumer_byte_rate=None)) == 0
            assert not client.broker.node.quotas.is_active

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.parametrize(
    ("parts", "ops", "code"),
    [
        ({"user": "u"}, {"no_such_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"producer_byte_rate": 0.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"request_percentage": float("nan")}, ErrorCode.INVALID_REQUEST),
        ({"user": ""}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.0}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    tmp_path: Path, parts: dict[str, str | None], ops: dict[str, float | None], code: ErrorCode
) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            assert await change(client, parts, alter(**ops)) == code
            assert client.broker.node.quotas.limits == {}

    asyncio.run(main())


def test_every_quota_has_a_name_of_kafkas() -> None:
    assert set(KEYS) == {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
