"""Which member gets which tasks: balanced first, sticky second. Pure functions, deterministic.

Members of one process share its memory and its state directory. Active tasks are spread over all members, each a thread
of a program. A task stays where it was; else it goes to a process that has its standby task, and so its state. A
standby task is never in the process of its active task, or of another of its standby tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstem.broker.groups.streams.tasks import Task, TaskSet, each_of, gathered


@dataclass(frozen=True, slots=True)
class StreamsClient:
    """A member as the assignor sees it: its process, and its target so far."""

    member_id: str
    process_id: str
    target: TaskSet


def assign(clients: Sequence[StreamsClient], task_counts: Mapping[str, int], standbys: int) -> dict[str, TaskSet]:
    """The target of each member. ``task_counts``: how many tasks each subtopology has; ``standbys`` of each task.

    Each task is active in exactly one member. Two members differ by at most one active task.
    """
    tasks = [(subtopology, number) for subtopology in sorted(task_counts) for number in range(task_counts[subtopology])]
    if not clients:
        return {}
    spread = _Spread(sorted(clients, key=lambda each: each.member_id), len(tasks))
    spread.keep_active(set(tasks))
    spread.give_active(tasks)
    for _ in range(standbys):
        spread.give_standby(tasks)
    return spread.targets()


class _Spread:
    """Tasks as they are handed out."""

    def __init__(self, clients: Sequence[StreamsClient], tasks: int) -> None:
        self._clients = clients
        self._process_of = {client.member_id: client.process_id for client in clients}
        self._active: dict[Task, str] = {}
        self._standby: dict[Task, list[str]] = {}
        self._load: Counter[str] = Counter({client.member_id: 0 for client in clients})
        self._quota, self._longer = divmod(tasks, len(clients))
        self._had_standby = {(task, client.process_id) for client in clients for task in each_of(client.target.standby)}

    def keep_active(self, tasks: set[Task]) -> None:
        """Let members keep what they have, up to their share."""
        longer = self._longer
        for client in sorted(self._clients, key=lambda each: (-_count(each.target.active), each.member_id)):
            kept = [task for task in each_of(client.target.active) if task in tasks and task not in self._active]
            kept.sort(key=lambda task: (task[1], task[0]))  # so that it gives up tasks of each subtopology
            share = self._quota + (longer > 0 and len(kept) > self._quota)
            longer -= len(kept) > self._quota and longer > 0
            for task in kept[:share]:
                self._put_active(task, client.member_id)

    def give_active(self, tasks: Sequence[Task]) -> None:
        """Give each task that is left to a member with room: one whose process has its state, else the least busy."""
        for task in tasks:
            if task in self._active:
                continue
            least = min(self._load.values())
            free = [
                member_id for member_id in self._load if self._load[member_id] == least or self._has_room(member_id)
            ]
            member_id = min(
                free,
                key=lambda each: ((task, self._process_of[each]) not in self._had_standby, self._load[each], each),
            )
            self._put_active(task, member_id)

    def _has_room(self, member_id: str) -> bool:
        return self._load[member_id] < self._quota

    def give_standby(self, tasks: Sequence[Task]) -> None:
        """Give each task one standby more, if a process is left that has nothing of the task."""
        for task in tasks:
            taken = {self._process_of[member_id] for member_id in self._members_of(task)}
            free = [client for client in self._clients if client.process_id not in taken]
            if free:
                chosen = min(
                    free, key=lambda each: (not _has_standby(each, task), self._load[each.member_id], each.member_id)
                )
                self._standby.setdefault(task, []).append(chosen.member_id)
                self._load[chosen.member_id] += 1

    def _members_of(self, task: Task) -> list[str]:
        return [self._active[task], *self._standby.get(task, ())]

    def _put_active(self, task: Task, member_id: str) -> None:
        self._active[task] = member_id
        self._load[member_id] += 1

    def targets(self) -> dict[str, TaskSet]:
        """The tasks of each member."""
        active: dict[str, list[Task]] = {member_id: [] for member_id in self._load}
        standby: dict[str, list[Task]] = {member_id: [] for member_id in self._load}
        for task, member_id in self._active.items():
            active[member_id].append(task)
        for task, member_ids in self._standby.items():
            for member_id in member_ids:
                standby[member_id].append(task)
        return {member_id: TaskSet(gathered(active[member_id]), gathered(standby[member_id])) for member_id in active}


def _count(tasks: Mapping[str, frozenset[int]]) -> int:
    return sum(map(len, tasks.values()))


def _has_standby(client: StreamsClient, task: Task) -> bool:
    return task[1] in client.target.standby.get(task[0], ())
