"""``mainstem graduate``: make a directory that Apache Kafka starts on out of a stopped log's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.operation.directory_report import plan_json, print_plan
from mainstem.cli.output import out, out_json

if TYPE_CHECKING:
    from mainstem.kafka_directory.graduation import GraduationPlan


def graduate(
    to: Annotated[Path, typer.Option("--to", metavar="KAFKA_DIR", help="The directory to make: Kafka's log.dirs.")],
    data: options.Data = options.DEFAULT_DATA,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what goes along and what does not.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Give up the old log: Apache Kafka has taken over.")] = False,
    json: options.Json = False,
) -> None:
    """Make a log directory of Apache Kafka 4.3 out of the data directory of a log that is not running.

    Closed segments are hard links, so it needs little room. The old log stays as it is until --commit.
    """
    from mainstem.kafka_directory.graduation import SERVER_PROPERTIES, graduate, plan_graduation
    from mainstem.kafka_directory.graduation import commit as give_up

    if commit and dry_run:
        raise typer.BadParameter("give one of --dry-run and --commit", param_hint="--commit")
    if commit:
        removed = give_up(data, to)
        if json:
            out_json({"committed": True, "data": str(data), "to": str(to), "removed": removed})
        else:
            out(f"the log in {data} is given up: {len(removed)} files and directories removed; it is in {to} now")
        return
    plan = plan_graduation(data, to) if dry_run else graduate(data, to)
    if json:
        out_json(_json(plan, dry_run=dry_run))
        return
    print_plan(plan.report)
    if dry_run:
        if not plan.node.was_clean:
            out(f"{data} was not stopped cleanly: it is recovered first")
        out(f"nothing was changed; without --dry-run {to} is made")
    else:
        out(f"{to} is ready. Start Apache Kafka: kafka-server-start.sh {to / SERVER_PROPERTIES}")
        out(f"{data} is as it was. To give it up later: mainstem graduate --data {data} --to {to} --commit")


def _json(plan: GraduationPlan, *, dry_run: bool) -> dict[str, Any]:
    return {"dry_run": dry_run, "data": str(plan.source), "to": str(plan.target), **plan_json(plan.report)}
