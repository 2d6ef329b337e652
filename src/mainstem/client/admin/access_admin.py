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
        """The users by name, each with the mechanisms by which it can log in. Raises AuthorizationError."""
        with self._borrow() as client:
            return {user: sorted(mechanisms) for user, mechanisms in access.users(client).items()}

    def put_user(self, name: str, password: str, mechanisms: Sequence[str] = ()) -> list[str]:
        """Add a user, or give it a new password; return its mechanisms, by default all of ``MECHANISMS``.

        The password is salted and hashed here. Raises InputError, AuthorizationError, RemoteError.
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
        """Remove a user with all its credentials. Raises UnknownUserError, AuthorizationError."""
        with self._borrow() as client:
            access.remove_user(client, name)

    def acls(self, principal: str | None = None, on: str | None = None) -> list[AclRule]:
        """All ACLs, or those of one principal, or those that apply to one resource.

        Raises InputError, AuthorizationError, RemoteError.
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

        ``prefix``: all names that begin so. Raises InputError, AuthorizationError, RemoteError; some ACLs may then
        have been added.
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
        """Remove a principal's ACLs on resources: those of the operations named, or all. Return those that there were.

        Raises InputError, AuthorizationError, RemoteError.
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
