"""Steps of the members of a consumer group that speak the classic protocol: join, sync, heartbeat. As in Kafka 4.3.

Such a member takes part by its JoinGroup: it subscribes, says what it holds, and moves towards its target. Its epoch is
its generation. SyncGroup gives it the partitions that it may consume now. A heartbeat is answered REBALANCE_IN_PROGRESS
while it has something to do: it must join again, for which it has its rebalance time-out. LeaveGroup is that of
``consumer_steps``. No I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic.classic_steps import Joiner, rebalance_timeout_ms
from mainstem.broker.groups.consumer import consumer_records as records
from mainstem.broker.groups.consumer import consumer_steps as steps
from mainstem.broker.groups.consumer.consumer_group import ClassicSide, ConsumerGroup, ConsumerMember, MemberState
from mainstem.broker.groups.migration.conversion import may_downgrade
from mainstem.broker.groups.migration.embedded import EmbeddedSubscription, assignment_bytes, read_subscription
from mainstem.errors import FrameError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(slots=True)
class Joined:
    """The step of a JoinGroup and its answer. ``replaced_last``: the member took the place of the last one that spoke
    the consumer protocol, and so the group becomes a classic one, of the same epoch.
    """

    step: steps.Step
    answer: JoinGroupResponse
    replaced_last: bool = False


# ---- join


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    joiner: Joiner,
    now: steps.ConsumerNow,
    classic_members_max: int = 2**31 - 1,
) -> Joined:
    """A member of the classic protocol joins, subscribes to something else or has given partitions up.

    Raises RemoteError; MEMBER_ID_REQUIRED is among its codes: the member joins again with the id that it was given.
    """
    _check_join(group, request, now.settings)
    member_id = request.member_id or joiner.new_member_id
    if not request.member_id and request.group_instance_id is None and joiner.knows_member_id_required:
        raise refusal(ErrorCode.MEMBER_ID_REQUIRED)
    try:
        subscription = read_subscription(request.protocols[0].metadata, now.catalog)
    except FrameError as error:
        raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"member {member_id!r}: {error}") from error
    step = steps.Step(group.copy(), now)
    modern_before = [member.member_id for member in group.members.values() if member.classic is None]
    old, taken_over = _find(step, request, member_id)
    updated = _subscribed(old, request, joiner, subscription)
    changed = steps.subscription_changed(old, updated)
    if updated != step.group.members.get(member_id):
        step.records.append(records.member_record(group.group_id, updated))
    step.group.put(updated)
    if modern_before == [taken_over] and may_downgrade(step.group, now.settings, classic_members_max):
        return _join_instead_of_last(step, updated, subscription, changed=changed)
    steps.refresh(step, bump=changed)
    steps.retarget(step)
    member = steps.move_on(step, updated, subscription.owned, changed=changed)
    steps.extend(step, member)
    step.group.rejoins.pop(member_id, None)
    step.group.revocations.pop(member_id, None)
    step.group.syncs[member_id] = now.monotonic_s + member.rebalance_timeout_ms / 1000
    return Joined(step, _joined(member, member.member_epoch))


def _join_instead_of_last(
    step: steps.Step, member: ConsumerMember, subscription: EmbeddedSubscription, *, changed: bool
) -> Joined:
    """It goes on where the other was, if nothing has changed; otherwise the classic group assigns again."""
    group = step.group
    is_new = changed or group.catalog_version != step.now.catalog.version or group.epoch > group.assignment_epoch
    if not is_new:
        member = steps.move_on(step, member, subscription.owned, changed=False)
    return Joined(step, _joined(member, group.epoch), replaced_last=True)


def _check_join(group: ConsumerGroup, request: JoinGroupRequest, settings: steps.ConsumerSettings) -> None:
    if settings.migration is steps.MigrationPolicy.DISABLED:
        raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id not in group.members and len(group.members) >= settings.members_max:
        raise refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not _supports(group, request):
        raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether the members of the classic protocol have an assignor in common with it."""
    held = [member.classic.names for member in group.members.values() if member.classic is not None]
    is_common = any(all(offered.name in names for names in held) for offered in request.protocols)
    return request.protocol_type == "consumer" and is_common


def _find(step: steps.Step, request: JoinGroupRequest, member_id: str) -> tuple[ConsumerMember, str | None]:
    """The member as it was, and the id of the static member that it takes over."""
    group, instance_id = step.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    if request.member_id:
        return group.members[steps.check_instance(group, instance_id, member_id)], None
    held_by = group.static_members.get(instance_id)
    if held_by is None:
        return ConsumerMember(member_id, instance_id), None
    return steps.replaced(step, group.members[held_by], member_id), held_by


def _subscribed(
    member: ConsumerMember, request: JoinGroupRequest, joiner: Joiner, subscription: EmbeddedSubscription
) -> ConsumerMember:
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    side = ClassicSide(request.session_timeout_ms, protocols)
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        topic_names=subscription.topics,
        topic_regex=None,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        classic=side if side != member.classic else member.classic,
    )


def _joined(member: ConsumerMember, generation_id: int) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=generation_id,
        protocol_type="consumer",
        protocol_name=member.classic.protocols[0][0],
        leader="",
        member_id=member.member_id,
        members=[],
    )


# ---- sync, heartbeat


def sync(group: ConsumerGroup, request: SyncGroupRequest, now: steps.ConsumerNow) -> SyncGroupResponse:
    """The partitions that a member may consume now. It has then shown that it lives. Raises RemoteError."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    protocol, subscription = member.classic.protocols[0]
    for theirs, ours in ((request.protocol_type, "consumer"), (request.protocol_name, protocol)):
        if theirs is not None and theirs != ours:
            raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_rejoin(group, member, now)
        raise refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    group.syncs.pop(member.member_id, None)
    steps.extend(steps.Step(group, now), member)
    infos = ((name, now.catalog.topic(name)) for name in group.subscription(member))
    names = {info.topic_id: name for name, info in infos if info is not None}
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member.assigned, names, subscription),
    )


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int, now: steps.ConsumerNow
) -> ErrorCode:
    """A member lives; the answer says whether it must join again. Raises RemoteError."""
    member = _member(group, member_id, instance_id, generation_id)
    steps.extend(steps.Step(group, now), member)
    if member.member_epoch < group.epoch or _can_go_on(group, member):
        _ask_to_rejoin(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int) -> ConsumerMember:
    if instance_id is not None:
        steps.check_instance(group, instance_id, member_id)
    member = group.member(member_id)
    if member.classic is None:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id!r} does not use the classic protocol")
    if member.member_epoch != generation_id:
        raise refusal(ErrorCode.ILLEGAL_GENERATION)
    return member


def _can_go_on(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether it has to say that it gave partitions up, or can have all that it waits for."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return member.state is MemberState.UNREVOKED_PARTITIONS
    target = group.targets.get(member.member_id, {})
    return all(
        number in member.assigned.get(topic_id, ()) or (topic_id, number) not in group.owners
        for topic_id, numbers in target.items()
        for number in numbers
    )


def _ask_to_rejoin(group: ConsumerGroup, member: ConsumerMember, now: steps.ConsumerNow) -> None:
    group.rejoins.setdefault(member.member_id, now.monotonic_s + member.rebalance_timeout_ms / 1000)
