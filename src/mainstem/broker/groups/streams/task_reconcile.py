"""A member's next step from its current tasks to its target: it gives tasks up first, then gets what others gave up.

Pure functions over one member; Kafka's rules (KIP-1071). ``owned`` are the tasks that the member reports, None when it
reports none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mainstem.broker.groups.streams.streams_group import StreamsMember, TaskState
from mainstem.broker.groups.streams.tasks import Task, Tasks, TaskSet, each_of, gathered


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """The target of a member, and the epoch of that target.

    ``may_run``: whether no other member has the task active, and no other of the member's process has its state.
    ``may_copy``: whether no other member of its process has the task in any role.
    """

    epoch: int
    target: TaskSet
    may_run: Callable[[Task], bool]
    may_copy: Callable[[Task], bool]


def next_member(member: StreamsMember, goal: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    """The member after a heartbeat with ``owned``; the same one when it cannot go on yet."""
    if member.state is TaskState.STABLE and member.member_epoch == goal.epoch:
        return member
    if member.state is TaskState.UNREVOKED_TASKS and _holds(owned, member.pending_revocation):
        return member
    then = _towards(member, goal, owned)
    known = {task: member.assignment_epochs.get(task, member.member_epoch) for task in member.active_tasks()}
    return then.with_epochs(known)


def _towards(member: StreamsMember, goal: TaskTarget, owned: TaskSet | None) -> StreamsMember:
    kept = member.assigned.both(goal.target)
    given_up = member.assigned.without(kept)
    if given_up and _holds(owned, given_up):
        return replace(member, state=TaskState.UNREVOKED_TASKS, assigned=kept, pending_revocation=given_up)
    wanted = goal.target.without(kept)
    ready = TaskSet(
        _those(wanted.active, goal.may_run), _those(wanted.standby, goal.may_copy), _those(wanted.warmup, goal.may_copy)
    )
    return replace(
        member.at_epoch(goal.epoch),
        state=TaskState.STABLE if ready == wanted else TaskState.UNRELEASED_TASKS,
        assigned=kept.plus(ready),
        pending_revocation=TaskSet(),
    )


def _those(tasks: Tasks, may: Callable[[Task], bool]) -> Tasks:
    return gathered(task for task in each_of(tasks) if may(task))


def _holds(owned: TaskSet | None, tasks: TaskSet) -> bool:
    """Whether the member may still hold any of ``tasks``."""
    return owned is None or bool(owned.both(tasks))


def is_part_of(owned: TaskSet | None, assigned: TaskSet) -> bool:
    """Whether the member says what it holds, and holds nothing that it was not given."""
    return owned is not None and not owned.without(assigned)
