"""ACL requests with many items: the answer is that to many small ones, and nothing is deleted twice."""

from __future__ import annotations

import asyncio

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mainstem.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.broker.harness import Client, with_broker

COUNT = 1_200


def new_acl(number: int, operation: int = Operation.READ) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=f"n{number}",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:u",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


def named(name: str | None) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )


@with_broker(super_users="User:ANONYMOUS")
async def test_each_of_many_acls_has_its_own_answer(client: Client) -> None:
    asked = [new_acl(number, Operation.ANY if number == 700 else Operation.READ) for number in range(COUNT)]
    created = await client.request(CreateAclsRequest(creations=asked), 3)
    wrong = [number for number, result in enumerate(created.results) if result.error_code]
    assert wrong == [700]
    assert created.results[700].error_code == ErrorCode.INVALID_REQUEST
    deleted = await client.request(DeleteAclsRequest(filters=[named(f"n{number}") for number in range(COUNT)]), 3)
    names = [[acl.resource_name for acl in result.matching_acls] for result in deleted.filter_results]
    assert names == [[] if number == 700 else [f"n{number}"] for number in range(COUNT)]


@with_broker(super_users="User:ANONYMOUS")
async def test_two_clients_that_delete_the_same_acls_delete_each_once(client: Client) -> None:
    await client.request(CreateAclsRequest(creations=[new_acl(number) for number in range(COUNT)]), 3)
    other = await client.another()
    everything = DeleteAclsRequest(filters=[named(None)])
    answers = await asyncio.gather(client.request(everything, 3), other.request(everything, 3))
    deleted = [acl.resource_name for answer in answers for acl in answer.filter_results[0].matching_acls]
    assert sorted(deleted) == sorted(f"n{number}" for number in range(COUNT))
    other.close()


@with_broker(super_users="User:admin")
async def test_many_acls_without_the_right_are_refused_each(client: Client) -> None:
    refused = await client.request(CreateAclsRequest(creations=[new_acl(number) for number in range(COUNT)]), 3)
    assert [result.error_code for result in refused.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * COUNT
