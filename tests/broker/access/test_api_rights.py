"""What each API asks of its sender: every API says so, and a stranger gets nothing out of any of them."""

from __future__ import annotations

import asyncio
import copy
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.access.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from mainstem.broker.apis import APIS
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_cluster import DescribeClusterRequest
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.schema import Struct
from tests.broker.harness import Client, api_name, running, with_broker
from tests.broker.test_versions import REQUESTS

REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
OPEN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_CLUSTER}
OPEN |= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.METADATA}
"""What a stranger asks for here is an empty list, and no error."""
ALL = {"User:ANONYMOUS", "User:*"}


def codes(message: Any) -> Iterator[int]:
    """All error codes in a message, however deep."""
    for name, value in vars(message).items():
        if name in ("error_code", "partition_error_code"):
            yield value
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Struct):
                yield from codes(item)


@pytest.mark.parametrize("key", sorted(APIS), ids=api_name)
def test_a_stranger_is_refused_at_every_version(key: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data", {"super.users": "User:admin"}) as client:
            topic = client.broker.node.topics.create("t", 1, {})
            first, last = APIS[key].versions
            for version in range(first, last + 1):
                answer = await client.request(asked(key, topic.topic_id), version)
                found = [code for code in codes(answer) if code]
                if (key, version) in WITHOUT_AN_ERROR:
                    assert not answer.results
                elif key in OPEN:
                    assert not REFUSALS & set(found)
                elif key in FILTERED:
                    assert not any(value for name, value in vars(answer).items() if name in LISTS), answer
                else:
                    assert found, f"version {version}: {answer}"
                    assert set(found) <= {*REFUSALS, ErrorCode.OPERATION_NOT_ATTEMPTED}, f"version {version}: {answer}"

    asyncio.run(scenario())


def asked(key: int, topic_id: uuid.UUID) -> Any:
    """The request, which names its topic by the id too, for the versions that have no name."""
    request = copy.deepcopy(REQUESTS[ApiKey(key)])

    def name_topics(struct: Struct) -> None:
        if hasattr(struct, "topic_id") and "t" in (getattr(struct, "name", ""), getattr(struct, "topic", "")):
            struct.topic_id = topic_id  # type: ignore[attr-defined]
        for value in vars(struct).values():
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, Struct):
                    name_topics(item)

    name_topics(request)
    return request


WITHOUT_AN_ERROR = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""These answers have no place for an error of their own: they are empty."""
LISTS = ("groups", "transaction_states", "topics")


@pytest.mark.parametrize("key", sorted(APIS), ids=api_name)
def test_who_may_do_everything_gets_the_same_answers_as_without_an_authorizer(key: int, tmp_path: Path) -> None:
    async def answers(place: Path, settings: dict[str, str]) -> list[set[int]]:
        async with running(place, settings) as client:
            await client.create_topic("t")
            first, last = APIS[key].versions
            requests = [copy.deepcopy(REQUESTS[ApiKey(key)]) for _ in range(first, last + 1)]
            return [
                set(codes(await client.request(body, version)))
                for version, body in zip(range(first, last + 1), requests, strict=True)
            ]

    if key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
        return  # without an authorizer there are no ACLs to look after
    without = asyncio.run(answers(tmp_path / "without", {}))
    assert asyncio.run(answers(tmp_path / "with", {"super.users": "User:ANONYMOUS"})) == without


def allow(client: Client, resource: ResourceType, name: str, *operations: Operation) -> None:
    authorizer = client.broker.node.authorizer
    assert authorizer is not None
    authorizer.add(
        Acl(resource, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
        for operation in operations
    )


@with_broker(super_users="User:admin")
async def test_a_reader_sees_and_reads_its_topic_alone(client: Client) -> None:
    for name in ("mine", "secret"):
        client.broker.node.topics.create(name, 1, {})
    allow(client, ResourceType.TOPIC, "mine", Operation.READ)
    everything = await client.request(MetadataRequest(topics=None), 12)
    assert [topic.name for topic in everything.topics] == ["mine"]
    assert (await client.fetch("mine", 0)).error_code == 0
    assert (await client.fetch("secret", 0, max_wait_ms=60_000)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = await client.produce("mine", b"v")
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@with_broker(super_users="User:admin")
async def test_what_one_may_not_see_looks_the_same_whether_it_is_there_or_not(client: Client) -> None:
    client.broker.node.topics.create("secret", 1, {})
    names = [MetadataRequestTopic(name=name) for name in ("secret", "nothing")]
    answer = await client.request(MetadataRequest(topics=names, allow_auto_topic_creation=True), 12)
    there, not_there = answer.topics
    assert there.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    there.name = not_there.name
    assert there == not_there
    assert client.broker.node.topics.get("nothing") is None


@with_broker(super_users="User:admin")
async def test_asking_for_a_topic_creates_it_only_for_who_may_create(client: Client) -> None:
    allow(client, ResourceType.TOPIC, "new", Operation.DESCRIBE)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    refused = await client.request(copy.deepcopy(asked), 12)
    assert refused.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(client, ResourceType.TOPIC, "new", Operation.CREATE)
    assert (await client.request(asked, 12)).topics[0].error_code == 0


@with_broker(super_users="User:admin")
async def test_an_answer_tells_what_one_may_do_when_asked(client: Client) -> None:
    client.broker.node.topics.create("t", 1, {})
    allow(client, ResourceType.TOPIC, "t", Operation.READ)
    allow(client, ResourceType.CLUSTER, CLUSTER_NAME, Operation.DESCRIBE)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True)
    answer = await client.request(asked, 12)
    assert answer.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert cluster.cluster_authorized_operations == 1 << Operation.DESCRIBE


@with_broker()
async def test_without_an_authorizer_everyone_may_do_everything(client: Client) -> None:
    await client.create_topic("t")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True)
    assert (await client.request(asked, 12)).topics[0].topic_authorized_operations == sum(
        1 << number for number in (3, 4, 5, 6, 7, 8, 10, 11)
    )


@with_broker(super_users="User:admin")
async def test_a_refused_append_without_an_answer_closes_the_connection(client: Client) -> None:
    client.broker.node.topics.create("t", 1, {})
    from tests.broker.harness import produce_request

    client.send(produce_request("t", b"v", acks=0), 9)
    assert await client.is_closed()


def test_no_handler_tells_another_address_than_the_one_its_client_came_to() -> None:
    handlers = Path(__file__).parents[3] / "src/mainstem/broker/handlers"
    assert [
        path.name for path in sorted(handlers.glob("*.py")) if re.search(r"node\.advertised", path.read_text())
    ] == []
