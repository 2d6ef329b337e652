"""``mainstem groups``: list, describe, reset, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, note, out, out_json, out_rows, out_table

if TYPE_CHECKING:
    from mainstem.client.admin.group_admin import GroupDescription, OffsetChange

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
    with connect(bootstrap) as log:
        description = log.group_admin.describe(group)
    document = _document(description)
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
    from mainstem.model import Position

    with connect(bootstrap) as log:
        where = Position.parse(to) if "/" in to else moment(to, "")
        changes = log.group_admin.plan_reset(group, where, topic or ())
        if execute:
            log.group_admin.set_offsets(group, {change.topic_partition: change.after for change in changes})
    rows = [_change(change) for change in changes]
    if json:
        out_json({"group": group, "executed": execute, "partitions": rows})
        return
    out_rows(rows)
    if not execute:
        note("nothing was changed; say --execute to do it")


@app.command()
def delete(
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
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


def _document(description: GroupDescription) -> dict[str, Any]:
    group = description.group
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state,
        "lag": sum(each.lag or 0 for each in description.progress),
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(tp) for tp in sorted(member.assigned)],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "member": each.member_id,
            }
            for each in description.progress
        ],
    }


def _change(change: OffsetChange) -> dict[str, Any]:
    return {
        "topic": change.topic_partition.topic,
        "partition": change.topic_partition.partition,
        "before": change.before,
        "after": change.after,
    }
