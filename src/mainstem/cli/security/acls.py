"""``mainstem acls``: list, add, remove: who may do what to which topics, groups, transactional ids and the cluster."""

from __future__ import annotations

import enum
from typing import Annotated, Any, TypeVar

import typer

from mainstem.broker.access.acls import CLUSTER_NAME, AclFilter, Operation, PatternType, Permission, ResourceType
from mainstem.cli import options
from mainstem.cli.connect import wire_client
from mainstem.cli.output import out, out_json, out_rows

app = typer.Typer(help="List, add and remove ACLs.", no_args_is_help=True, rich_markup_mode=None)

Who = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="TYPE:NAME, e.g. User:alice; User:* is everyone.")]
MaybeWho = Annotated[str | None, typer.Option("--principal", metavar="PRINCIPAL", help="TYPE:NAME, e.g. User:alice.")]
On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="RESOURCE",
        help="topic:NAME, group:NAME, transactional-id:NAME (* is every one), or cluster; repeatable.",
    ),
]
Prefix = Annotated[bool, typer.Option("--prefix", help="All names that begin with the given one.")]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="WORD", help="Read, Write, Create, Describe, All, …; repeatable."),
]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The clients' address; * is every one.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny instead of allow; a denial wins.")]
_E = TypeVar("_E", bound=enum.IntEnum)


@app.command("list")
def list_acls(
    principal: MaybeWho = None,
    on: On = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """The ACLs, or those of one principal, or those that apply to one resource."""
    from mainstem.client.wire.admin import access
    from mainstem.protocol.messages.describe_acls import DescribeAclsRequest

    wanted = AclFilter(principal=principal)
    if on:
        resource_type, name = _resource(on[0])
        wanted = wanted._replace(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    with wire_client(bootstrap) as client:
        rows = [_row(resource, acl) for resource in access.acls(client, request) for acl in resource.acls]
    _show(rows, json, "no ACLs; add one with: mainstem acls add User:NAME --operation read --on topic:TOPIC")


@app.command()
def add(
    principal: Who,
    operation: Operations = None,
    on: On = None,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Host = "*",
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Allow a principal operations on a resource, or deny them."""
    from mainstem.client.wire.admin import access
    from mainstem.protocol.messages.create_acls import AclCreation

    creations = [
        AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=_pattern(prefix),
            principal=principal,
            host=host,
            operation=each,
            permission_type=Permission.DENY if deny else Permission.ALLOW,
        )
        for resource, name in _resources(on)
        for each in _operations(operation)
    ]
    with wire_client(bootstrap) as client:
        access.add_acls(client, creations)
    rows = [_described(each.resource_type, each.resource_name, each.resource_pattern_type, each) for each in creations]
    _show(rows, json, "")


@app.command()
def remove(
    principal: Who,
    operation: Operations = None,
    on: On = None,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Those for this address only.")] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Remove a principal's ACLs on a resource: those of the operations named, or all."""
    from mainstem.client.wire.admin import access
    from mainstem.protocol.messages.delete_acls import DeleteAclsFilter

    filters = [
        DeleteAclsFilter(
            resource_type_filter=resource,
            resource_name_filter=name,
            pattern_type_filter=_pattern(prefix),
            principal_filter=principal,
            host_filter=host,
            operation=each,
            permission_type=Permission.DENY if deny else Permission.ALLOW,
        )
        for resource, name in _resources(on)
        for each in (_operations(operation) if operation else [Operation.ANY])
    ]
    with wire_client(bootstrap) as client:
        removed = access.remove_acls(client, filters)
    rows = [_described(each.resource_type, each.resource_name, each.pattern_type, each) for each in removed]
    _show(rows, json, "no ACL was like that")


def _resources(texts: list[str] | None) -> list[tuple[ResourceType, str]]:
    if not texts:
        raise typer.BadParameter("say on what, e.g. --on topic:orders", param_hint="--on")
    return [_resource(text) for text in texts]


def _resource(text: str) -> tuple[ResourceType, str]:
    kind, colon, name = text.partition(":")
    if text == "cluster":
        return ResourceType.CLUSTER, CLUSTER_NAME
    found = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }.get(kind)
    if found is None or not colon or not name:
        raise typer.BadParameter(
            f"{text!r}: give topic:NAME, group:NAME, transactional-id:NAME or cluster", param_hint="--on"
        )
    return found, name


def _operations(words: list[str] | None) -> list[Operation]:
    if not words:
        raise typer.BadParameter("name at least one, e.g. --operation read", param_hint="--operation")
    return [_word(Operation, word) for word in words]


def _word(kind: type[_E], word: str) -> _E:
    wanted = word.replace("_", "").replace("-", "").lower()
    for value in kind:
        if value.name.replace("_", "").lower() == wanted and value.name != "ANY":
            return value
    known = ", ".join(_camel(value.name) for value in kind if value.name != "ANY")
    raise typer.BadParameter(f"unknown word {word!r}: use one of {known}", param_hint="--operation")


def _pattern(prefix: bool) -> PatternType:
    return PatternType.PREFIXED if prefix else PatternType.LITERAL


def _row(resource: Any, acl: Any) -> dict[str, str]:
    return _described(resource.resource_type, resource.resource_name, resource.pattern_type, acl)


def _described(resource_type: int, name: str, pattern_type: int, acl: Any) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": _camel(Permission(acl.permission_type).name),
        "operation": _camel(Operation(acl.operation).name),
        "resource": _camel(ResourceType(resource_type).name),
        "name": name,
        "pattern": _camel(PatternType(pattern_type).name),
        "host": acl.host,
    }


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _show(rows: list[dict[str, str]], json: bool, otherwise: str) -> None:
    if json:
        out_json({"acls": rows})
    elif rows:
        out_rows(rows)
    else:
        out(otherwise)
