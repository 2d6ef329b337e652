"""The state of a cluster beside its records, in a form that is neither Mainstem's nor Kafka's.

Topics, ACLs, users, quotas and configs. ``read_node`` takes it out of a node's metadata, ``write_node`` puts it into
that of a new node.

Plain values; owned by the thread that has the metadata open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mainstem.broker.access.acls import Acl
from mainstem.broker.access.authorizer import Authorizer
from mainstem.broker.configs.dynamic_configs import BROKER_CONFIG_ENTRIES
from mainstem.broker.configs.group_configs import GROUP_CONFIG_ENTRIES
from mainstem.broker.quotas.entities import Entity
from mainstem.broker.quotas.quotas import Quotas, Windows
from mainstem.broker.security.credentials import Credentials
from mainstem.clock import SystemClock
from mainstem.log.node.metadata import Metadata, TopicEntry
from mainstem.protocol.scram import ScramCredential

_WINDOWS = Windows(11, 1.0)  # no use is measured here


@dataclass(slots=True)
class ClusterState:
    """``leader_epoch`` is the greatest with which any partition was led. ``broker_configs`` are by node, "" for all."""

    leader_epoch: int = 0
    next_producer_id: int = 0
    topics: dict[str, TopicEntry] = field(default_factory=dict)
    acls: Sequence[Acl] = ()
    credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict)
    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def users(self) -> list[str]:
        """The names of all users."""
        return sorted({user for user, _ in self.credentials})


def read_node(metadata: Metadata, leader_epoch: int) -> ClusterState:
    """Take the state out of a node's metadata."""
    credentials = Credentials(metadata)
    return ClusterState(
        leader_epoch,
        metadata.next_producer_id,
        dict(metadata.topics),
        Authorizer(metadata, (), allows_unlisted=False).acls(),
        {(user, mechanism): each for user in credentials.users() for mechanism, each in credentials.of(user).items()},
        Quotas(metadata, SystemClock(), _WINDOWS, _WINDOWS).limits,
        _text_entries(metadata, BROKER_CONFIG_ENTRIES),
        _text_entries(metadata, GROUP_CONFIG_ENTRIES),
    )


def _text_entries(metadata: Metadata, kind: str) -> dict[str, dict[str, str]]:
    return {str(name): dict(values) for (name,), values in metadata.entries(kind).items()}


def write_node(metadata: Metadata, cluster: ClusterState) -> None:
    """Let a new node's metadata say the same. Raises StorageError, and InputError for what no node may have."""
    for topic in cluster.topics.values():
        metadata.keep_topic(topic)
    if cluster.next_producer_id:
        metadata.reserve_producer_ids(cluster.next_producer_id)
    Authorizer(metadata, (), allows_unlisted=False).add(cluster.acls)
    Credentials(metadata).change(cluster.credentials)
    quotas = Quotas(metadata, SystemClock(), _WINDOWS, _WINDOWS)
    for entity, limits in cluster.quotas.items():
        quotas.change(entity, limits)
    for kind, configs in (
        (BROKER_CONFIG_ENTRIES, cluster.broker_configs),
        (GROUP_CONFIG_ENTRIES, cluster.group_configs),
    ):
        metadata.put_entries(kind, {(name,): dict(values) for name, values in configs.items()})
