"""A program's topology over the topics that there are: how many partitions, what is missing, what cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mainstem.broker.groups.streams.topology import Configured, GroupStatus, configured, of_request
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_heartbeat as messages
from tests.broker.groups.test_consumer_steps import Topics


def info(name: str, partitions: int = 0, **configs: str) -> messages.TopicInfo:
    pairs = [messages.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return messages.TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=pairs)


def subtopology(
    name: str,
    *sources: str,
    logs: Sequence[str] = (),
    sinks: Sequence[str] = (),
    repartitions: Sequence[messages.TopicInfo] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> messages.Subtopology:
    return messages.Subtopology(
        subtopology_id=name,
        source_topics=sources,
        source_topic_regex=(),
        state_changelog_topics=[info(log) for log in logs],
        repartition_sink_topics=sinks,
        repartition_source_topics=repartitions,
        copartition_groups=[
            messages.CopartitionGroup(source_topics=of, source_topic_regex=(), repartition_source_topics=internal)
            for of, internal in together
        ],
    )


def over(topics: Topics, *subtopologies: messages.Subtopology) -> Configured:
    return configured(of_request(messages.Topology(epoch=0, subtopologies=subtopologies)), topics)


def made(found: Configured) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in found.missing}


def test_a_changelog_has_a_partition_for_each_task() -> None:
    found = over(Topics(a=2, b=5), subtopology("0", "a", "b", logs=["log"]))
    assert found.task_counts == {"0": 5}
    assert made(found) == {"log": 5}
    assert found.problem is not None
    assert found.problem[0] is GroupStatus.MISSING_INTERNAL_TOPICS
    there = over(Topics(a=2, b=5, log=5), subtopology("0", "a", "b", logs=["log"]))
    assert (there.problem, there.missing) == (None, ())
    assert sorted(there.names.values()) == ["a", "b", "log"]


def test_a_repartition_topic_is_as_large_as_what_is_written_to_it_through_other_ones_too() -> None:
    found = over(
        Topics(a=3, b=4),
        subtopology("0", "a", sinks=["one"]),
        subtopology("1", "b", repartitions=[info("one")], sinks=["two"]),
        subtopology("2", repartitions=[info("two"), info("three", 7)], logs=["log"]),
    )
    assert made(found) == {"one": 3, "two": 4, "three": 7, "log": 7}
    assert found.task_counts == {"0": 3, "1": 4, "2": 7}


def test_copartitioned_topics_are_equally_large() -> None:
    joined = subtopology("1", "b", repartitions=[info("one")], together=[([0], [0])])
    found = over(Topics(a=3, b=4), subtopology("0", "a", sinks=["one"]), joined)
    assert made(found) == {"one": 4}
    unequal = over(Topics(a=3, b=4), subtopology("0", "a", "b", together=[([0, 1], [])]))
    assert unequal.problem == (
        GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
        "topics are not co-partitioned: a has 3, b has 4",
    )


@pytest.mark.parametrize(
    ("topics", "asked", "status", "says"),
    [
        ({}, [subtopology("0", "b", "a")], GroupStatus.MISSING_SOURCE_TOPICS, "source topics a, b are missing"),
        (
            {"a": 2, "log": 3},
            [subtopology("0", "a", logs=["log"])],
            GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "topic log has 3 partitions, and 2 are needed",
        ),
        (
            {"a": 2, "one": 3},
            [subtopology("0", "a", sinks=["one"]), subtopology("1", repartitions=[info("one", 2)])],
            GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "topic one has 3 partitions, and 2 are needed",
        ),
        (
            {},
            [subtopology("0", sinks=["one"], repartitions=[info("one")])],
            GroupStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "the number of partitions of one cannot be decided: no subtopology with a known source writes to them",
        ),
    ],
)
def test_what_cannot_run_says_why(
    topics: dict[str, int], asked: list[messages.Subtopology], status: GroupStatus, says: str
) -> None:
    assert over(Topics(**topics), *asked).problem == (status, says)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ([], "no subtopology"),
        ([subtopology("0", "a"), subtopology("0", "b")], "named twice"),
        ([subtopology("0")], "has no source"),
        ([subtopology(str(number), "a") for number in range(201)], "names 201 subtopologies and 201 topics"),
        ([subtopology("0", *(f"t{number}" for number in range(1001)))], "names 1 subtopologies and 1001 topics"),
        ([subtopology("0", "a", together=[([1], [])])], "a topic that is not there"),
        ([subtopology("0", "a", together=[([-1], [])])], "a topic that is not there"),
    ],
)
def test_an_invalid_topology_is_refused(asked: Any, says: str) -> None:
    with pytest.raises(RemoteError, match=says) as refused:
        of_request(messages.Topology(epoch=0, subtopologies=asked))
    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_the_tasks_of_a_program_are_bounded() -> None:
    found = over(Topics(a=10_000), subtopology("0", "a"), subtopology("1", "a"))
    assert (found.task_counts, found.missing) == ({}, ())
    assert found.problem is not None
    assert "20000 tasks, and 10000 are allowed" in found.problem[1]


def test_the_order_in_which_a_program_names_its_topics_does_not_matter() -> None:
    one = subtopology("0", "a", "b", repartitions=[info("x"), info("y")], together=[([0], [1])])
    other = subtopology("0", "b", "a", repartitions=[info("y"), info("x")], together=[([1], [0])])
    topology = messages.Topology
    assert of_request(topology(epoch=0, subtopologies=[one])) == of_request(topology(epoch=0, subtopologies=[other]))
