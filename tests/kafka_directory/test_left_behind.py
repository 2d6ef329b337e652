"""Features and settings that only one side has: taken out, and named."""

from __future__ import annotations

from uuid import uuid4

from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.left_behind import to_kafka, to_mainstem
from mainstem.log.node.metadata import TopicEntry


def cluster(configs: dict[str, str], **more: object) -> ClusterState:
    return ClusterState(topics={"t": TopicEntry("t", uuid4(), 1, configs)}, **more)  # type: ignore[arg-type]


def test_kafka_gets_no_config_that_it_would_refuse() -> None:
    given = {
        "mainstem.key.index": "true",
        "mainstem.conditional.append": "false",
        "confluent.value.schema.validation": "true",
        "flush": "os",
        "segment.bytes": "2000",
        "retention.ms": "5",
    }
    taken, notes = to_kafka(cluster(given, broker_configs={"": {"log.retention.ms": "1"}, "1": {"mainstem.x": "1"}}), 1)
    assert taken.topics["t"].configs == {"segment.bytes": "1048576", "retention.ms": "5"}
    assert taken.broker_configs == {"": {"log.retention.ms": "1"}}
    named = {note.what for note in notes}
    assert {"topic t: mainstem.key.index=true", "topic t: flush=os", "topic t: segment.bytes=2000"} <= named
    assert "topic t: mainstem.conditional.append=false" not in named  # it was off


def test_mainstem_gets_no_config_that_it_would_refuse() -> None:
    given = {"retention.ms": "5", "message.format.version": "3.0", "segment.bytes": "-7"}
    settings = {"": {"log.retention.ms": "1", "num.io.threads": "9"}, "5": {"log.retention.ms": "2"}, "6": {"x": "y"}}
    taken, notes = to_mainstem(cluster(given, broker_configs=settings), 5)
    assert taken.topics["t"].configs == {"retention.ms": "5"}
    assert taken.broker_configs == {"": {"log.retention.ms": "2"}}
    named = {note.what for note in notes}
    assert {"topic t: message.format.version=3.0", "topic t: segment.bytes=-7", "setting num.io.threads"} <= named
