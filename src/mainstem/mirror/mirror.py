"""The mirror: follows the topics of the source, copies their batches, carries groups over, and reports how far it is.

What fails once is tried again, for ever, and is said once. A topic that cannot be copied is set aside with the reason;
the others go on. A topic for which the mirror lacks rights, or that is not there, is tried again at each look at the
topics. At the start a topic that cannot be copied ends the mirror, so that a mistake is seen. Owned by one thread;
``stop`` may be called from any.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mainstem.background import StopEvent
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import (
    AuthorizationError,
    InputError,
    MainstemError,
    MirrorRefusedError,
    RemoteError,
    UnavailableError,
    UnknownTopicError,
)
from mainstem.mirror.copying import Copying
from mainstem.mirror.group_offsets import GroupOffsets
from mainstem.mirror.link import Link
from mainstem.mirror.rate import RateLimit
from mainstem.mirror.rights import Rights
from mainstem.mirror.topics import ensure_copy, keep_copy
from mainstem.model import TopicPartition

_RETRY_S: Final = 2.0
_MAY_PASS: Final = (AuthorizationError, UnknownTopicError)
"""Why a topic is set aside only until the next look at the topics: an ACL, or the topic itself, may come later."""


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """``rate_bytes_per_s``: None for no limit. ``every_s``: how often topics, groups and the report are done.

    ``rights``: whether ACLs and quotas are carried, as often as topics are looked at.
    """

    rate_bytes_per_s: int | None = None
    topics_every_s: float = 10.0
    groups_every_s: float = 5.0
    report_every_s: float = 10.0
    rights: bool = False
    source_is_closed: bool = False
    """Whether a promotion may have closed the source."""


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """``lag_s``: the copy holds all that the source held so long ago; None before it did once."""

    topics: int
    partitions: int
    copied_bytes: int
    lag_records: int
    lag_s: float | None
    set_aside: dict[str, str]


class Mirror:
    """One source, one target. ``note`` gets lines about what goes wrong, ``report`` the state now and then."""

    def __init__(
        self,
        link: Link,
        options: MirrorOptions,
        note: Callable[[str], None],
        report: Callable[[MirrorReport], None] = lambda _: None,
    ) -> None:
        self._link = link
        self._options = options
        self._note = note
        self._noted: set[str] = set()
        self._report = report
        self._stopped = StopEvent()
        self._copying = Copying(link, options.rate_bytes_per_s)
        self._groups = GroupOffsets(link, note)
        self._rights = Rights(link, self._note_once) if options.rights else None
        self._rate = RateLimit(options.rate_bytes_per_s, self._stopped.wait)
        self._set_aside: dict[str, MainstemError] = {}
        self._epochs: dict[str, tuple[int, ...]] = {}
        self._copied_bytes = 0
        self._level_s: float | None = None
        self._said: str | None = None
        self._due_s = dict.fromkeys(("topics", "groups", "rights", "report"), 0.0)

    def begin(self) -> None:
        """Reach both logs and make the topics. Raises MirrorRefusedError, AuthorizationError, LogUnavailableError."""
        self._link.require_logs()
        self._is_due("topics", self._options.topics_every_s)
        self._follow_topics(at_start=True)

    def run(self) -> None:
        """Copy until ``stop``, or until no topic is left. Raises AuthorizationError; InputError in the latter case."""
        while not self._stopped.is_set():
            try:
                self.round()
            except (UnavailableError, RemoteError) as error:
                if not error.retriable:
                    raise
                self._say(str(error))
                self._stopped.wait(_RETRY_S)
            if not self._copying.partitions:
                self._wait_for_topic()

    def _wait_for_topic(self) -> None:
        """Nothing is copied now. Raises InputError when all topics are set aside for good."""
        if self._set_aside and not any(isinstance(error, _MAY_PASS) for error in self._set_aside.values()):
            name, error = next(iter(self._set_aside.items()))
            raise InputError(f"no topic is left to mirror; {name}: {error}")
        self._stopped.wait(_RETRY_S)

    def round(self) -> None:
        """Copy once, and do what is due besides. Raises AuthorizationError, LogUnavailableError."""
        if self._is_due("topics", self._options.topics_every_s):
            self._follow_topics()
        try:
            copied = self._copying.step()
        except UnknownTopicError:  # a topic was deleted at the source: a look at the topics says so
            self._due_s["topics"] = 0.0
            self._follow_topics()
            return
        for tp, error in copied.refused.items():
            is_gone = isinstance(error, UnknownTopicError)  # someone deleted the copy: it stays so
            why = f"topic {tp.topic!r} was deleted at {self._link.target.bootstrap}"
            self._put_aside(tp.topic, MirrorRefusedError(why) if is_gone else error)
        self._copied_bytes += copied.size
        failures = [each.failure for each in self._copying.partitions.values() if each.failure is not None]
        if failures:
            self._say(str(failures[0]))
            self._stopped.wait(_RETRY_S)
        else:
            self._said = None
        if self._is_level():
            self._level_s = time.monotonic()
        if self._is_due("groups", self._options.groups_every_s):
            self.carry_groups()
        if self._rights is not None and self._is_due("rights", self._options.topics_every_s):
            self._rights.carry()
        if self._is_due("report", self._options.report_every_s):
            self._report(self.state())
        self._rate.took(copied.size)

    def carry_groups(self, *, require_stable: bool = False) -> None:
        """Carry committed offsets over now; with ``require_stable`` also those that a transaction just commits."""
        ends = {tp: each.end for tp, each in self._copying.partitions.items()}
        self._groups.carry(ends, require_stable=require_stable)

    def stop(self) -> None:
        """End ``run``; from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """Let go of threads; the link stays open."""
        self.stop()
        self._copying.close()

    def state(self) -> MirrorReport:
        """How far the copy is."""
        partitions = self._copying.partitions
        lag_s = None if self._level_s is None else time.monotonic() - self._level_s
        return MirrorReport(
            len({tp.topic for tp in partitions}),
            len(partitions),
            self._copied_bytes,
            sum(max(each.source_end - each.end, 0) for each in partitions.values()),
            0.0 if self._is_level() else lag_s,
            {name: str(error) for name, error in self._set_aside.items()},
        )

    def _is_level(self) -> bool:
        partitions = self._copying.partitions.values()
        return all(each.failure is None and 0 <= each.source_end <= each.end for each in partitions)

    def _follow_topics(self, *, at_start: bool = False) -> None:
        topics = self._link.source_topics()
        known = {tp.topic for tp in self._copying.partitions}
        for name, topic in topics.items():
            if name in self._set_aside and not isinstance(self._set_aside[name], _MAY_PASS):
                continue
            try:
                if name in known:
                    keep_copy(
                        self._link, topic, self._note_once, has_new_leader=self._epochs.get(name) != _epochs_of(topic)
                    )
                else:
                    ensure_copy(self._link, topic, self._note_once, is_closed=self._options.source_is_closed)
                self._epochs[name] = _epochs_of(topic)
                self._copying.add(TopicPartition(name, number) for number in topic.partitions)
            except InputError as error:
                if at_start:
                    raise
                self._put_aside(name, error)
                continue
            if self._set_aside.pop(name, None) is not None:
                self._note(f"topic {name} is copied now")
        self._set_aside = {
            name: error for name, error in self._set_aside.items() if name in topics or not isinstance(error, _MAY_PASS)
        }
        for name in known.difference(topics):
            self._copying.drop(name)
            self._note(f"topic {name} was deleted at the source; its copy stays at the target")

    def _put_aside(self, topic: str, error: MainstemError) -> None:
        before = self._set_aside.get(topic)
        self._set_aside[topic] = error
        if before is None or str(before) != str(error):
            self._note(f"topic {topic} is not copied any more: {error}")
        self._copying.drop(topic)

    def _say(self, text: str) -> None:
        """Say what does not work, once, not at each try."""
        if text != self._said:
            self._note(text)
        self._said = text

    def _note_once(self, text: str) -> None:
        """Say what each look at the topics finds, at the first one."""
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)

    def _is_due(self, what: str, every_s: float) -> bool:
        now_s = time.monotonic()
        if now_s < self._due_s[what]:
            return False
        self._due_s[what] = now_s + every_s
        return True


def _epochs_of(topic: TopicMetadata) -> tuple[int, ...]:
    """The leader epochs of all partitions: one changes when the source was started again after a failure."""
    return tuple(each.leader_epoch for each in topic.partitions.values())
