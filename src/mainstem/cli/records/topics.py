"""``mainstem topics``: list, create, describe, alter, delete, and what is in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, note, out, out_json, out_rows, out_table
from mainstem.clock import utc_time

if TYPE_CHECKING:
    from mainstem.client.log import Log

app = typer.Typer(
    help="List, create, describe, alter and delete topics, and delete their oldest records.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command("list")
def list_topics(
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    everything: Annotated[bool, typer.Option("--all", help="The system's own topics too.")] = False,
    json: options.Json = False,
) -> None:
    """Every topic, with its partitions and how many offsets it holds: of records and transaction markers."""
    with connect(bootstrap) as log:
        names = [name for name in log.topics() if everything or not name.startswith("__")]
        rows = _rows(log, names)
    if json:
        out_json({"topics": rows})
    elif rows:
        out_rows(rows)
    else:
        out("no topics yet; create one with: mainstem topics create NAME")


@app.command()
def create(
    topic: Name,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1)] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A topic config; repeatable.")
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Create a topic."""
    configs = dict(_setting(text) for text in config or ())
    with connect(bootstrap) as log:
        (row,) = _rows(log, [log.create_topic(topic, partitions=partitions, configs=configs).name])
    if json:
        out_json(row)
    else:
        out(f"created {topic} with {row['partitions']} partition{'s' if row['partitions'] != 1 else ''}")


@app.command()
def describe(topic: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """One topic: where each partition begins and ends, and its settings."""
    from mainstem.gateway.topics.topic_json import description_json

    with connect(bootstrap) as log:
        document = description_json(log.describe_topic(topic), log.cluster_admin.topic_size_bytes(topic))
    if json:
        out_json(document)
        return
    configs, set_here = document.pop("configs"), document.pop("set_configs")
    for name, value in document.items():
        out(f"{name}: {value}")
    rows = [[name, value, "topic" if name in set_here else "default"] for name, value in sorted(configs.items())]
    out_table(["config", "value", "from"], rows)


@app.command()
def partitions(
    topic: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False
) -> None:
    """The partitions of a topic: where each begins and ends, its size, its leader, the time of its newest record."""
    from mainstem.gateway.topics.topic_json import partition_state_json

    with connect(bootstrap) as log:
        states, _ = log.cluster_admin.partitions(topic)
    rows = [partition_state_json(each) for each in states]
    if json:
        out_json({"topic": topic, "partitions": rows})
        return
    for row in rows:
        newest_ms = row.pop("newest_ms")
        row["newest (UTC)"] = None if newest_ms is None else utc_time(newest_ms)
    out_rows(rows)


@app.command()
def consumers(
    topic: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False
) -> None:
    """The groups that have committed offsets of a topic, and how far behind they are in it."""
    from mainstem.gateway.topics.topic_json import consuming_group_json

    with connect(bootstrap) as log:
        found = log.cluster_admin.topic_groups(topic)
    if json:
        groups = [consuming_group_json(each, with_partitions=True) for each in found.groups]
        out_json({"topic": topic, "groups": groups, "complete": found.is_complete})
        return
    if found.groups:
        out_rows([{"group": each.name, "state": each.state, "lag": each.lag} for each in found.groups])
    else:
        out("no group has committed offsets of this topic")
    if not found.is_complete:
        note("there are more groups than are looked at")


@app.command()
def alter(
    topic: Name,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A topic config to set; repeatable.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="A config to give its default; repeatable.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Add empty partitions, up to this number.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and show the changes, but do nothing.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Change a topic's configs, or add partitions; keys may then belong to other partitions."""
    configs = dict(_setting(text) for text in config or ())
    if not configs and not reset and partitions is None:
        raise typer.BadParameter("say what to change: --config, --reset or --partitions")
    with connect(bootstrap) as log:
        admin = log.cluster_admin
        # The log's refusal of the partitions comes before the configs are changed.
        had = None if partitions is None else admin.add_partitions(topic, partitions, validate_only=True)
        changes = []
        if configs or reset:
            changes = admin.change_topic_configs(topic, configs, reset or (), validate_only=dry_run)
        if partitions is not None and not dry_run:
            admin.add_partitions(topic, partitions)
    rows = [{"config": each.name, "before": each.before, "after": each.after} for each in changes]
    if json:
        out_json({"topic": topic, "changes": rows, "partitions": partitions, "executed": not dry_run})
        return
    if rows:
        out_rows(rows)
    if partitions is not None:
        out(f"partitions: {had} before, {partitions} after")
    if dry_run:
        note("nothing was changed; leave --dry-run out to do it")


@app.command()
def delete(
    topic: Name,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Delete a topic and all its records."""
    if not yes:
        confirm(f"Delete {topic} with all its records?")
    with connect(bootstrap) as log:
        log.delete_topic(topic)
    if json:
        out_json({"deleted": topic})
    else:
        out(f"deleted {topic}")


@app.command("delete-records")
def delete_records(
    topic: Name,
    to: Annotated[
        str,
        typer.Option("--to", metavar="WHERE", help="Delete what is before: an offset, a position, a time or latest."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and delete nothing.")] = False,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Delete the oldest records of a topic, for good; the others keep their offsets."""
    from mainstem.gateway.topics.reads import moment
    from mainstem.gateway.topics.topic_json import deletion_json
    from mainstem.model import Position

    where = moment(to, topic)
    with connect(bootstrap) as log:
        admin = log.cluster_admin
        deletions = admin.plan_record_deletion(topic, where)
        if not dry_run:
            if not yes:
                confirm(f"Delete {sum(each.offsets for each in deletions):,} offsets of {topic} with their records?")
            to_here = Position({each.topic_partition: each.after for each in deletions})
            deletions = admin.delete_records(topic, to_here)
    rows, offsets = [deletion_json(each) for each in deletions], sum(each.offsets for each in deletions)
    if json:
        out_json({"topic": topic, "executed": not dry_run, "offsets": offsets, "partitions": rows})
        return
    out_rows(rows)
    if dry_run:
        note("nothing was deleted; leave --dry-run out to do it")


def _rows(log: Log, names: Sequence[str]) -> list[dict[str, Any]]:
    """The contents of the topics, a row each; two requests for all of them."""
    if not names:
        return []
    beginning, end = log.beginning(*names), log.end(*names)
    rows = []
    for name in names:
        first, last = beginning.restrict([name]), end.restrict([name])
        rows.append({"topic": name, "partitions": len(last), "offsets": sum(last.values()) - sum(first.values())})
    return rows


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--config")
    return name, value
