"""A program's topology: what is checked of it, and what becomes of it with the topics that there are.

``configured`` decides how many partitions each internal topic has, by the rules of Kafka Streams: a repartition topic
has as many as the largest source of the subtopologies that write to it, co-partitioned topics have equally many, and a
changelog has one for each task. Pure functions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.consumer.consumer_steps import Catalog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_records as kafka

Topology = kafka.StreamsGroupTopologyValue
_SUBTOPOLOGIES_MAX: Final = 200
_TOPICS_MAX: Final = 1_000
TASKS_MAX: Final = 10_000
"""The bounds of one program: its topology is taken in, and its tasks are assigned, on the event loop."""


class GroupStatus(enum.IntEnum):
    """The status of a group in the answer to a heartbeat, by Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4


class TopologyProblemError(Exception):
    """Why a topology cannot run with the topics that there are."""

    def __init__(self, status: GroupStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the coordinator makes for a program."""

    name: str
    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Configured:
    """A topology over the topics that there are. ``problem`` is None when its tasks can run."""

    task_counts: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each subtopology has."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions each topic of it has, or will have."""
    names: Mapping[UUID, str] = field(default_factory=dict)
    """Its topics that are there, by their ids."""
    missing: tuple[InternalTopic, ...] = ()
    problem: tuple[GroupStatus, str] | None = None


def of_request(asked: Any) -> Topology:
    """The topology of a heartbeat, in the order of its subtopologies' ids. Raises RemoteError for an invalid one."""
    _check(asked)
    subtopologies = [_subtopology(each) for each in sorted(asked.subtopologies, key=lambda each: each.subtopology_id)]
    return Topology(epoch=asked.epoch, subtopologies=subtopologies)


def texts_of(topology: Any) -> tuple[str, ...]:
    """The texts that the node keeps of a topology, of a request or of a group."""
    texts: list[str] = []
    for each in topology.subtopologies:
        texts += [each.subtopology_id, *each.source_topics, *each.repartition_sink_topics]
        for topic in _internal_topics(each):
            texts.append(topic.name)
            texts += [text for config in topic.topic_configs for text in (config.key, config.value)]
    return tuple(texts)


def _check(asked: Any) -> None:
    if not asked.subtopologies:
        raise refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, "the topology has no subtopology")
    topics = sum(
        len(each.source_topics) + len(each.repartition_sink_topics) + sum(1 for _ in _internal_topics(each))
        for each in asked.subtopologies
    )
    if len(asked.subtopologies) > _SUBTOPOLOGIES_MAX or topics > _TOPICS_MAX:
        raise refusal(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"the topology names {len(asked.subtopologies)} subtopologies and {topics} topics; it may name "
            f"{_SUBTOPOLOGIES_MAX} and {_TOPICS_MAX}",
        )
    ids = [each.subtopology_id for each in asked.subtopologies]
    if len(set(ids)) < len(ids):
        raise refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, "a subtopology is named twice")
    for each in asked.subtopologies:
        if each.source_topic_regex:
            raise refusal(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "regular expressions for source topics are not supported, as in Kafka",
            )
        if not each.source_topics and not each.repartition_source_topics:
            raise refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"subtopology {each.subtopology_id!r} has no source")
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY, f"changelog {topic.name!r} must not have a number of partitions"
                )
        for group in each.copartition_groups:
            _check_indexes(each, group)


def _check_indexes(subtopology: Any, group: Any) -> None:
    pairs = (
        (group.source_topics, subtopology.source_topics),
        (group.repartition_source_topics, subtopology.repartition_source_topics),
    )
    if group.source_topic_regex or any(not 0 <= index < len(of) for indexes, of in pairs for index in indexes):
        raise refusal(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"a copartition group of subtopology {subtopology.subtopology_id!r} names a topic that is not there",
        )


def _subtopology(asked: Any) -> kafka.Subtopology:
    return kafka.Subtopology(
        subtopology_id=asked.subtopology_id,
        source_topics=sorted(asked.source_topics),
        source_topic_regex=[],
        state_changelog_topics=_infos(asked.state_changelog_topics),
        repartition_sink_topics=sorted(asked.repartition_sink_topics),
        repartition_source_topics=_infos(asked.repartition_source_topics),
        copartition_groups=[_copartition_group(asked, group) for group in asked.copartition_groups],
    )


def _infos(asked: Iterable[Any]) -> list[kafka.TopicInfo]:
    return [
        kafka.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                kafka.TopicConfig(key=config.key, value=config.value)
                for config in sorted(topic.topic_configs, key=lambda each: each.key)
            ],
        )
        for topic in sorted(asked, key=lambda each: each.name)
    ]


def _copartition_group(asked: Any, group: Any) -> kafka.CopartitionGroup:
    """The group with the indexes that its topics have once they are in order."""
    sources = {name: index for index, name in enumerate(sorted(asked.source_topics))}
    internal = {
        name: index for index, name in enumerate(sorted(topic.name for topic in asked.repartition_source_topics))
    }
    return kafka.CopartitionGroup(
        source_topics=sorted(sources[asked.source_topics[index]] for index in group.source_topics),
        source_topic_regex=[],
        repartition_source_topics=sorted(
            internal[asked.repartition_source_topics[index].name] for index in group.repartition_source_topics
        ),
    )


def topic_names(topology: Topology) -> frozenset[str]:
    """The topics that it reads or keeps."""
    return frozenset(
        name
        for each in topology.subtopologies
        for name in (*each.source_topics, *(topic.name for topic in _internal_topics(each)))
    )


def source_names(topology: Topology) -> frozenset[str]:
    """The topics whose records it processes: sources, and repartition topics."""
    return frozenset(name for each in topology.subtopologies for name in sources_of(each))


def sources_of(subtopology: kafka.Subtopology) -> list[str]:
    """The topics whose records a subtopology processes."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _internal_topics(subtopology: Any) -> Iterator[Any]:
    yield from subtopology.repartition_source_topics
    yield from subtopology.state_changelog_topics


def configured(topology: Topology, catalog: Catalog) -> Configured:
    """The topology with the topics that there are now."""
    try:
        return _configured(topology, catalog)
    except TopologyProblemError as error:
        return Configured(problem=(error.status, str(error)))


def _configured(topology: Topology, catalog: Catalog) -> Configured:
    subtopologies = topology.subtopologies
    internal = {topic.name: topic for each in subtopologies for topic in _internal_topics(each)}
    missing = sorted(
        name
        for each in subtopologies
        for name in each.source_topics
        if name not in internal and catalog.topic(name) is None
    )
    if missing:
        raise TopologyProblemError(GroupStatus.MISSING_SOURCE_TOPICS, f"source topics {', '.join(missing)} are missing")
    counts = _Counts(topology, catalog)
    counts.repartition_topics()
    counts.copartitioned()
    tasks = {each.subtopology_id: counts.largest(sources_of(each)) for each in subtopologies}
    for each in subtopologies:
        for topic in each.state_changelog_topics:
            counts.expect(topic.name, tasks[each.subtopology_id])
    if sum(tasks.values()) > TASKS_MAX:
        raise TopologyProblemError(
            GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"the program would have {sum(tasks.values())} tasks, and {TASKS_MAX} are allowed: use fewer partitions",
        )
    to_make = tuple(
        InternalTopic(name, counts.known[name], {each.key: each.value for each in internal[name].topic_configs})
        for name in sorted(internal)
        if catalog.topic(name) is None
    )
    problem = None
    if to_make:
        names = ", ".join(topic.name for topic in to_make)
        problem = GroupStatus.MISSING_INTERNAL_TOPICS, f"internal topics are missing: {names}"
    found = {name: catalog.topic(name) for name in topic_names(topology)}
    by_id = {topic.topic_id: name for name, topic in found.items() if topic is not None}
    return Configured(tasks, dict(counts.known), by_id, to_make, problem)


class _Counts:
    """The numbers of partitions, as far as they are decided."""

    def __init__(self, topology: Topology, catalog: Catalog) -> None:
        self._subtopologies = topology.subtopologies
        self._catalog = catalog
        self.known: dict[str, int] = {}
        for name in source_names(topology):
            found = catalog.topic(name)
            if found is not None:
                self.known[name] = found.partitions
        self._sources_by_sink: dict[str, set[str]] = {}
        for each in self._subtopologies:
            for name in each.repartition_sink_topics:
                self._sources_by_sink.setdefault(name, set()).update(sources_of(each))
        self._flexible: set[str] = set()
        """Repartition topics that are to be made with a number that the coordinator decides."""
        for each in self._subtopologies:
            for topic in each.repartition_source_topics:
                if topic.partitions:
                    self.expect(topic.name, topic.partitions)
                elif topic.name not in self.known:
                    self._flexible.add(topic.name)

    def largest(self, names: Iterable[str]) -> int:
        """The number of partitions of the largest of these topics."""
        return max(self.known[name] for name in names)

    def expect(self, name: str, count: int) -> None:
        """Decide on a number, which an existing topic must have."""
        found = self._catalog.topic(name)
        if found is not None and found.partitions != count:
            raise TopologyProblemError(
                GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"topic {name} has {found.partitions} partitions, and {count} are needed",
            )
        self.known[name] = count

    def repartition_topics(self) -> None:
        """Decide on repartition topics without a number: as many as the largest source of who writes to them."""
        open_topics = set(self._flexible)
        while open_topics:
            decided = {name: count for name in sorted(open_topics) if (count := self._upstream(name))}
            if not decided:
                raise TopologyProblemError(
                    GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"the number of partitions of {', '.join(sorted(open_topics))} cannot be decided: no subtopology "
                    "with a known source writes to them",
                )
            self.known.update(decided)
            open_topics -= decided.keys()

    def _upstream(self, name: str) -> int:
        """The largest known source of the subtopologies that write to a topic; 0 while none is known."""
        return max((self.known.get(source, 0) for source in self._sources_by_sink.get(name, ())), default=0)

    def copartitioned(self) -> None:
        """Let the topics of each copartition group have equally many partitions."""
        for each in self._subtopologies:
            for group in each.copartition_groups:
                names = [each.source_topics[index] for index in group.source_topics]
                names += [each.repartition_source_topics[index].name for index in group.repartition_source_topics]
                self._make_equal(names)

    def _make_equal(self, names: list[str]) -> None:
        fixed = {name: self.known[name] for name in names if name not in self._flexible}
        if len(set(fixed.values())) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in sorted(fixed.items()))
            raise TopologyProblemError(
                GroupStatus.INCORRECTLY_PARTITIONED_TOPICS, f"topics are not co-partitioned: {listed}"
            )
        count = next(iter(fixed.values())) if fixed else max((self.known[name] for name in names), default=0)
        self.known.update({name: count for name in names if name in self._flexible})
