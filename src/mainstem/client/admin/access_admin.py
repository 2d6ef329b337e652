"""``AccessAdmin``: the users of a log and its ACLs. It sends Kafka's requests, so it works on Apache Kafka, too.

Resources and operations are words, as in ``mainstem acls``: ``topic:orders``, ``read``. Safe from any thread, as the
log is. Raises LogUnavailableError when the log cannot be reached in time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from mainstem.client.wire.admin import access
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import InputError
from mainstem.protocol.acl_words import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
    camel,
    parse_resource,
    parse_word,
)
from mainstem.protocol.messages.create_acls import AclCreation
from mainstem.protocol.messages.delete_acls import DeleteAclsFilter
from mainstem.protocol.messages.describe_acls import DescribeAclsRequest
from mainstem.protocol.scram import SHA_256, SHA_512

MECHANISMS: Final = (SHA_256, SHA_512)


@dataclass(frozen=True, slots=True)
class AclRule:
    """One ACL in Kafka's words: ``User:alice``, ``Allow``, ``Read``, ``Topic``, ``orders``, ``Literal``, ``*``."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


class AccessAdmin:
    """The users and the ACLs. ``Log.access_admin`` is one."""

    def __init__(self, borrow: Callable[[], AbstractContextManager[WireClient]]) -> None:
        self._borrow = borrow

    def users(self) -> dict[str, list[str]]:
        """The users by name, each with the mechanisms by which it can log in.

        Raises:
            AuthorizationError: The user may not see users.

        Examples:
            >>> log.access_admin.put_user("alice", "a long secret")
            ['SCRAM-SHA-256', 'SCRAM-SHA-512']
            >>> log.access_admin.users()["alice"]
            ['SCRAM-SHA-256', 'SCRAM-SHA-512']
        """
        with self._borrow() as client:
            return {user: sorted(mechanisms) for user, mechanisms in access.users(client).items()}

    def put_user(self, name: str, password: str, mechanisms: Sequence[str] = ()) -> list[str]:
        """Add a user, or give it a new password; return its mechanisms.

        The password is salted and hashed here; the log gets and keeps the hash.

        Args:
            name: The user.
            password: The password.
            mechanisms: ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or both; both without it.

        Raises:
            InputError: The name or the password is empty, or the mechanism is unknown.
            AuthorizationError: The user may not change users.
            RemoteError: The log refused for another reason.

        Examples:
            >>> log.access_admin.put_user("bob", "another secret", ["SCRAM-SHA-256"])
            ['SCRAM-SHA-256']
        """
        chosen = list(dict.fromkeys(mechanisms or MECHANISMS))
        for each in chosen:
            if each not in MECHANISMS:
                raise InputError(f"{each[:100]!r} is neither {' nor '.join(MECHANISMS)}")
        if not name or not password:
            raise InputError(f"the {'password' if name else 'name'} is empty; give one")
        with self._borrow() as client:
            access.put_user(client, name, password, chosen)
        return chosen

    def remove_user(self, name: str) -> None:
        """Remove a user with all its credentials.

        Raises:
            UnknownUserError: The log does not know the user.
            AuthorizationError: The user may not change users.

        Examples:
            >>> log.access_admin.put_user("carol", "one more secret", ["SCRAM-SHA-512"])
            ['SCRAM-SHA-512']
            >>> log.access_admin.remove_user("carol")
            >>> "carol" in log.access_admin.users()
            False
        """
        with self._borrow() as client:
            access.remove_user(client, name)

    def acls(self, principal: str | None = None, on: str | None = None) -> list[AclRule]:
        """All ACLs, or those of one principal, or those that apply to one resource.

        Args:
            principal: ``User:NAME``, or ``User:*``.
            on: A resource, such as ``topic:orders``, ``group:kitchen`` or ``cluster``; ACLs of prefixes are found, too.

        Raises:
            InputError: That is not a resource.
            AuthorizationError: The user may not see ACLs.
            RemoteError: The log refused for another reason.

        Examples:
            >>> rules = log.access_admin.add_acls("User:alice", ["read"], ["topic:sales-"], prefix=True)
            >>> (rule,) = log.access_admin.acls(on="topic:sales-2026")
            >>> rule.principal, rule.operation, rule.pattern
            ('User:alice', 'Read', 'Prefixed')
        """
        resource, name = (ResourceType.ANY, None) if on is None else parse_resource(on)
        request = DescribeAclsRequest(
            resource_type_filter=resource,
            resource_name_filter=name,
            pattern_type_filter=PatternType.ANY if on is None else PatternType.MATCH,
            principal_filter=principal,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        with self._borrow() as client:
            found = access.acls(client, request)
        return [
            _rule(each.resource_type, each.resource_name, each.pattern_type, acl) for each in found for acl in each.acls
        ]

    def add_acls(
        self,
        principal: str,
        operations: Iterable[str],
        on: Iterable[str],
        *,
        prefix: bool = False,
        deny: bool = False,
        host: str = "*",
    ) -> list[AclRule]:
        """Allow a principal operations on resources, or deny them; return the ACLs.

        If it raises, some of the ACLs may have been added.

        Args:
            principal: ``User:NAME``, or ``User:*`` for everyone.
            operations: Such as ``read``, ``write``, ``describe`` or ``all``.
            on: Resources, such as ``topic:orders``, ``group:kitchen`` or ``cluster``.
            prefix: For all names that begin so.
            deny: Deny instead of allow; a denial wins.
            host: The address of the client; ``*`` is any.

        Raises:
            InputError: An operation or a resource is missing or unknown.
            AuthorizationError: The user may not change ACLs.
            UnsupportedFeatureError: The log has no authorizer.
            RemoteError: The log refused for another reason.

        Examples:
            >>> (rule,) = log.access_admin.add_acls("User:bob", ["write"], ["topic:orders"])
            >>> rule.permission, rule.operation, rule.name
            ('Allow', 'Write', 'orders')
        """
        chosen = [parse_word(Operation, word) for word in operations]
        creations = [
            AclCreation(
                resource_type=resource,
                resource_name=name,
                resource_pattern_type=_pattern(prefix),
                principal=principal,
                host=host,
                operation=operation,
                permission_type=_permission(deny),
            )
            for resource, name in map(parse_resource, on)
            for operation in chosen
        ]
        if not creations:
            raise InputError("name at least one operation and one resource, such as read and topic:orders")
        with self._borrow() as client:
            access.add_acls(client, creations)
        return [_rule(each.resource_type, each.resource_name, each.resource_pattern_type, each) for each in creations]

    def remove_acls(
        self,
        principal: str,
        on: Iterable[str],
        operations: Iterable[str] = (),
        *,
        prefix: bool = False,
        deny: bool = False,
        host: str | None = None,
    ) -> list[AclRule]:
        """Remove a principal's ACLs on resources; return those that there were.

        Args:
            principal: ``User:NAME``, as in the ACLs.
            on: The resources.
            operations: Of these alone; without them, of all.
            prefix: ACLs of prefixes, not of single names.
            deny: ACLs that deny, not those that allow.
            host: Of this address alone; None is any.

        Raises:
            InputError: An operation or a resource is missing or unknown.
            AuthorizationError: The user may not change ACLs.
            RemoteError: The log refused for another reason.

        Examples:
            >>> rules = log.access_admin.add_acls("User:carol", ["read", "describe"], ["topic:orders"])
            >>> len(log.access_admin.remove_acls("User:carol", ["topic:orders"]))
            2
        """
        chosen = [parse_word(Operation, word) for word in operations] or [Operation.ANY]
        filters = [
            DeleteAclsFilter(
                resource_type_filter=resource,
                resource_name_filter=name,
                pattern_type_filter=_pattern(prefix),
                principal_filter=principal,
                host_filter=host,
                operation=operation,
                permission_type=_permission(deny),
            )
            for resource, name in map(parse_resource, on)
            for operation in chosen
        ]
        if not filters:
            raise InputError("name at least one resource, such as topic:orders")
        with self._borrow() as client:
            removed = access.remove_acls(client, filters)
        return [_rule(each.resource_type, each.resource_name, each.pattern_type, each) for each in removed]


def _pattern(prefix: bool) -> PatternType:
    return PatternType.PREFIXED if prefix else PatternType.LITERAL


def _permission(deny: bool) -> Permission:
    return Permission.DENY if deny else Permission.ALLOW


def _rule(resource: int, name: str, pattern: int, acl: Any) -> AclRule:
    return AclRule(
        acl.principal,
        _word(Permission, acl.permission_type),
        _word(Operation, acl.operation),
        _word(ResourceType, resource),
        name,
        _word(PatternType, pattern),
        acl.host,
    )


def _word(kind: type[enum.IntEnum], number: int) -> str:
    """The word of a number; a newer broker's number as it is."""
    try:
        return camel(kind(number))
    except ValueError:
        return str(number)
