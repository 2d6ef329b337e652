"""ACLs and quotas, carried from the source to the target; ``mainstem mirror --rights``.

What the source has is added at the target. What the source had while this mirror ran, and has no longer, is removed.
The target's own ACLs and quotas stay, so that the mirror's user keeps its rights. ACLs on the cluster are not carried:
they say who may run this log, not who may use its topics. Users are not carried, since the protocol has no way to read
their credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mainstem.client.wire.admin import access
from mainstem.client.wire.admin.quotas import QuotaEntity, alter_quotas, quotas
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import UnsupportedFeatureError
from mainstem.mirror.link import Link
from mainstem.protocol.acl_words import Operation, PatternType, Permission, ResourceType
from mainstem.protocol.messages.create_acls import AclCreation
from mainstem.protocol.messages.delete_acls import DeleteAclsFilter
from mainstem.protocol.messages.describe_acls import DescribeAclsRequest

_CARRIED: Final = frozenset({ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID})


class CarriedAcl(NamedTuple):
    """One ACL, by Kafka's numbers of its words."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Rights:
    """Remembers what the source had, so that removals are seen. Owned by one thread."""

    def __init__(self, link: Link, note: Callable[[str], None]) -> None:
        self._link = link
        self._note = note
        self._acls: set[CarriedAcl] = set()
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}

    def carry(self) -> None:
        """Let the target have what the source has. Raises AuthorizationError, LogUnavailableError, RemoteError."""
        self._carry_acls()
        self._carry_quotas()

    def _carry_acls(self) -> None:
        try:
            there, here = _acls(self._link.source), _acls(self._link.target)
        except UnsupportedFeatureError as error:
            self._note(f"ACLs are not carried over: {error}")
            return
        if missing := there - here:
            access.add_acls(self._link.target, [_creation(each) for each in sorted(missing)])
        if gone := (self._acls - there) & here:
            access.remove_acls(self._link.target, [_filter(each) for each in sorted(gone)])
        self._acls = there

    def _carry_quotas(self) -> None:
        there, here = quotas(self._link.source), quotas(self._link.target)
        for entity in {*there, *self._quotas}:
            wanted, known = there.get(entity, {}), here.get(entity, {})
            news = {key: value for key, value in wanted.items() if known.get(key) != value}
            gone = {key for key in self._quotas.get(entity, {}) if key not in wanted and key in known}
            if news or gone:
                alter_quotas(self._link.target, entity, news, gone)
        self._quotas = there


def _acls(client: WireClient) -> set[CarriedAcl]:
    everything = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    return set(_carried(client, everything))


def _carried(client: WireClient, wanted: DescribeAclsRequest) -> Iterable[CarriedAcl]:
    for resource in access.acls(client, wanted):
        if resource.resource_type not in _CARRIED:
            continue
        for acl in resource.acls:
            yield CarriedAcl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )


def _creation(acl: CarriedAcl) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(acl: CarriedAcl) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.name,
        pattern_type_filter=acl.pattern,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
