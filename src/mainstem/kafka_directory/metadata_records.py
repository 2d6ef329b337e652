"""A cluster's metadata as Kafka's records, and back: what a snapshot says, and what a log of changes comes to.

``records_of`` writes what Apache Kafka 4.3 (metadata version 4.3-IV0) itself would write for a cluster of one node.
Partitions are written without a leader: the controller elects the node when it has registered, with the next epoch.
``MetadataReplay`` takes records of any of Kafka's KRaft versions. Plain state; one owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from mainstem.broker.access.acls import Acl
from mainstem.broker.configs.config_entries import ConfigResourceType
from mainstem.broker.quotas.entities import TYPES, Entity
from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.metadata_files import DELEGATION_TOKEN, MetadataRecord, VersionedRecord
from mainstem.protocol.messages import cluster_metadata_records as kafka
from mainstem.protocol.scram import SHA_256, SHA_512, ScramCredential

FEATURES: Final[Mapping[str, int]] = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels that ``kafka-storage format`` of Apache Kafka 4.3 gives a new cluster; 30 is 4.3-IV0."""
_MECHANISMS: Final = {1: SHA_256, 2: SHA_512}
_MECHANISM_NUMBERS: Final = {name: number for number, name in _MECHANISMS.items()}
_NO_LEADER: Final = -1
_UNCHANGED_LEADER: Final = -2
_VERSIONS: Final[Mapping[type, int]] = {kafka.RegisterBrokerRecord: 4, kafka.PartitionRecord: 2}
"""The versions that are not 0."""


BROKER_EPOCH: Final = 1
"""The epoch of the node's registration. Its sign of a clean end names it, or the controller would not trust its log."""
_METADATA_VERSION_MIN: Final = 7


def records_of(cluster: ClusterState, node_id: int, directory_id: UUID) -> list[VersionedRecord]:
    """The records of a snapshot, in Kafka's order: features, the node, topics, configs, quotas, producer ids, ACLs,
    users.
    """
    bodies: list[Any] = [kafka.FeatureLevelRecord(name=name, feature_level=level) for name, level in FEATURES.items()]
    bodies.append(_registration(node_id, directory_id))
    bodies += _topic_records(cluster, node_id, directory_id)
    bodies += _config_records(cluster)
    bodies += _quota_records(cluster)
    if cluster.next_producer_id:
        bodies.append(kafka.ProducerIdsRecord(broker_id=node_id, next_producer_id=cluster.next_producer_id))
    bodies += [
        kafka.AccessControlEntryRecord(
            acl_id=uuid4(),
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in cluster.acls
    ]
    bodies += [
        kafka.UserScramCredentialRecord(name=user, mechanism=_MECHANISM_NUMBERS[mechanism], **credential._asdict())
        for (user, mechanism), credential in cluster.credentials.items()
    ]
    return [VersionedRecord(body, _VERSIONS.get(type(body), 0)) for body in bodies]


def _registration(node_id: int, directory_id: UUID) -> kafka.RegisterBrokerRecord:
    """The node as a broker that has ended: fenced, until it registers with its own addresses."""
    features = [
        kafka.BrokerFeature(
            name=name,
            min_supported_version=_METADATA_VERSION_MIN if name == "metadata.version" else 0,
            max_supported_version=level,
        )
        for name, level in FEATURES.items()
    ]
    endpoint = kafka.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)
    return kafka.RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=uuid4(),
        broker_epoch=BROKER_EPOCH,
        end_points=[endpoint],
        features=features,
        rack=None,
        fenced=True,
        log_dirs=[directory_id],
    )


def _topic_records(cluster: ClusterState, node_id: int, directory_id: UUID) -> Iterator[Any]:
    for topic in cluster.topics.values():
        yield kafka.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number in range(topic.partitions):
            yield kafka.PartitionRecord(
                partition_id=number,
                topic_id=topic.topic_id,
                replicas=[node_id],
                isr=[node_id],
                leader=_NO_LEADER,
                leader_epoch=cluster.leader_epoch,
                partition_epoch=0,
                directories=[directory_id],
            )


def _config_records(cluster: ClusterState) -> Iterator[Any]:
    of_topics = {topic.name: topic.configs for topic in cluster.topics.values()}
    for resource_type, named in (
        (ConfigResourceType.TOPIC, of_topics),
        (ConfigResourceType.BROKER, cluster.broker_configs),
        (ConfigResourceType.GROUP, cluster.group_configs),
    ):
        for resource_name, configs in named.items():
            for name, value in configs.items():
                yield kafka.ConfigRecord(
                    resource_type=resource_type, resource_name=resource_name, name=name, value=value
                )


def _quota_records(cluster: ClusterState) -> Iterator[Any]:
    for entity, limits in cluster.quotas.items():
        parts = [kafka.QuotaEntityData(entity_type=part.type, entity_name=part.name) for part in entity.parts]
        for key, value in limits.items():
            yield kafka.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


@dataclass(slots=True)
class ReplayedPartition:
    """A partition as the controller knows it. ``directories`` are the log directories of its replicas, where known.

    ``eligible`` are the replicas that have everything but are not in the ISR, such as that of a broker that has ended.
    """

    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    leader_epoch: int
    directories: list[UUID]

    @property
    def in_sync(self) -> set[int]:
        """The brokers that have all that was committed."""
        return {*self.isr, *self.eligible}


@dataclass(slots=True)
class ReplayedTopic:
    """A topic and its partitions, by number."""

    name: str
    topic_id: UUID
    partitions: dict[int, ReplayedPartition] = field(default_factory=dict)


class MetadataReplay:
    """The state that records come to, in the order in which they are applied."""

    def __init__(self) -> None:
        self.topics: dict[UUID, ReplayedTopic] = {}
        self.brokers: set[int] = set()
        self.features: dict[str, int] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.acls: dict[UUID, Acl] = {}
        self.credentials: dict[tuple[str, str], ScramCredential] = {}
        self.next_producer_id = 0
        self.has_delegation_tokens = False

    def apply(self, record: MetadataRecord) -> None:
        """Take in one record."""
        body: Any = record.body
        self.has_delegation_tokens = self.has_delegation_tokens or record.kind == DELEGATION_TOKEN
        match body:
            case kafka.RegisterBrokerRecord():
                self.brokers.add(body.broker_id)
            case kafka.UnregisterBrokerRecord():
                self.brokers.discard(body.broker_id)
            case kafka.FeatureLevelRecord():
                self.features[body.name] = body.feature_level
            case kafka.ConfigRecord():
                _put(self.configs.setdefault((body.resource_type, body.resource_name), {}), body.name, body.value)
            case kafka.ClientQuotaRecord():
                entity = tuple(sorted((each.entity_type, each.entity_name) for each in body.entity))
                _put(self.quotas.setdefault(entity, {}), body.key, None if body.remove else body.value)
            case kafka.ProducerIdsRecord():
                self.next_producer_id = body.next_producer_id
            case _:
                self._apply_topic(body)

    def _apply_topic(self, body: Any) -> None:
        match body:
            case kafka.TopicRecord():
                self.topics[body.topic_id] = ReplayedTopic(body.name, body.topic_id)
            case kafka.RemoveTopicRecord():
                topic = self.topics.pop(body.topic_id, None)
                if topic is not None:
                    self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
            case kafka.PartitionRecord():
                self.topics[body.topic_id].partitions[body.partition_id] = ReplayedPartition(
                    list(body.replicas),
                    list(body.isr),
                    list(body.eligible_leader_replicas or ()),
                    body.leader_epoch,
                    list(body.directories),
                )
            case kafka.PartitionChangeRecord():
                self._change_partition(body)
            case _:
                self._apply_right(body)

    def _change_partition(self, body: kafka.PartitionChangeRecord) -> None:
        partition = self.topics[body.topic_id].partitions[body.partition_id]
        if body.leader != _UNCHANGED_LEADER:
            partition.leader_epoch += 1
        if body.replicas is not None:
            partition.replicas = list(body.replicas)
        if body.isr is not None:
            partition.isr = list(body.isr)
        if body.eligible_leader_replicas is not None:
            partition.eligible = list(body.eligible_leader_replicas)
        if body.directories is not None:
            partition.directories = list(body.directories)

    def _apply_right(self, body: Any) -> None:
        match body:
            case kafka.AccessControlEntryRecord():
                self.acls[body.acl_id] = Acl(
                    body.resource_type,
                    body.resource_name,
                    body.pattern_type,
                    body.principal,
                    body.host,
                    body.operation,
                    body.permission_type,
                )
            case kafka.RemoveAccessControlEntryRecord():
                self.acls.pop(body.acl_id, None)
            case kafka.UserScramCredentialRecord():
                self.credentials[body.name, _MECHANISMS[body.mechanism]] = ScramCredential(
                    body.salt, body.stored_key, body.server_key, body.iterations
                )
            case kafka.RemoveUserScramCredentialRecord():
                self.credentials.pop((body.name, _MECHANISMS[body.mechanism]), None)

    def named_configs(self, kind: ConfigResourceType) -> dict[str, dict[str, str]]:
        """The configs of all resources of a type that have any."""
        return {name: values for (of_kind, name), values in self.configs.items() if of_kind == kind and values}

    def quota_entities(self) -> tuple[dict[Entity, dict[str, float]], list[str]]:
        """The quotas of users and client ids; and the other entities, which have none here, as text."""
        known: dict[Entity, dict[str, float]] = {}
        others = []
        for parts, limits in self.quotas.items():
            if all(kind in TYPES for kind, _ in parts):
                known[Entity.of(dict(parts))] = limits
            elif limits:
                others.append(", ".join(f"{kind} {name or '(default)'}" for kind, name in parts))
        return {entity: limits for entity, limits in known.items() if limits}, others


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
