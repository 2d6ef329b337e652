"""Names of every length, from a user without any right, on a log that judges by ACLs with prefixes."""

from __future__ import annotations

import struct
from pathlib import Path

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from tests.broker.harness import LogProcess
from tests.hostile.support import Raw, address_of, frame, processor_s, resident_bytes

MB = 1 << 20
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def with_a_prefix(log: LogProcess) -> Raw:
    """A client of a log that has an ACL for a prefix of groups; what no ACL is about is allowed at first."""
    client = Raw(address_of(log))
    rule = AclCreation(
        resource_type=ResourceType.GROUP,
        resource_name="g",
        resource_pattern_type=PatternType.PREFIXED,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    assert client.request(CreateAclsRequest(creations=[rule]), 3).results[0].error_code == 0
    return client


def test_a_group_id_of_a_megabyte_closes_its_connection_and_costs_nothing(tmp_path: Path) -> None:
    settings = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with LogProcess(tmp_path / "data", **settings) as log, with_a_prefix(log) as good:
        before_s = processor_s(log.pid)
        group_id = b"g" * MB
        body = struct.pack(">hhihB", 12, 4, 1, -1, 0)
        body += uvarint_of(len(group_id) + 1) + group_id + struct.pack(">i", 1) + b"\x02m\x00\x00"
        with Raw(address_of(log)) as attacker:
            attacker.send(struct.pack(">i", len(body)) + body)
            assert attacker.is_closed()
        good.ping()
        assert processor_s(log.pid) < before_s + 1


def test_the_longest_names_are_judged_as_cheaply_as_short_ones(tmp_path: Path) -> None:
    settings = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with LogProcess(tmp_path / "data", **settings) as log, with_a_prefix(log) as client:
        costs = []
        for name in ("g", "g" * 32_700):
            before_s = processor_s(log.pid)
            for number in range(300):
                asked = HeartbeatRequest(group_id=f"{name}{number}", generation_id=1, member_id="m")
                assert client.request(asked, 4).error_code != 0
            costs.append(processor_s(log.pid) - before_s)
        assert costs[1] < 5 * max(costs[0], 0.1)


def test_refused_names_leave_no_memory_taken(tmp_path: Path) -> None:
    settings = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with LogProcess(tmp_path / "data", **settings) as log, with_a_prefix(log) as client:
        filler = "x" * 30_000
        for number in range(3):
            names = [f"g{number}-{each}-{filler}" for each in range(300)]
            client.send(frame(DescribeGroupsRequest(groups=names), 5))
            client.receive(15, 5)
        settled = resident_bytes(log.pid)
        for number in range(3, 13):
            names = [f"g{number}-{each}-{filler}" for each in range(300)]
            client.send(frame(DescribeGroupsRequest(groups=names), 5))
            client.receive(15, 5)
        assert resident_bytes(log.pid) < settled + 40 * MB


def uvarint_of(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
