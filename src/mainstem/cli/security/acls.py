"""``mainstem acls``: list, add, remove: who may do what to which topics, groups, transactional ids and the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, out, out_json, out_rows
from mainstem.errors import InputError
from mainstem.protocol.acl_words import Operation, parse_resource, parse_word

if TYPE_CHECKING:
    from mainstem.client.admin.access_admin import AclRule

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


@app.command("list")
def list_acls(
    principal: MaybeWho = None,
    on: On = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """The ACLs, or those of one principal, or those that apply to one resource."""
    resource = _resources(on)[0] if on else None
    with connect(bootstrap) as log:
        rules = log.access_admin.acls(principal, resource)
    _show(rules, json, "no ACLs; add one with: mainstem acls add User:NAME --operation read --on topic:TOPIC")


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
    resources, operations = _resources(on), _operations(operation)
    if not operations:
        raise typer.BadParameter("name at least one, e.g. --operation read", param_hint="--operation")
    with connect(bootstrap) as log:
        rules = log.access_admin.add_acls(principal, operations, resources, prefix=prefix, deny=deny, host=host)
    _show(rules, json, "")


@app.command()
def remove(  # noqa: PLR0913 - a command's options are its parameters
    principal: Who,
    operation: Operations = None,
    on: On = None,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Those for this address only.")] = None,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Remove a principal's ACLs on a resource: those of the operations named, or all."""
    resources, operations = _resources(on), _operations(operation)
    if not yes:
        confirm(f"Remove ACLs of {principal} on {', '.join(resources)}?")
    with connect(bootstrap) as log:
        removed = log.access_admin.remove_acls(principal, resources, operations, prefix=prefix, deny=deny, host=host)
    _show(removed, json, "no ACL was like that")


def _resources(texts: list[str] | None) -> list[str]:
    if not texts:
        raise typer.BadParameter("say on what, e.g. --on topic:orders", param_hint="--on")
    try:
        for text in texts:
            parse_resource(text)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--on") from error
    return texts


def _operations(words: list[str] | None) -> list[str]:
    try:
        for word in words or ():
            parse_word(Operation, word)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--operation") from error
    return words or []


def _show(rules: Iterable[AclRule], json: bool, otherwise: str) -> None:
    rows = [asdict(rule) for rule in rules]
    if json:
        out_json({"acls": rows})
    elif rows:
        out_rows(rows)
    else:
        out(otherwise)
