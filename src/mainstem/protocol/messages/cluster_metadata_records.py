"""The records of Apache Kafka's ``__cluster_metadata``: topics, configs, ACLs, users and quotas of a cluster.

A record has no key. Its value is a frame version, the record's type (``__api_key__``) and its version, each an unsigned
varint, and then the struct.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    bytestring,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid_,
)


class BrokerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message, key=0, versions="0-4", flexible="0+"):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+", default=False)
    incarnation_id: uuid.UUID = uuid_()
    broker_epoch: int = int64()
    end_points: Sequence[BrokerEndpoint] = array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+", default=False)
    log_dirs: Sequence[uuid.UUID] = array("uuid", "3+", default=(), tag=0)
    cordoned_log_dirs: Sequence[uuid.UUID] | None = array("uuid", "4+", default=None, nullable="4+", tag=1)


class UnregisterBrokerRecord(Message, key=1, versions="0", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message, key=2, versions="0", flexible="0+"):
    name: str = string()
    topic_id: uuid.UUID = uuid_()


class PartitionRecord(Message, key=3, versions="0-2", flexible="0+"):
    partition_id: int = int32(default=-1)
    topic_id: uuid.UUID = uuid_()
    replicas: Sequence[int] = array("int32")
    isr: Sequence[int] = array("int32")
    removing_replicas: Sequence[int] = array("int32", default=())
    adding_replicas: Sequence[int] = array("int32", default=())
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(default=0, tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: Sequence[uuid.UUID] = array("uuid", "1+", default=())
    eligible_leader_replicas: Sequence[int] | None = array("int32", "2+", default=None, nullable="2+", tag=1)
    last_known_elr: Sequence[int] | None = array("int32", "2+", default=None, nullable="2+", tag=2)


class ConfigRecord(Message, key=4, versions="0", flexible="0+"):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


class PartitionChangeRecord(Message, key=5, versions="0-2", flexible="0+"):
    partition_id: int = int32(default=-1)
    topic_id: uuid.UUID = uuid_()
    isr: Sequence[int] | None = array("int32", default=None, nullable="0+", tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: Sequence[int] | None = array("int32", default=None, nullable="0+", tag=2)
    removing_replicas: Sequence[int] | None = array("int32", default=None, nullable="0+", tag=3)
    adding_replicas: Sequence[int] | None = array("int32", default=None, nullable="0+", tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: Sequence[uuid.UUID] | None = array("uuid", "1+", default=None, nullable="1+", tag=8)
    eligible_leader_replicas: Sequence[int] | None = array("int32", "2+", default=None, nullable="2+", tag=6)
    last_known_elr: Sequence[int] | None = array("int32", "2+", default=None, nullable="2+", tag=7)


class RemoveTopicRecord(Message, key=9, versions="0", flexible="0+"):
    topic_id: uuid.UUID = uuid_()


class UserScramCredentialRecord(Message, key=11, versions="0", flexible="0+"):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytestring()
    stored_key: bytes = bytestring()
    server_key: bytes = bytestring()
    iterations: int = int32()


class FeatureLevelRecord(Message, key=12, versions="0", flexible="0+"):
    name: str = string()
    feature_level: int = int16()


class QuotaEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ClientQuotaRecord(Message, key=14, versions="0", flexible="0+"):
    entity: Sequence[QuotaEntityData] = array(QuotaEntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message, key=15, versions="0", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class AccessControlEntryRecord(Message, key=18, versions="0", flexible="0+"):
    acl_id: uuid.UUID = uuid_()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, key=19, versions="0", flexible="0+"):
    acl_id: uuid.UUID = uuid_()


class RemoveUserScramCredentialRecord(Message, key=22, versions="0", flexible="0+"):
    name: str = string()
    mechanism: int = int8()


class SnapshotHeaderRecord(Message, key=-1, versions="0", flexible="0+"):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, key=-1, versions="0", flexible="0+"):
    version: int = int16()
