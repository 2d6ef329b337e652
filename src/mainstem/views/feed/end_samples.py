"""Bounded staleness: the position that a read must reflect, so that it is at most ``max_lag_ms`` behind the log.

A **sample** has the ends of committed records, at one moment, of the view's topic and of every topic that streams into
it. A state that covers a sample reflects everything that was in the log at that moment, also through pipelines.

A read that may lag by ``max_lag_ms`` has to cover one sample that is at most that old when the read arrives. Ends
only grow, so the oldest such sample is the one that is covered first; where there is none, one is taken now. A busy
view therefore asks the log once in ``max_lag_ms``, however many read it.

A sample has the time before its request was sent to the log, never a later one. A sample that is older than the
discovery of a pipeline lacks that pipeline's sources, and is not used.

Thread-safe. Readers of one topic take turns at the log, and share the first one's sample.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mainstem.client.wire.cluster.cluster import LATEST, Isolation, WireClient
from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError
from mainstem.model import Position, TopicPartition

_SAMPLES_MAX = 64


@dataclass(frozen=True, slots=True)
class _Sample:
    """``taken_s``: monotonic time, just before the log was asked for the ends of ``topics``."""

    taken_s: float
    topics: frozenset[str]
    ends: Position


@dataclass(slots=True)
class _Recent:
    """The samples for views of one topic, oldest first. ``asking`` is held while the log is asked."""

    samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=_SAMPLES_MAX))
    asking: threading.Lock = field(default_factory=threading.Lock)

    def oldest_since(self, since_s: float, topics: frozenset[str]) -> Position | None:
        for sample in tuple(self.samples):
            if sample.taken_s >= since_s and sample.topics == topics:
                return sample.ends
        return None


class EndSamples:
    """The recent samples of the ends of topics."""

    def __init__(
        self, ask: Callable[[frozenset[str]], Position], upstream: Callable[[str], frozenset[str]], clock: Clock
    ) -> None:
        """``ask`` tells where topics end; ``upstream``, which topics stream into one."""
        self._ask = ask
        self._upstream = upstream
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: dict[str, _Recent] = {}

    def target(self, topic: str, max_lag_ms: int, patience_s: float) -> Position:
        """The position that a view of ``topic`` has to cover, to be at most ``max_lag_ms`` behind the log as of now.

        Waits for other readers' requests to the log up to ``patience_s``. Raises LogUnavailableError.
        """
        since_s = self._clock.monotonic_s() - max_lag_ms / 1_000
        topics = self._upstream(topic) | {topic}
        with self._lock:
            recent = self._recent.setdefault(topic, _Recent())
        ends = recent.oldest_since(since_s, topics)
        if ends is not None:
            return ends
        if not recent.asking.acquire(timeout=patience_s):
            raise LogUnavailableError(f"the log did not say in time where {topic} ends")
        try:
            ends = recent.oldest_since(since_s, topics)  # another reader's sample may be recent enough by now
            if ends is None:
                taken_s = self._clock.monotonic_s()
                ends = self._ask(topics)
                recent.samples.append(_Sample(taken_s, topics, ends))
            return ends
        finally:
            recent.asking.release()


def committed_ends(client: WireClient, topics: Iterable[str]) -> Position:
    """Where the committed records of topics end; a topic that does not exist has none. Raises LogUnavailableError."""
    found = client.metadata(topics)
    tps = [TopicPartition(name, number) for name, topic in sorted(found.items()) for number in topic.partitions]
    return Position(client.list_offsets(tps, LATEST, Isolation.READ_COMMITTED)) if tps else Position()
