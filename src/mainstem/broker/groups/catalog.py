"""The node's topics, for the group coordinators. Concurrency: the event loop only, except that a thread matches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mainstem.broker.groups.consumer.consumer_steps import GroupTopic
from mainstem.broker.groups.consumer.topic_patterns import TopicPatterns
from mainstem.broker.storage.topics import Topics

_KEPT_MAX: Final = 1024
_TRIES: Final = 3


class _Resolved(NamedTuple):
    """The topics that a pattern matched at a version of the catalog."""

    version: int
    seen: frozenset[str]
    matched: frozenset[str]


class TopicCatalog:
    """A ``Catalog`` over the topics as they are now.

    Patterns are matched in a thread, as many topics times many patterns take a while; only what came since the last
    time is looked at. Until ``resolve`` has returned, ``matching`` does not know a pattern.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._patterns = TopicPatterns()
        self._resolved: dict[str, _Resolved] = {}

    @property
    def version(self) -> int:
        """Differs whenever the topics do."""
        return self._topics.version

    def topic(self, name: str) -> GroupTopic | None:
        """The topic of that name."""
        topic = self._topics.get(name)
        return None if topic is None else GroupTopic(topic.topic_id, len(topic.partitions))

    def matching(self, pattern: str) -> frozenset[str] | None:
        """The names that ``pattern`` matches; None while that is not known."""
        resolved = self._resolved.get(pattern)
        return resolved.matched if resolved is not None and resolved.version == self.version else None

    async def resolve(self, patterns: Iterable[str]) -> None:
        """Make them known to ``matching``. Raises RemoteError (INVALID_REGULAR_EXPRESSION).

        While topics change all the time it gives up after a few tries, so that no heartbeat waits for them.
        """
        wanted = {pattern: self._patterns.compile(pattern) for pattern in patterns}
        for _ in range(_TRIES):
            unknown = [pattern for pattern in wanted if self.matching(pattern) is None]
            if not unknown:
                break
            version, names = self.version, frozenset(topic.name for topic in self._topics.all())
            for pattern in unknown:
                before = self._resolved.get(pattern, _Resolved(-1, frozenset(), frozenset()))
                new = await asyncio.to_thread(_matches, wanted[pattern], names - before.seen)
                self._resolved.pop(pattern, None)
                self._resolved[pattern] = _Resolved(version, names, (before.matched & names) | new)
            while len(self._resolved) > max(_KEPT_MAX, len(wanted)):
                del self._resolved[next(iter(self._resolved))]


def _matches(fullmatch: Callable[[str], object], names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if fullmatch(name) is not None)
