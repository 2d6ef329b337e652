"""``mainstem groups``: list, describe, reset, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, note, out, out_json, out_rows, out_table

app = typer.Typer(help="List, describe, reset and delete groups.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_groups(bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """Every group, with its state and how many records it has still to read."""
    with connect(bootstrap) as log:
        rows = [
            {"group": group.name, "type": group.kind, "state": group.state, "lag": group.lag}
            for group in log.groups().values()
        ]
    if json:
        out_json({"groups": rows})
    elif rows:
        out_rows(rows)
    else:
        out("no groups yet; a consumer makes one when it joins or commits")


@app.command()
def describe(group: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """One group: its members, and for each partition what is committed and how far the group is behind."""
    from mainstem.gateway.topics.topic_json import group_description_json

    with connect(bootstrap) as log:
        document = group_description_json(log.group_admin.describe(group))
    if json:
        out_json(document)
        return
    partitions, members = document.pop("partitions"), document.pop("members")
    for name, value in document.items():
        out(f"{name}: {value}")
    if members:
        columns = ["member", "instance", "client", "host", "partitions"]
        out_table(columns, [[*list(member.values())[:4], len(member["partitions"])] for member in members])
    if partitions:
        out_rows(partitions)


@app.command()
def reset(
    group: Name,
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="earliest, latest, an offset, a position or a time.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="A topic; repeatable. Without it: what the group committed."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this, show what would be done.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Move the offsets of a group without members; without --execute, only shows the new offsets."""
    from mainstem.gateway.topics.reads import moment
    from mainstem.gateway.topics.topic_json import offset_change_json

    with connect(bootstrap) as log:
        where = moment(to)
        changes = log.group_admin.plan_reset(group, where, topic or ())
        if execute:
            log.group_admin.set_offsets(group, {change.topic_partition: change.after for change in changes})
    rows = [offset_change_json(change) for change in changes]
    if json:
        out_json({"group": group, "executed": execute, "partitions": rows})
        return
    out_rows(rows)
    if not execute:
        note("nothing was changed; say --execute to do it")


@app.command()
def delete(
    group: Name,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Delete a group without members, and the offsets that it committed."""
    if not yes:
        confirm(f"Delete group {group} with its committed offsets?")
    with connect(bootstrap) as log:
        log.group_admin.delete(group)
    if json:
        out_json({"deleted": group})
    else:
        out(f"deleted {group}")
