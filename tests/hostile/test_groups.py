"""Members of groups that bring much along: it is bounded, and groups go on."""

from __future__ import annotations

from pathlib import Path

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.leave_group import LeaveGroupRequest
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from mainstem.protocol.schema import Message
from tests.broker.harness import LogProcess
from tests.hostile.support import Raw, address_of, frame, resident_bytes

MB = 1 << 20
GROUP_MAX_SIZE_REACHED = ErrorCode.GROUP_MAX_SIZE_REACHED


def joining(number: int, metadata_bytes: int, client: str = "") -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(metadata_bytes))
    return JoinGroupRequest(
        group_id=f"g{number}{client}",
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )


def subscribing(number: int) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest.of_defaults()
    request.group_id, request.member_id, request.rebalance_timeout_ms = f"c{number}", "m", 1_000
    request.subscribed_topic_names = ["x" * 30_000] * 100
    request.topic_partitions = []
    return request


def test_members_that_bring_50_mb_along_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as good:
        assert good.request(joining(0, 100_000), 3).error_code == 0
        before = resident_bytes(log.pid)
        for number in range(1, 13):
            with Raw(address_of(log)) as attacker:
                attacker.send(frame(joining(number, 50 * MB), 3))
                assert attacker.is_closed()
        assert resident_bytes(log.pid) < before + 130 * MB
        good.ping()


def test_subscriptions_without_end_are_refused(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as good:
        requests: list[Message] = [subscribing(number) for number in range(3)]
        for request in requests:
            with Raw(address_of(log)) as attacker:
                attacker.send(frame(request, 1))
                assert attacker.is_closed()
        good.ping()


def subscribing_little(number: int) -> ConsumerGroupHeartbeatRequest:
    request = subscribing(number)
    request.subscribed_topic_names = ["x" * 30_000, "x" * 29_999, "x" * 29_998]
    return request


def test_the_members_of_all_groups_are_bounded_together(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data", mainstem_groups_bytes_max="200000") as log:
        with Raw(address_of(log)) as good:
            first = joining(0, 90_000)
            first.rebalance_timeout_ms = 600_000  # else it leaves, as it has not synced
            joined = good.request(first, 3)
            assert joined.error_code == 0
            assert good.request(subscribing_little(1), 1).error_code == 0
            assert good.request(joining(2, 90_000), 3).error_code == GROUP_MAX_SIZE_REACHED
            assert good.request(subscribing_little(2), 1).error_code == GROUP_MAX_SIZE_REACHED
            sync = SyncGroupRequest.of_defaults()
            sync.group_id, sync.generation_id, sync.member_id = "g0", joined.generation_id, joined.member_id
            sync.assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(30_000))]
            assert good.request(sync, 3).error_code == GROUP_MAX_SIZE_REACHED
            first.member_id = joined.member_id
            assert good.request(first, 3).error_code == 0  # it brings no more than it has
            leave = LeaveGroupRequest.of_defaults()
            leave.group_id, leave.member_id = "g0", joined.member_id
            assert good.request(leave, 2).error_code == 0
            assert good.request(subscribing_little(2), 1).error_code == 0
        log.stop()
        log.start()
        with Raw(address_of(log)) as good:
            assert good.request(joining(3, 90_000), 3).error_code == GROUP_MAX_SIZE_REACHED
            good.ping()
