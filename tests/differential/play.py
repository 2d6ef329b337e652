"""Plays a sequence against both brokers at once and returns the first request whose answers differ.

Each request goes to both before the next one goes to either. A group's member that waits (JoinGroup, SyncGroup) keeps
its connection busy, and its further requests are left out, on both sides, until both brokers have answered it. What
Kafka does behind an answer (metadata that spreads, markers that are written) is waited for: a request that only reads
is asked again while the answers differ, one that is refused as "not now" is sent again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scripts.differences import DELIBERATE

from mainstem.errors import FrameError
from mainstem.protocol.schema import VersionRange
from tests.differential.answers import Difference, Side, differences, error_codes
from tests.differential.open_differences import OPEN
from tests.differential.peer import CLOSED, Peer
from tests.differential.requests import Step, build
from tests.differential.settling import settle

_BLOCKING = {"join_group", "sync_group"}
_GRACE_S = 0.25
_LATE_S = 10.0
_SETTLE_S = 2.0
_NOT_NOW = {14, 15, 16, 51}
_READS = ("describe_", "list_", "metadata", "offset_fetch", "find_coordinator", "offset_for_leader_epoch")
_READS += ("consumer_group_describe", "share_group_describe")
_EXCUSED = (*DELIBERATE, *OPEN)
_RUNS = itertools.count()


class Found(NamedTuple):
    """The first request whose answers differ: its number in the sequence, and every place that differs."""

    number: int
    step: Step
    differences: list[Difference]

    @property
    def signature(self) -> tuple[str, str]:
        """What makes two findings the same one while a sequence is shrunk."""
        first = self.differences[0]
        return first.api, "".join(each for each in first.path if not each.isdigit())


@dataclass
class _Waiting:
    """A request that both brokers were sent, and the answers that came so far."""

    number: int
    step: Step
    answers: list[Any]


class Stage:
    """Both brokers. ``here`` is Mainstem, ``there`` Kafka; one thread plays."""

    def __init__(self, here: Peer, there: Peer, versions: Mapping[str, VersionRange]) -> None:
        self.peers = (here, there)
        self.versions = versions

    def play(
        self,
        steps: Sequence[Step],
        on_step: Callable[[Step, Any, Any], None] | None = None,
        *,
        patience_s: float = 0.0,
    ) -> Found | None:
        """Play a sequence under names of its own; None when every answer was equal. ``patience_s``: see ``settle``."""
        run = _Run(self.peers, steps, on_step, patience_s)
        try:
            return run.play()
        finally:
            run.clean_up()


class _Run:
    def __init__(
        self,
        peers: tuple[Peer, Peer],
        steps: Sequence[Step],
        on_step: Callable[[Step, Any, Any], None] | None,
        patience_s: float,
    ) -> None:
        prefix = f"d{os.getpid():07d}x{next(_RUNS):06d}."
        time_ms = int(time.time() * 1000)
        self._peers = peers
        self._sides = (Side(prefix, time_ms), Side(prefix, time_ms))
        for side in self._sides:
            side.known["now", "now"] = time_ms
        self._steps = steps
        self._on_step = on_step
        self._patience_s = patience_s
        self._waiting: dict[str, _Waiting] = {}
        self._has_parted = False

    def play(self) -> Found | None:
        for number, step in enumerate(self._steps):
            if self._has_parted:
                break
            if step.client in self._waiting:
                found = self._collect(step.client, 0.0)
                if found is not None:
                    return found
                if step.client in self._waiting:
                    continue
            found = self._ask(number, step)
            if found is not None:
                return found
            for client in list(self._waiting):
                found = self._collect(client, 0.0)
                if found is not None:
                    return found
        return None

    def _ask(self, number: int, step: Step) -> Found | None:
        try:
            bodies = [build(step, side.names) for side in self._sides]
            for peer, body in zip(self._peers, bodies, strict=True):
                peer.wire(step.client).send(body, step.version)
        except (FrameError, TypeError, AttributeError, OverflowError):
            for peer in self._peers:  # a value that this version has no place for: neither is asked
                peer.drop(step.client)
            return None
        self._waiting[step.client] = _Waiting(number, step, [None, None])
        if step.api == "produce" and step.fields["acks"] == 0:
            del self._waiting[step.client]
            return None
        return self._collect(step.client, _GRACE_S if step.api in _BLOCKING else _LATE_S)

    def _collect(self, client: str, grace_s: float) -> Found | None:
        """Take in the answers of a client's request, and compare them when both are there."""
        waiting = self._waiting[client]
        answers = waiting.answers
        for index, peer in enumerate(self._peers):
            if answers[index] is None:
                is_late = any(answers) or grace_s > _GRACE_S
                answers[index] = peer.wire(client).poll(_LATE_S if is_late else grace_s)
        if answers[0] is None and answers[1] is not None:
            answers[0] = self._peers[0].wire(client).poll(_LATE_S)
        if answers[0] is None and answers[1] is None and grace_s <= _GRACE_S:
            return None
        del self._waiting[client]
        for peer, answer in zip(self._peers, answers, strict=True):
            if answer is CLOSED or answer is None:
                peer.drop(client)
        return self._compare(waiting)

    def _compare(self, waiting: _Waiting) -> Found | None:
        step, answers = waiting.step, waiting.answers
        for index in range(2):
            answers[index] = self._until_now(index, step, answers[index])
        found = self._differences(step, answers)
        deadline = time.monotonic() + _SETTLE_S
        while found and _only_reads(step) and time.monotonic() < deadline:
            answers = [self._again(index, step) for index in range(2)]
            found = self._differences(step, answers)
        if self._on_step is not None:
            self._on_step(step, *answers)
        settle(self._peers, self._sides, step, patience_s=self._patience_s)
        return Found(waiting.number, step, found) if found else None

    def _differences(self, step: Step, answers: Sequence[Any]) -> list[Difference]:
        for side, answer in zip(self._sides, answers, strict=True):
            if answer is not None and answer is not CLOSED:
                side.learn(step, answer)
        here, there = (side.normal(step, answer) for side, answer in zip(self._sides, answers, strict=True))
        found, asked = [], str(step.fields)
        for each in differences(step, here, there):
            rows = [row for row in _EXCUSED if row.covers(each.api, each.path, each.here, each.there, asked)]
            self._has_parted |= any(row.parts for row in rows)
            if not rows:
                found.append(each)
        return [] if self._has_parted else found

    def _until_now(self, index: int, step: Step, answer: Any) -> Any:
        """Send a request again while its answer is "not now"."""
        deadline = time.monotonic() + _SETTLE_S
        while error_codes(answer) & _NOT_NOW and time.monotonic() < deadline:
            answer = self._again(index, step)
        return answer

    def _again(self, index: int, step: Step) -> Any:
        return self._peers[index].exchange(build(step, self._sides[index].names), step.version, step.client)

    def clean_up(self) -> None:
        """Close the connections of this run, and remove its topics and the group without a name."""
        for peer, side in zip(self._peers, self._sides, strict=True):
            peer.close()
            for step in _cleaning(self._steps):
                peer.exchange(build(step, side.names), step.version)


def _cleaning(steps: Sequence[Step]) -> list[Step]:
    topics = {topic["name"] for step in steps if step.api == "create_topics" for topic in step.fields["topics"]}
    return [
        Step("delete_topics", 5, "admin", {"topic_names": sorted(str(each) for each in topics), "timeout_ms": 20000}),
        Step("delete_groups", 2, "admin", {"groups_names": ["", "~g0", "~g1", "~s0"]}),
    ]


def _only_reads(step: Step) -> bool:
    if step.api == "fetch":
        return step.fields.get("session_epoch") is None
    return step.api.startswith(_READS)
