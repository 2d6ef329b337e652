"""ACLs: who may or may not do what, to what, from where; by Kafka's words and numbers. Pure data.

A binding names a resource by its whole name (``LITERAL``; ``*`` is every name) or by how its name begins
(``PREFIXED``). A filter picks bindings: a field that is ``ANY`` or None fits every value, and the pattern type
``MATCH`` picks those bindings that apply to a resource of that name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mainstem.broker.error_codes import refusal
from mainstem.broker.security.principal import Principal
from mainstem.errors import ConfigError
from mainstem.protocol.acl_words import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType
from mainstem.protocol.errors import ErrorCode

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
]


class Acl(NamedTuple):
    """One binding."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def checked(self) -> Acl:
        """Itself, with its principal in its one form. Raises RemoteError (INVALID_REQUEST) for what cannot be."""
        if self.resource_type not in (*ResourceType,) or self.resource_type == ResourceType.ANY:
            raise refusal(ErrorCode.INVALID_REQUEST, f"an ACL cannot have the resource type {self.resource_type}")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise refusal(ErrorCode.INVALID_REQUEST, "an ACL's pattern type is LITERAL or PREFIXED")
        if self.operation not in (*Operation,) or self.operation == Operation.ANY:
            raise refusal(ErrorCode.INVALID_REQUEST, f"an ACL cannot have the operation {self.operation}")
        if self.permission not in (Permission.ALLOW, Permission.DENY):
            raise refusal(ErrorCode.INVALID_REQUEST, "an ACL's permission is ALLOW or DENY")
        if not self.resource_name:
            raise refusal(ErrorCode.INVALID_REQUEST, "the ACL's resource has no name: give one")
        if self.resource_type == ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            raise refusal(ErrorCode.INVALID_REQUEST, f"the only cluster's name is {CLUSTER_NAME}")
        if not self.host:
            raise refusal(ErrorCode.INVALID_REQUEST, "an ACL's host is an address, or * for every one")
        try:
            return self._replace(principal=str(Principal.parse(self.principal)))
        except ConfigError as error:
            raise refusal(ErrorCode.INVALID_REQUEST, str(error)) from error


class AclFilter(NamedTuple):
    """The bindings that a filter picks."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    @classmethod
    def of_request(cls, asked: Any) -> AclFilter:
        """The filter of a DescribeAcls request, or one of a DeleteAcls request."""
        return cls(
            asked.resource_type_filter,
            asked.resource_name_filter,
            asked.pattern_type_filter,
            asked.principal_filter,
            asked.host_filter,
            asked.operation,
            asked.permission_type,
        )

    def checked(self) -> AclFilter:
        """Itself. Raises RemoteError (INVALID_REQUEST) for a word that is not known."""
        for value, kind in (
            (self.resource_type, ResourceType),
            (self.pattern_type, PatternType),
            (self.operation, Operation),
            (self.permission, Permission),
        ):
            if value not in (*kind,):
                raise refusal(ErrorCode.INVALID_REQUEST, f"{kind.__name__} {value} is not known")
        return self

    def fits(self, acl: Acl) -> bool:
        """Whether the filter picks the binding."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._fits_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _fits_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return self.resource_name.startswith(acl.resource_name)
