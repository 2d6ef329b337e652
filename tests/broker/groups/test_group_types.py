"""One group id has one type, and what groups have in common works for a type that nobody knows yet."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.group_types import GroupRegistry, GroupType
from mainstem.broker.groups.member_bytes import CountedMember
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.handlers.test_groups import commit_request, join_request
from tests.broker.harness import Client, running, with_broker

_KEY_TYPE = 1000


class OtherGroup:
    """A group of a type of its own, that is empty."""

    group_type = GroupType.SHARE
    protocol_type = "other"
    state_name = "Empty"
    is_empty = True
    members: ClassVar[Mapping[str, CountedMember]] = {}

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def check_commit(self, member_id: str, instance_id: str | None, generation_id: int, api_version: int) -> None:
        raise refusal(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise refusal(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_delete(self) -> None:
        raise refusal(ErrorCode.GROUP_ID_NOT_FOUND)

    def subscribes(self, topic: str) -> bool:
        return False

    def offset_expires_from_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        return None

    def tombstones(self) -> list[StateRecord]:
        return [StateRecord(key_of(self.group_id), None)]


class OtherKind:
    """Coordinates them: their records are a key with the group's name, and any value."""

    record_types = frozenset({_KEY_TYPE})

    def __init__(self, groups: GroupRegistry) -> None:
        self._groups = groups
        self.is_loaded = False
        self.gone: list[str] = []

    def replay(self, key: bytes, value: bytes | None) -> None:
        group_id = key[2:].decode()
        if value is None:
            self._groups.remove(group_id)
        else:
            self._groups.put(OtherGroup(group_id))

    def loaded(self) -> None:
        self.is_loaded = True

    def forgotten(self, group_id: str) -> None:
        self.gone.append(group_id)


def key_of(group_id: str) -> bytes:
    return struct.pack(">h", _KEY_TYPE) + group_id.encode()


async def with_other(client: Client, group_id: str = "other") -> OtherKind:
    node: Node = client.broker.node
    kind = OtherKind(node.groups.registry)
    node.groups.register(GroupType.SHARE, kind)
    node.groups.registry.put(OtherGroup(group_id))
    node.groups.log.change(group_id, [StateRecord(key_of(group_id), b"here")])
    await node.groups.log.until_durable(group_id)
    return kind


@with_broker()
async def test_groups_are_listed_with_their_types_and_on_demand_those_of_some_types(client: Client) -> None:
    await with_other(client)
    await client.create_topic("t")
    await client.request(commit_request(1), 9)
    listed = (await client.request(ListGroupsRequest(), 5)).groups
    assert [(group.group_id, group.group_type) for group in listed] == [("other", "share"), ("g", "classic")]
    wanted = {"Share": ["other"], "classic": ["g"], "consumer": [], "share,classic": ["other", "g"]}
    for types, ids in wanted.items():
        listed = (await client.request(ListGroupsRequest(types_filter=types.split(",")), 5)).groups
        assert [group.group_id for group in listed] == ids


@with_broker()
async def test_a_group_of_another_type_is_no_classic_group(client: Client) -> None:
    await with_other(client)
    joined = await client.request(join_request(group="other"), 7)
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = await client.request(HeartbeatRequest(group_id="other", generation_id=1, member_id="m"), 4)
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for version, code in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        (described,) = (await client.request(DescribeGroupsRequest(groups=["other"]), version)).groups
        assert (described.error_code, described.group_state) == (code, "Dead")


@with_broker()
async def test_a_group_of_any_type_can_be_deleted_when_it_is_empty(client: Client) -> None:
    kind = await with_other(client)
    (result,) = (await client.request(DeleteGroupsRequest(groups_names=["other"]), 2)).results
    assert (result.error_code, kind.gone) == (0, ["other"])
    assert client.broker.node.groups.groups() == []


def test_the_records_of_a_type_are_replayed_by_its_kind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await with_other(client)
        async with running(tmp_path / "data") as client:
            node = client.broker.node
            assert node.groups.groups() == []
            kind = OtherKind(node.groups.registry)
            node.groups.register(GroupType.SHARE, kind)
            node.groups.load()
            assert [group.group_id for group in node.groups.groups()] == ["other"]
            assert kind.is_loaded

    asyncio.run(scenario())
