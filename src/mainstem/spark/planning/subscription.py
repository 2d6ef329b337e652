"""The subscription of a read: topics by name or by pattern, or single partitions, with each topic's id.

``Subscription`` is for streams. It refreshes the metadata only every few seconds, since a micro-batch waits for that,
and at the next use after ``expire``, when something looks wrong. Owned by the stream's one thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import UnknownTopicError
from mainstem.model import TopicPartition
from mainstem.spark.options.read_options import ReadOptions

METADATA_AGE_S_MAX = 5.0
# A broker that has just started may not know a topic yet: it is asked so often before a topic counts as gone.
_LOOKS_MAX = 5
_LOOK_AGAIN_S = 0.4


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The partitions to read, in order, and each topic's id: a topic that is created again has a new one."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]


def subscribed(client: WireClient, options: ReadOptions) -> Subscribed:
    """The current topics and partitions. Raises UnknownTopicError for one that does not exist."""
    names = set(options.topics) | {tp.topic for tp in options.assigned}
    if options.pattern is not None:
        # matched as Kafka's consumers do: the whole name, and never an internal topic
        wanted = re.compile(options.pattern)
        found = client.metadata()
        names = {name for name, topic in found.items() if not topic.is_internal and wanted.fullmatch(name)}
    else:
        found = client.metadata(names)
    missing = sorted(names - found.keys())
    if missing:
        raise UnknownTopicError(f"there is no topic {', '.join(missing)}; create it, or check the option's spelling")
    partitions = tuple(tp for name in sorted(names) for tp in _partitions(found[name], options.assigned))
    return Subscribed(partitions, {name: str(found[name].topic_id) for name in sorted(names)})


def _partitions(topic: TopicMetadata, assigned: frozenset[TopicPartition]) -> Iterable[TopicPartition]:
    partitions = [TopicPartition(topic.name, number) for number in sorted(topic.partitions)]
    if not assigned:
        return partitions
    wanted = {tp for tp in assigned if tp.topic == topic.name}
    missing = sorted(wanted - set(partitions))
    if missing:
        raise UnknownTopicError(f"there is no partition {', '.join(map(str, missing))}; check the option assign")
    return sorted(wanted)


class Subscription:
    """A stream's subscription, refreshed every few seconds."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._known: Subscribed | None = None
        self._until_s = 0.0

    def now(self, client: WireClient, read: Iterable[str] = ()) -> Subscribed:
        """The partitions to read, as of a few seconds ago. ``read`` are the topics that the stream has read so far.

        Raises UnknownTopicError for a topic of the option ``subscribe`` or ``assign`` that is not there; one of a
        pattern is simply absent.
        """
        if self._known is None or time.monotonic() >= self._until_s:
            self._known = self._look(client, frozenset(read))
            self._until_s = time.monotonic() + METADATA_AGE_S_MAX
        return self._known

    def expire(self) -> None:
        """Look again at the next use."""
        self._known = None

    def _look(self, client: WireClient, read: frozenset[str]) -> Subscribed:
        for looks_left in reversed(range(_LOOKS_MAX)):
            try:
                found = subscribed(client, self._options)
            except UnknownTopicError:
                if not read or not looks_left:
                    raise
            else:
                if read <= found.topic_ids.keys() or not looks_left or self._options.pattern is None:
                    return found
            time.sleep(_LOOK_AGAIN_S)
        raise AssertionError("the last look returns or raises")
