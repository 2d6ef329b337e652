"""``explained``: the rights of a user by the ACLs of the log, in Kafka's rules. Pure functions.

A denial wins. Read, Write, Delete and Alter imply Describe, AlterConfigs implies DescribeConfigs, All is everything. A
super user may do everything, whatever the ACLs say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

ANYONE: Final = "User:*"
_IMPLIED: Final = {
    "Read": ("Describe",),
    "Write": ("Describe",),
    "Delete": ("Describe",),
    "Alter": ("Describe",),
    "AlterConfigs": ("DescribeConfigs",),
}
_KINDS: Final = {"Topic": "topic", "Group": "group", "TransactionalId": "transactional id"}

Acl = dict[str, Any]


def principal_of(name: str) -> str:
    """The principal that a person means: ``alice`` is ``User:alice``."""
    return name if ":" in name else f"User:{name}"


def is_super_user(principal: str, super_users: str) -> bool:
    """Whether the setting ``super.users`` names a principal."""
    return principal in [each.strip() for each in super_users.split(";")]


def resource_words(acl: Acl) -> str:
    """The resource of an ACL in words: ``topics that begin with orders-``."""
    kind = _KINDS.get(acl["resource"])
    if kind is None:
        return "the cluster" if acl["resource"] == "Cluster" else f"{acl['resource']} {acl['name']}"
    if acl["pattern"] == "Prefixed":
        return f"{kind}s that begin with {acl['name']}"
    return f"every {kind}" if acl["name"] == "*" else f"{kind} {acl['name']}"


def resource_option(acl: Acl) -> str | None:
    """The resource as a request writes it: ``topic:orders``; None for one that requests cannot name."""
    if acl["resource"] == "Cluster":
        return "cluster"
    kind = _KINDS.get(acl["resource"])
    return None if kind is None else f"{kind.replace(' ', '-')}:{acl['name']}"


def explained(acls: Iterable[Acl], principal: str) -> list[dict[str, str]]:
    """A row for each resource: what the principal may and may not do with it. Without rows it may do nothing."""
    found: dict[tuple[str, str], tuple[set[str], set[str], set[bool]]] = {}
    for acl in acls:
        if acl["principal"] not in (principal, ANYONE):
            continue
        place = (resource_words(acl), acl["host"])
        allowed, denied, own = found.setdefault(place, (set(), set(), set()))
        if acl["permission"] == "Deny":
            denied.add(acl["operation"])
        else:
            allowed |= {acl["operation"], *_IMPLIED.get(acl["operation"], ())}
        own.add(acl["principal"] == principal)
    for (resource, _), (_, denied, _) in found.items():
        denied |= found.get((resource, "*"), (set(), set(), set()))[1]  # a denial from anywhere holds here, too
    return [
        {
            "id": f"{resource} {host}",
            "resource": resource,
            "allowed": _words(_left(allowed, denied)),
            "denied": _words(denied),
            "host": "anywhere" if host == "*" else host,
            "source": "everyone's" if own == {False} else "its own" if own == {True} else "its own and everyone's",
        }
        for (resource, host), (allowed, denied, own) in sorted(found.items())
    ]


def _left(allowed: set[str], denied: set[str]) -> set[str]:
    return set() if "All" in denied else allowed - denied


def _words(operations: Iterable[str]) -> str:
    chosen: Sequence[str] = sorted(operations)
    return "everything" if "All" in chosen else ", ".join(chosen) or "–"
