"""The authorizer: whether a principal may do something, by the ACLs of the node's metadata, with Kafka's rules.

* A super user may do everything. Else any binding that denies decides, and then any that allows.
* Read, Write, Delete and Alter let one Describe; AlterConfigs lets one DescribeConfigs. A denial implies nothing.
* What no binding is about is refused, unless ``allow.everyone.if.no.acl.found``.

The ACLs are kept as an index in memory; the metadata log is the truth. Decisions that allowed something are kept until
an ACL changes, because clients repeat their requests. The memory of that is bounded in bytes, and refusals are not
kept: a client without rights fills no memory. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final, cast

from mainstem.broker.access.acls import CLUSTER_NAME, WILDCARD, Acl, AclFilter, Operation, PatternType, Permission
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.error_codes import refusal
from mainstem.broker.security.principal import USER, Principal
from mainstem.broker.slices import in_turns
from mainstem.log.node.metadata import Metadata
from mainstem.protocol.errors import ErrorCode

ACLS: Final = "acl"
"""The kind of the metadata's entries that hold ACLs."""
_ALLOWED_BYTES_MAX: Final = 16 * 1024 * 1024
_ENTRY_BYTES: Final = 256  # of one remembered judgement, beside its name
_EVERYONE: Final = f"{USER}:{WILDCARD}"
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
OPERATIONS_OF: Final = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations on each kind of resource that answers list as authorized operations."""


def required(authorizer: Authorizer | None) -> Authorizer:
    """Return the authorizer. Raises RemoteError (SECURITY_DISABLED) on a node without one."""
    if authorizer is None:
        raise refusal(ErrorCode.SECURITY_DISABLED, "this node has no authorizer: start it with super.users=User:NAME")
    return authorizer


class Authorizer:
    """Judges requests. ``acls``, ``add`` and ``remove`` are the administration of the ACLs themselves."""

    def __init__(self, metadata: Metadata, super_users: Collection[Principal], *, allows_unlisted: bool) -> None:
        self._metadata = metadata
        self._super_users = frozenset(super_users)
        self._allows_unlisted = allows_unlisted
        self._literal: dict[tuple[int, str], set[Acl]] = {}
        self._prefixed: dict[tuple[int, str], set[Acl]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = defaultdict(Counter)
        self._allowed: set[tuple[Principal, str, int, int, str]] = set()
        self._allowed_bytes = 0
        for key in metadata.entries(ACLS):
            self._store(Acl(*cast("tuple[int, str, int, str, str, int, int]", key)))

    # ---- judging

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether ``principal`` may do this from ``host``."""
        key = (principal, host, operation, resource, name)
        if key in self._allowed:
            return True
        if not self._decide(*key):
            return False
        size_bytes = _ENTRY_BYTES + 4 * len(name)
        if self._allowed_bytes + size_bytes > _ALLOWED_BYTES_MAX:
            self._clear_cache()
        self._allowed.add(key)
        self._allowed_bytes += size_bytes
        return True

    def _clear_cache(self) -> None:
        self._allowed.clear()
        self._allowed_bytes = 0

    def _decide(self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        matching = list(self._matching_acls(resource, name))
        if not matching:
            return self._allows_unlisted
        mine = [acl for acl in matching if _is_for(acl, principal, host)]
        if any(acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
            return False
        enough = (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))
        return any(acl.permission == Permission.ALLOW and acl.operation in enough for acl in mine)

    def _matching_acls(self, resource: Resource, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        for length in self._prefix_lengths.get(resource, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource, name[:length]), ())

    def allows_some(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether there is any name for which ``principal`` may do this (an idempotent producer asks)."""
        if principal in self._super_users:
            return True
        mine = [
            acl
            for acl in self.acls(AclFilter(resource_type=resource))
            if acl.operation in (operation, Operation.ALL) and _is_for(acl, principal, host)
        ]
        denied = [acl for acl in mine if acl.permission == Permission.DENY]
        if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD for acl in denied):
            return False
        if self._allows_unlisted:
            return True
        allowed = (acl for acl in mine if acl.permission == Permission.ALLOW)
        return any(not any(_dominates(denial, acl) for denial in denied) for acl in allowed)

    # ---- administration

    def acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The bindings that a filter means, in order."""
        wanted = wanted or AclFilter()
        return sorted(acl for acl in self._all() if wanted.fits(acl))

    async def find(self, wanted: AclFilter) -> list[Acl]:
        """The same; the event loop serves others meanwhile, so some of them may be gone when it returns."""
        return sorted([acl async for acl in in_turns(list(self._all())) if wanted.fits(acl)])

    def _all(self) -> Iterator[Acl]:
        return (acl for index in (self._literal, self._prefixed) for acls in index.values() for acl in acls)

    def add(self, acls: Iterable[Acl]) -> None:
        """Keep bindings; durable when it returns. Raises RemoteError for what cannot be, StorageError."""
        checked = [acl.checked() for acl in acls]
        self._metadata.put_entries(ACLS, {tuple(acl): {} for acl in checked})
        for acl in checked:
            self._store(acl)

    def remove(self, acls: Iterable[Acl]) -> list[Acl]:
        """Remove those bindings that are held, and return them; durable when it returns. Raises StorageError."""
        gone = [acl for acl in acls if acl in self._index(acl).get((acl.resource_type, acl.resource_name), ())]
        self._metadata.put_entries(ACLS, {tuple(acl): None for acl in gone})
        self._clear_cache()
        for acl in gone:
            index = self._index(acl)
            key = (acl.resource_type, acl.resource_name)
            index[key].discard(acl)
            if not index[key]:
                del index[key]
                if index is self._prefixed:
                    self._count_prefix(acl, -1)
        return gone

    def _store(self, acl: Acl) -> None:
        self._clear_cache()
        index = self._index(acl)
        key = (acl.resource_type, acl.resource_name)
        if index is self._prefixed and key not in index:
            self._count_prefix(acl, 1)
        index.setdefault(key, set()).add(acl)

    def _count_prefix(self, acl: Acl, change: int) -> None:
        """Keep how many prefixes there are of each length: a name is looked up by these lengths alone."""
        lengths = self._prefix_lengths[acl.resource_type]
        lengths[len(acl.resource_name)] += change
        if not lengths[len(acl.resource_name)]:
            del lengths[len(acl.resource_name)]

    def _index(self, acl: Acl) -> dict[tuple[int, str], set[Acl]]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal


class Access:
    """The rights of one caller; without an authorizer, it may do everything."""

    __slots__ = ("_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer | None, principal: Principal, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether it may do this to that resource."""
        authorizer = self._authorizer
        return authorizer is None or authorizer.allows(self._principal, self._host, operation, resource, name)

    def allows_on_cluster(self, operation: Operation) -> bool:
        """Whether it may do this to the cluster itself."""
        return self.allows(operation, Resource.CLUSTER, CLUSTER_NAME)

    def allows_some(self, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of that kind to which it may do this."""
        authorizer = self._authorizer
        return authorizer is None or authorizer.allows_some(self._principal, self._host, operation, resource)

    def operations(self, resource: Resource, name: str) -> int:
        """All that it may do to a resource, as the protocol's bits."""
        return sum(1 << operation for operation in OPERATIONS_OF[resource] if self.allows(operation, resource, name))


def _is_for(acl: Acl, principal: Principal, host: str) -> bool:
    return acl.principal in (_EVERYONE, str(principal)) and acl.host in (WILDCARD, host)


def _dominates(denial: Acl, allowed: Acl) -> bool:
    """Whether a denial leaves nothing of what a binding allows."""
    if denial.pattern_type == PatternType.PREFIXED:
        return allowed.resource_name.startswith(denial.resource_name) and allowed.resource_name != WILDCARD
    return allowed.pattern_type == PatternType.LITERAL and allowed.resource_name == denial.resource_name
