"""The table of what is served, made from what the handler files declare: the one place that names them all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mainstem.broker.api import Api
from mainstem.broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    update_features,
)

_ALL: Final = (
    alter_configs.API,
    alter_partition_reassignments.API,
    alter_replica_log_dirs.API,
    api_versions.API,
    consumer_group_describe.API,
    consumer_group_heartbeat.API,
    create_acls.API,
    create_partitions.API,
    create_topics.API,
    delete_acls.API,
    delete_groups.API,
    delete_records.API,
    delete_topics.API,
    describe_acls.API,
    describe_cluster.API,
    describe_configs.API,
    describe_groups.API,
    describe_log_dirs.API,
    describe_quorum.API,
    describe_topic_partitions.API,
    elect_leaders.API,
    fetch.API,
    find_coordinator.API,
    heartbeat.API,
    incremental_alter_configs.API,
    init_producer_id.API,
    join_group.API,
    leave_group.API,
    list_config_resources.API,
    list_groups.API,
    list_offsets.API,
    list_partition_reassignments.API,
    metadata.API,
    offset_commit.API,
    offset_delete.API,
    offset_fetch.API,
    offset_for_leader_epoch.API,
    produce.API,
    sync_group.API,
    update_features.API,
)

APIS: Final[Mapping[int, Api]] = MappingProxyType({int(api.key): api for api in sorted(_ALL, key=lambda api: api.key)})

unsupported_api_versions: Final = api_versions.UNSUPPORTED
"""Answers an ApiVersions request of a version that is not served."""
