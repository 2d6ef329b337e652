"""Features and settings that only one of Apache Kafka and Mainstem has, each with what to do instead.

``to_kafka`` and ``to_mainstem`` take out of a cluster's metadata what the other side would refuse. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from mainstem.broker.configs.broker_config import SETTINGS
from mainstem.broker.configs.dynamic_configs import ALL_NODES
from mainstem.broker.configs.group_configs import GROUP_CONFIGS
from mainstem.errors import ConfigError
from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.log.node.metadata import TopicEntry
from mainstem.log.partition.config import CONFIGS, INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES_MIN, parse_config

_INSTEAD: Final = {
    "mainstem.key.index": "reads by key scan the partition there; read keys from a key-value view",
    "mainstem.conditional.append": "appends with conditions are refused there; let one writer own a key, or use a "
    "transactional producer",
    "mainstem.idempotency.window.ms": "appends with idempotency keys are refused there; use an idempotent or a "
    "transactional producer",
    "mainstem.verifiable": "Apache Kafka keeps no tree, and --commit removes this one: keep the last checkpoint and "
    "the proofs that you need. A topic that is adopted later begins another history: give its signing key another name",
    "mainstem.max.decompressed.bytes": "Apache Kafka bounds the compressed batch alone: max.message.bytes",
    "remote.storage.enable": "Apache Kafka needs a plugin for its remote storage: all segments stay on the disk there",
    "flush": "Apache Kafka answers before the disk has it; keep three replicas and min.insync.replicas=2, or set "
    "flush.messages=1",
}
_SCHEMAS: Final = "Apache Kafka does not check schemas; the registry's topic goes along, and serializers check"
_OWN: Final = ("flush", INTERNAL_SEGMENT_BYTES, "remote.storage.enable", "remote.log.copy.disable")
_UNSET: Final = frozenset({"", "false", "0"})


class Left(NamedTuple):
    """Something that does not go along, and what to do about it."""

    what: str
    instead: str


def to_kafka(cluster: ClusterState, node_id: int) -> tuple[ClusterState, list[Left]]:
    """The metadata that Apache Kafka takes, and what it does not."""
    notes: list[Left] = []
    topics = {}
    for topic in cluster.topics.values():
        kept, left = _split(topic.configs)
        notes += _topic_notes(topic.name, left)
        kept = _with_segment_bytes(topic.name, kept, notes)
        topics[topic.name] = topic._replace(configs=kept)
    brokers = {}
    for place, configs in cluster.broker_configs.items():
        kept, left = _split(configs)
        notes += [
            Left(f"setting {name}={value}", "it bounds this log's own memory; leave it out")
            for name, value in left.items()
        ]
        if kept:
            brokers["" if place == ALL_NODES else str(node_id)] = kept
    notes += _node_notes(cluster)
    return replace(cluster, topics=topics, broker_configs=brokers), notes


def _split(configs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    kept: dict[str, str] = {}
    left: dict[str, str] = {}
    for name, value in configs.items():
        is_own = name.startswith(("mainstem.", "confluent.")) or name in _OWN
        (left if is_own else kept)[name] = value
    return kept, left


def _topic_notes(topic: str, left: Mapping[str, str]) -> Iterator[Left]:
    for name, value in left.items():
        if name == INTERNAL_SEGMENT_BYTES or value in _UNSET:
            continue
        yield Left(f"topic {topic}: {name}={value}", _INSTEAD.get(name, _SCHEMAS))


def _with_segment_bytes(topic: str, configs: dict[str, str], notes: list[Left]) -> dict[str, str]:
    text = configs.get("segment.bytes")
    if text is None or int(text) >= SEGMENT_BYTES_MIN:
        return configs
    notes.append(
        Left(f"topic {topic}: segment.bytes={text}", f"Apache Kafka's least is {SEGMENT_BYTES_MIN}: it is that now")
    )
    return {**configs, "segment.bytes": str(SEGMENT_BYTES_MIN)}


def _node_notes(cluster: ClusterState) -> Iterator[Left]:
    if any("flush" not in topic.configs for topic in cluster.topics.values()):
        yield Left("flush=commit, the default of every topic", _INSTEAD["flush"])
    yield Left("settings of mainstem.toml and of the command line", "give those of Kafka's names to server.properties")
    yield Left("Apps, their views and checkpoints", "run them on: mainstem run APP.py --bootstrap HOST:PORT --data DIR")
    if cluster.acls:
        yield Left("super.users", "give it to server.properties: Apache Kafka keeps ACLs in force for everyone else")
    if cluster.credentials:
        yield Left("PLAIN logins", "Apache Kafka checks SCRAM alone against these users; log in with SCRAM")


def to_mainstem(cluster: ClusterState, node_id: int) -> tuple[ClusterState, list[Left]]:
    """The metadata that Mainstem takes, and what it does not."""
    notes: list[Left] = []
    topics: dict[str, TopicEntry] = {}
    for topic in cluster.topics.values():
        kept = {}
        for name, value in topic.configs.items():
            if name in CONFIGS and _is_valid(name, value) and (name, value) != ("remote.storage.enable", "true"):
                kept[name] = value
            else:
                notes.append(Left(f"topic {topic.name}: {name}={value}", "Mainstem has no such config; it is left out"))
        topics[topic.name] = topic._replace(configs=kept)
    settings: dict[str, str] = {}
    for place in (ALL_NODES, str(node_id)):  # there is one node, so all of them are settings of all nodes
        settings |= cluster.broker_configs.get(place, {})
    notes += [
        Left(f"setting {name}", "Mainstem has no such setting; it is left out")
        for name in settings
        if name not in SETTINGS
    ]
    known = {name: value for name, value in settings.items() if name in SETTINGS}
    brokers = {ALL_NODES: known} if known else {}
    groups = {
        group: {name: value for name, value in configs.items() if name in GROUP_CONFIGS}
        for group, configs in cluster.group_configs.items()
    }
    notes.append(Left("server.properties", "give its settings to mainstem.toml or to --set, by the same names"))
    taken = replace(cluster, topics=topics, broker_configs=brokers, group_configs=groups)
    return taken, notes


def _is_valid(name: str, value: str) -> bool:
    try:
        parse_config(name, value)
    except ConfigError:
        return False
    return True
