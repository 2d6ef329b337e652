"""The guard of each API, with Kafka's rules; an API that is not listed here is refused.

``GUARDS`` is used when the node has an authorizer. ``TELLING`` are the guards of APIs whose answers also list the
operations that the sender may do, with or without an authorizer. A test proves that every API that is served is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mainstem.broker.access import admin_guards, group_guards, record_guards
from mainstem.broker.access.acls import Operation
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.access.guards import Guard, in_turn, on_cluster, on_each, on_named, open_to_all
from mainstem.protocol.apis import ApiKey

if TYPE_CHECKING:
    from mainstem.broker.api import Api

_O = Operation
_TOPIC, _GROUP, _TRANSACTION = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID
_ON_GROUP: Final = (_GROUP, _O.READ, "group_id")

GUARDS: Final[Mapping[int, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: record_guards.produce,
        ApiKey.FETCH: record_guards.fetch,
        ApiKey.LIST_OFFSETS: on_each(_TOPIC, _O.DESCRIBE, "topics", "topics"),
        ApiKey.METADATA: record_guards.metadata,
        ApiKey.OFFSET_COMMIT: on_each(_TOPIC, _O.READ, "topics", "topics", named=_ON_GROUP),
        ApiKey.OFFSET_FETCH: group_guards.offset_fetch,
        ApiKey.FIND_COORDINATOR: group_guards.find_coordinator,
        ApiKey.JOIN_GROUP: on_named(*_ON_GROUP),
        ApiKey.HEARTBEAT: on_named(*_ON_GROUP),
        ApiKey.LEAVE_GROUP: on_named(*_ON_GROUP),
        ApiKey.SYNC_GROUP: on_named(*_ON_GROUP),
        ApiKey.DESCRIBE_GROUPS: group_guards.on_described_groups("groups"),
        ApiKey.LIST_GROUPS: group_guards.list_groups,
        ApiKey.SASL_HANDSHAKE: open_to_all,
        ApiKey.API_VERSIONS: open_to_all,
        ApiKey.SASL_AUTHENTICATE: open_to_all,
        ApiKey.CREATE_TOPICS: admin_guards.create_topics,
        ApiKey.DELETE_TOPICS: admin_guards.delete_topics,
        ApiKey.DELETE_RECORDS: on_each(_TOPIC, _O.DELETE, "topics", "topics"),
        ApiKey.INIT_PRODUCER_ID: admin_guards.init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: on_each(_TOPIC, _O.DESCRIBE, "topics", "topics"),
        ApiKey.ADD_PARTITIONS_TO_TXN: admin_guards.add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: in_turn(
            on_named(_TRANSACTION, _O.WRITE, "transactional_id"), on_named(_GROUP, _O.READ, "group_id")
        ),
        ApiKey.END_TXN: on_named(_TRANSACTION, _O.WRITE, "transactional_id"),
        ApiKey.WRITE_TXN_MARKERS: admin_guards.write_txn_markers,
        ApiKey.TXN_OFFSET_COMMIT: in_turn(
            on_each(_TOPIC, _O.READ, "topics", "topics", named=(_TRANSACTION, _O.WRITE, "transactional_id")),
            on_each(_TOPIC, _O.READ, "topics", "topics", named=_ON_GROUP),
        ),
        ApiKey.DESCRIBE_ACLS: on_cluster(_O.DESCRIBE),
        ApiKey.CREATE_ACLS: admin_guards.on_acls("creations", "results"),
        ApiKey.DELETE_ACLS: admin_guards.on_acls("filters", "filter_results"),
        ApiKey.DESCRIBE_CONFIGS: admin_guards.on_configs(_O.DESCRIBE_CONFIGS, "results"),
        ApiKey.ALTER_CONFIGS: admin_guards.on_configs(_O.ALTER_CONFIGS, "responses"),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: admin_guards.on_configs(_O.ALTER_CONFIGS, "responses"),
        ApiKey.ALTER_REPLICA_LOG_DIRS: admin_guards.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: on_cluster(_O.DESCRIBE),
        ApiKey.CREATE_PARTITIONS: on_each(_TOPIC, _O.ALTER, "topics", "results"),
        ApiKey.DELETE_GROUPS: on_each(_GROUP, _O.DELETE, "groups_names", "results"),
        ApiKey.ELECT_LEADERS: admin_guards.elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster(_O.ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster(_O.DESCRIBE),
        ApiKey.OFFSET_DELETE: in_turn(
            on_named(_GROUP, _O.DELETE, "group_id"), on_each(_TOPIC, _O.READ, "topics", "topics")
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster(_O.DESCRIBE_CONFIGS),
        ApiKey.ALTER_CLIENT_QUOTAS: admin_guards.alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(_O.DESCRIBE),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: admin_guards.alter_user_scram_credentials,
        ApiKey.DESCRIBE_QUORUM: on_cluster(_O.DESCRIBE),
        ApiKey.UPDATE_FEATURES: on_cluster(_O.ALTER),
        ApiKey.DESCRIBE_CLUSTER: record_guards.describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: on_each(_TOPIC, _O.READ, "topics", "topics"),
        ApiKey.DESCRIBE_TRANSACTIONS: admin_guards.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: admin_guards.list_transactions,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: group_guards.on_member_of_group,
        ApiKey.CONSUMER_GROUP_DESCRIBE: group_guards.on_described_groups("group_ids"),
        ApiKey.LIST_CONFIG_RESOURCES: on_cluster(_O.DESCRIBE_CONFIGS),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: record_guards.describe_topic_partitions,
        ApiKey.SHARE_GROUP_HEARTBEAT: group_guards.on_member_of_group,
        ApiKey.SHARE_GROUP_DESCRIBE: group_guards.on_described_groups("group_ids"),
        ApiKey.SHARE_FETCH: record_guards.share_fetch,
        ApiKey.SHARE_ACKNOWLEDGE: in_turn(on_named(*_ON_GROUP), on_each(_TOPIC, _O.READ, "topics", "responses")),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: group_guards.describe_share_group_offsets,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: in_turn(
            on_named(*_ON_GROUP), on_each(_TOPIC, _O.READ, "topics", "responses")
        ),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: in_turn(
            on_named(_GROUP, _O.DELETE, "group_id"), on_each(_TOPIC, _O.READ, "topics", "responses")
        ),
        ApiKey.LIST_KEY_OFFSETS: on_named(_TOPIC, _O.READ, "topic"),
    }
)

TELLING: Final[Mapping[int, Guard]] = MappingProxyType(
    {
        key: GUARDS[key]
        for key in (
            ApiKey.METADATA,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        )
    }
)


def guards_of(apis: Mapping[int, Api]) -> Mapping[int, Guard]:
    """The guards of the served APIs, for a node with an authorizer. An API that ``GUARDS`` lacks is refused."""
    return {key: GUARDS.get(key, _shut) for key in apis}


_shut: Final[Guard] = on_cluster()
"""No operation suffices."""
