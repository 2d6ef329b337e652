"""Classic groups whose clients are slow, lose connections and die, on a disk that takes its time: they come to rest.

A simulation with a clock of its own: each client does what real ones do (one request at a time, no heartbeats while it
joins), every step of it after a delay by random, and every answer of the coordinator leaves after another.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.groups.classic import classic_steps as steps
from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_S = 10.0
REBALANCE_S = 60.0
HEARTBEAT_S = 1.0
CLIENT_DELAY_S = 4.0
DISK_DELAY_S = 2.0


class World:
    """A group, a clock, and what happens when."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.group = ClassicGroup("g")
        self.time_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._expires_at_s = NEVER

    @property
    def now(self) -> steps.ClassicNow:
        return steps.ClassicNow(self.time_s, int(self.time_s * 1000), steps.ClassicSettings())

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.time_s + delay_s, next(self._number), action))

    def keep(self, effects: Any) -> None:
        """Give the answers when the disk has the records."""
        for reply, answer in effects.answers:
            self.later(self.random.uniform(0, DISK_DELAY_S), lambda reply=reply, answer=answer: reply(answer))
        self.watch()

    def watch(self) -> None:
        deadline_s = self.group.next_deadline_s()
        if deadline_s < self._expires_at_s:
            self._expires_at_s = deadline_s
            self.later(max(0.0, deadline_s - self.time_s), self._expire)

    def _expire(self) -> None:
        self._expires_at_s = NEVER
        self.keep(steps.expire(self.group, self.now))

    def run_until(self, end_s: float) -> None:
        while self._events and self._events[0][0] <= end_s:
            self.time_s, _, action = heapq.heappop(self._events)
            action()
        self.time_s = end_s


class Client:
    """One member. ``life`` changes when its connection breaks: what it waited for on the old one never comes."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.member_id = ""
        self.generation_id = -1
        self.is_stable = False
        self.is_alive = True
        self.lost_ids = 0
        self._life = 0
        self.soon(self.join)

    def soon(self, action: Callable[[], None]) -> None:
        life = self._life
        delay_s = self.world.random.uniform(0, CLIENT_DELAY_S)
        self.world.later(delay_s, lambda: action() if self.is_alive and self._life == life else None)

    def _reply(self, receive: Callable[[Any], None]) -> Any:
        life = self._life

        def reply(answer: Any) -> None:
            if self.is_alive and self._life == life:
                self.soon(lambda: receive(answer))

        return reply

    def join(self) -> None:
        self.is_stable = False
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        joiner = steps.Joiner("c", "/h", f"{self.name}-{self.world.random.random()}", True, True)
        self.world.keep(steps.join(self.world.group, request, joiner, self._reply(self._joined), self.world.now))

    def _joined(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code:
            self._failed(answer.error_code)
        else:
            self.generation_id = answer.generation_id
            given = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"a") for each in answer.members]
            self._sync(given)

    def _sync(self, given: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id="g", generation_id=self.generation_id, member_id=self.member_id, assignments=given
        )
        self.world.keep(steps.sync(self.world.group, request, self._reply(self._synced), self.world.now))

    def _synced(self, answer: Any) -> None:
        if answer.error_code:
            self._failed(answer.error_code)
        else:
            self.is_stable = True
            self._beat()

    def _beat(self) -> None:
        code = steps.heartbeat(self.world.group, self.member_id, None, self.generation_id, self.world.now)
        self.world.watch()
        life = self._life
        again = lambda: self._beat() if self.is_alive and self._life == life and self.is_stable else None  # noqa: E731
        if code is ErrorCode.NONE:
            self.world.later(HEARTBEAT_S + self.world.random.uniform(0, CLIENT_DELAY_S), again)
        else:
            self.soon(lambda: self._failed(code))

    def _failed(self, code: int) -> None:
        self.is_stable = False
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.lost_ids = "", self.lost_ids + 1
        self.join()

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=None)
        if self.member_id:
            request = LeaveGroupRequest(group_id="g", members=[identity])
            self.world.keep(steps.leave(self.world.group, request, lambda answer: None, self.world.now))
        self.die()

    def die(self) -> None:
        """The process is gone; nobody is told."""
        self.is_alive = False

    def reconnect(self) -> None:
        """The connection broke; the client tries again with the id that it has."""
        self._life += 1
        self.soon(self.join)


def play(seed: int) -> tuple[World, list[Client]]:
    """Some minutes in which members come, go, break off and die."""
    world = World(seed)
    clients: list[Client] = []
    for number in range(world.random.randint(2, 4)):
        clients.append(Client(world, f"c{number}"))
        world.run_until(world.time_s + world.random.uniform(0, 20))
    for number in range(8):
        client = world.random.choice(clients)
        action = world.random.choice(["reconnect", "leave", "die", "new", "nothing"])
        if action == "new":
            clients.append(Client(world, f"n{number}"))
        elif action != "nothing" and client.is_alive:
            getattr(client, action)()
        world.run_until(world.time_s + world.random.uniform(0, 15))
    return world, [client for client in clients if client.is_alive]


@pytest.mark.parametrize("seed", range(150))
def test_a_group_of_slow_members_comes_to_rest(seed: int) -> None:
    world, clients = play(seed)
    # Who died has its session; then everybody has to hear of it, join and sync, each step slowly.
    world.run_until(world.time_s + 2 * SESSION_S + 12 * (CLIENT_DELAY_S + DISK_DELAY_S))
    assert [client.name for client in clients if not client.is_stable] == []
    assert {client.generation_id for client in clients} <= {world.group.generation_id}
    assert world.group.state is (GroupState.STABLE if clients else GroupState.EMPTY)
    assert set(world.group.members) == {client.member_id for client in clients}
    # At rest nothing happens any more.
    generation_id = world.group.generation_id
    world.run_until(world.time_s + 400)
    assert world.group.generation_id == generation_id
    assert world.group.pending_members == {}


@pytest.mark.parametrize("seed", range(30))
def test_nobody_who_is_only_slow_loses_its_member_id(seed: int) -> None:
    world = World(seed)
    clients = [Client(world, f"c{number}") for number in range(4)]
    for number in range(6):
        world.run_until(world.time_s + world.random.uniform(0, 10))
        clients.append(Client(world, f"n{number}"))
    world.run_until(world.time_s + 200)
    assert [client.lost_ids for client in clients] == [0] * len(clients)
    assert world.group.state is GroupState.STABLE
