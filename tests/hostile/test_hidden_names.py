"""What a user may not see is not told in passing: names in cursors, users in logins."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mainstem.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor
from tests.broker.harness import Client, running

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


async def hide(client: Client, topic: str) -> None:
    rule = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:*",
        host="*",
        operation=Operation.DESCRIBE,
        permission_type=Permission.DENY,
    )
    assert (await client.request(CreateAclsRequest(creations=[rule]), 3)).results[0].error_code == 0


def test_cursors_name_only_topics_that_may_be_seen_and_lead_through_all_of_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data", SETTINGS) as client:
            for name in ("a", "hidden", "other", "zone"):
                await client.create_topic(name, 2)
            await hide(client, "hidden")
            await hide(client, "zone")
            seen: list[tuple[str, int]] = []
            cursor = None
            for _ in range(10):
                request = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=1, cursor=cursor)
                answer = await client.request(request, 0)
                seen += [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
                if answer.next_cursor is None:
                    break
                assert answer.next_cursor.topic_name in ("a", "other")
                cursor = RequestCursor(
                    topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
                )
            assert seen == [("a", 0), ("a", 1), ("other", 0), ("other", 1)]
            hidden = RequestCursor(topic_name="hidden", partition_index=1)
            request = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=1, cursor=hidden)
            answer = await client.request(request, 0)
            assert [(topic.name, topic.error_code) for topic in answer.topics] == [("other", 0)]

    asyncio.run(scenario())
