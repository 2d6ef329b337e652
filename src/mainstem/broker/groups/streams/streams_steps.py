"""The steps of a streams group: heartbeat, leave, and its time-outs. No I/O, no clock, no randomness.

A step takes a group and returns its next state, with the records of the change. The caller writes the records first,
and then replaces the group. A heartbeat does this in order: find or create the member, take the program's topology,
look at its topics, raise the group's epoch if any of that changed, compute a target if the epoch is newer than the last
target's, and move the member towards its target.

Deliberate: the first target comes at once, where Kafka waits group.streams.initial.rebalance.delay.ms for more members.
A program whose group has no members may bring another topology; Kafka 4.3 refuses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.consumer.consumer_steps import Caller, Catalog, topics_hash
from mainstem.broker.groups.streams import streams_records as records
from mainstem.broker.groups.streams import topology as topologies
from mainstem.broker.groups.streams.answers import answer_of, with_tasks_of
from mainstem.broker.groups.streams.streams_group import ClientEndpoint, StreamsGroup, StreamsMember, TaskState
from mainstem.broker.groups.streams.task_assignor import StreamsClient, assign
from mainstem.broker.groups.streams.task_reconcile import TaskTarget, is_part_of, next_member
from mainstem.broker.groups.streams.tasks import Task, TaskSet
from mainstem.broker.groups.streams.topology import Configured, Topology
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

_WORK_MAX: Final = 400_000
"""Members times tasks, standby tasks included: an assignment looks at each pair on the event loop, for 0.1 s then."""
LEAVES: Final = (-1, -2)
"""The member epochs of who leaves, for good or for a while."""


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """The settings of one group's steps."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    members_max: int = 2**31 - 1
    standbys: int = 0


@dataclass(frozen=True, slots=True)
class StreamsNow:
    """The time, settings and topics of a step. ``failed`` says why internal topics could not be made."""

    monotonic_s: float
    time_ms: int
    settings: StreamsSettings
    catalog: Catalog
    failed: str = ""


@dataclass(slots=True)
class StreamsStep:
    """The result of a step: the group's next state, its records, and the answer."""

    group: StreamsGroup
    now: StreamsNow
    records: list[StateRecord] = field(default_factory=list)
    answer: StreamsGroupHeartbeatResponse | None = None


# ---- heartbeat


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Whether a heartbeat makes sense by itself. Raises RemoteError."""
    for name in ("group_id", "member_id"):
        if not getattr(request, name).strip():
            raise refusal(ErrorCode.INVALID_REQUEST, f"{name} is empty")
    if request.instance_id is not None:
        raise refusal(ErrorCode.INVALID_REQUEST, "static members are not supported by streams groups, as in Kafka")
    if request.member_epoch < min(LEAVES):
        raise refusal(ErrorCode.INVALID_REQUEST, f"member epoch {request.member_epoch} is invalid")
    if request.member_epoch != 0:
        if request.topology is not None:
            raise refusal(ErrorCode.INVALID_REQUEST, "a topology comes with the heartbeat that joins alone")
        return
    if request.rebalance_timeout_ms == -1:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must give its rebalance_timeout_ms")
    if request.topology is None:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must give its topology")
    if not request.process_id:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must give its process_id")
    if request.active_tasks or request.standby_tasks or request.warmup_tasks:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must have no tasks")


def heartbeat(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, caller: Caller, now: StreamsNow
) -> StreamsStep:
    """A member lives, joins, brings something else or has given tasks up. Raises RemoteError."""
    if request.member_epoch in LEAVES:
        return _leave(group, request, now)
    step = StreamsStep(group.copy(), now)
    old = _find_or_create(step, request)
    updated = _taken_over(old, request, caller)
    changed = updated != group.members.get(updated.member_id)
    if changed:
        step.records.append(records.member_record(group.group_id, updated))
    step.group.members[updated.member_id] = updated
    topology_changed = _take_topology(step, request)
    refresh(step, bump=topology_changed or _matters(old, updated, group))
    _retarget(step)
    reconciled = _move_on(step, updated, _owned(request))
    _extend(step, reconciled)
    if request.shutdown_application:
        step.group.shutdown_by = step.group.shutdown_by or updated.member_id
    if old.assigned != reconciled.assigned or old.endpoint != reconciled.endpoint:
        step.group.endpoints_epoch += 1
    with_tasks = request.member_epoch == 0 or _owned(request) is not None or old.assigned != reconciled.assigned
    step.answer = answer_of(step.group, reconciled, request, now.settings.heartbeat_interval_ms, now.failed)
    if with_tasks:
        step.answer = with_tasks_of(step.answer, reconciled)
    return step


def _find_or_create(step: StreamsStep, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    group, member_id = step.group, request.member_id
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != 0:
            return group.member(member_id)
        tasks = sum(group.configured.task_counts.values()) * (1 + step.now.settings.standbys)
        work = len(group.members) * tasks
        if len(group.members) >= step.now.settings.members_max or work > _WORK_MAX:
            raise refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return StreamsMember(member_id)
    epoch = request.member_epoch
    is_retry = epoch == member.previous_member_epoch and is_part_of(_owned(request), member.assigned)
    if epoch not in (0, member.member_epoch) and not is_retry:
        raise refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member_id!r} is at epoch {member.member_epoch}, not {epoch}: it must give everything up and join "
            "again",
        )
    return member


def _taken_over(member: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> StreamsMember:
    rack, timeout_ms, process = request.rack_id, request.rebalance_timeout_ms, request.process_id
    endpoint, tags = request.user_endpoint, request.client_tags
    return replace(
        member,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rack_id=member.rack_id if rack is None else rack,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if process is None else process,
        endpoint=member.endpoint if endpoint is None else ClientEndpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else tuple((each.key, each.value) for each in tags),
        topology_texts=member.topology_texts if request.topology is None else topologies.texts_of(request.topology),
    )


def _matters(old: StreamsMember, new: StreamsMember, group: StreamsGroup) -> bool:
    """Whether the target depends on what changed of a member."""
    was = (old.process_id, old.client_tags, old.rack_id, old.topology_epoch)
    return new.member_id not in group.members or was != (
        new.process_id,
        new.client_tags,
        new.rack_id,
        new.topology_epoch,
    )


def wanted_topology(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Topology | None:
    """The topology of the group once the heartbeat is taken in. Raises RemoteError for one that it cannot have."""
    if request.topology is None:
        return group.topology
    asked = topologies.of_request(request.topology)
    known = group.topology
    if known is None or asked == known or not group.members.keys() - {request.member_id}:
        return asked
    if asked.epoch < known.epoch:
        return known
    raise refusal(
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "the group has members with another topology; stop all of them before you start a changed program",
    )


def _take_topology(step: StreamsStep, request: StreamsGroupHeartbeatRequest) -> bool:
    """Let the group have the topology of who joins; whether that changed it."""
    group = step.group
    topology = wanted_topology(group, request)
    if topology is None or topology == group.topology:
        return False
    group.topology, group.catalog_version = topology, -1
    step.records.append(records.topology_record(group.group_id, topology))
    return True


# ---- what the group is about, and who shall have what


def refresh(step: StreamsStep, *, bump: bool) -> None:
    """Look at the topics again if they, the members or the settings may have changed; a change raises the epoch."""
    group, catalog, settings = step.group, step.now.catalog, step.now.settings
    if group.catalog_version != catalog.version:
        group.configured = Configured() if group.topology is None else topologies.configured(group.topology, catalog)
        group.catalog_version = catalog.version
    names = frozenset[str]() if group.topology is None else topologies.topic_names(group.topology)
    metadata_hash = topics_hash((name, info) for name in sorted(names) if (info := catalog.topic(name)) is not None)
    is_ready = group.topology is not None and group.configured.problem is None
    validated = group.topology.epoch if is_ready and group.topology is not None else -1
    then = (metadata_hash, validated, settings.standbys)
    if not bump and then == (group.metadata_hash, group.validated_topology_epoch, group.standbys):
        return
    group.epoch += 1
    group.metadata_hash, group.validated_topology_epoch, group.standbys = then
    step.records.append(records.epoch_record(group))


def _retarget(step: StreamsStep) -> None:
    """Compute a new target if the group is at a newer epoch. While topics are missing, no member has tasks."""
    group = step.group
    if group.epoch <= group.assignment_epoch:
        return
    clients = [
        StreamsClient(member.member_id, member.process_id, group.targets.get(member.member_id, TaskSet()))
        for member in group.members.values()
    ]
    counts = group.configured.task_counts if group.configured.problem is None else {}
    targets = assign(clients, counts, group.standbys)
    for member_id, target in targets.items():
        if target != group.targets.get(member_id):
            step.records.append(records.target_record(group.group_id, member_id, target))
    group.targets = targets
    group.assignment_epoch = group.epoch
    step.records.append(records.target_epoch_record(group, step.now.time_ms))


def _move_on(step: StreamsStep, member: StreamsMember, owned: TaskSet | None) -> StreamsMember:
    """Move a member, which says that it holds ``owned``, towards its target."""
    group = step.group
    if group.is_reconciled(member):
        return member
    active, in_process = _taken(group, member)
    goal = TaskTarget(
        epoch=group.assignment_epoch,
        target=group.targets.get(member.member_id, TaskSet()),
        may_run=lambda task: task not in active and not in_process[task],
        may_copy=lambda task: not in_process[task],
    )
    reconciled = next_member(member, goal, owned)
    if reconciled == member:
        return member
    group.members[member.member_id] = reconciled
    step.records.append(records.current_record(group.group_id, reconciled))
    if reconciled.state is TaskState.UNREVOKED_TASKS:
        group.give_up_in_time(member.member_id, step.now.monotonic_s)
    else:
        group.revocations.pop(member.member_id, None)
    return reconciled


def _taken(group: StreamsGroup, member: StreamsMember) -> tuple[set[Task], Counter[Task]]:
    """The tasks of the others: active ones, and tasks in any role in the process of ``member``."""
    active: set[Task] = set()
    in_process: Counter[Task] = Counter()
    for other in group.members.values():
        if other.member_id != member.member_id:
            active.update(other.active_tasks())
            if other.process_id == member.process_id:
                in_process.update(other.active_tasks())
                in_process.update(other.copies())
    return active, in_process


def _owned(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskSet.of(request.active_tasks, request.standby_tasks, request.warmup_tasks)


def _extend(step: StreamsStep, member: StreamsMember) -> None:
    extend(step.group, member.member_id, step.now)


def extend(group: StreamsGroup, member_id: str, now: StreamsNow) -> None:
    """The member lives: its session begins again."""
    group.sessions[member_id] = now.monotonic_s + now.settings.session_timeout_ms / 1000


# ---- leave, time


def _leave(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, now: StreamsNow) -> StreamsStep:
    member = group.member(request.member_id)
    step = StreamsStep(group.copy(), now)
    _fence(step, [member.member_id])
    if request.shutdown_application and step.group.members:
        step.group.shutdown_by = step.group.shutdown_by or member.member_id
    step.answer = StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=None,
        endpoint_information_epoch=0,
    )
    return step


def expire(group: StreamsGroup, now: StreamsNow) -> StreamsStep:
    """Remove members without a heartbeat for a session, and those that kept tasks over a rebalance time-out."""
    late = group.late_members(now.monotonic_s)
    step = StreamsStep(group.copy(), now)
    if late:
        _fence(step, late)
    step.group.forget_passed_revocations(now.monotonic_s)
    return step


def _fence(step: StreamsStep, member_ids: Iterable[str]) -> None:
    """Remove members. Their tasks are free at once: the next heartbeat of another member finds a new target."""
    for member_id in member_ids:
        step.group.remove(member_id)
        step.records += records.member_tombstones(step.group.group_id, member_id)
    if not step.group.members:
        step.group.shutdown_by = None
    step.group.endpoints_epoch += 1
    refresh(step, bump=True)
