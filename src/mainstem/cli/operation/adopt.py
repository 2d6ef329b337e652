"""``mainstem adopt``: make a data directory out of a stopped Apache Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.operation.directory_report import plan_json, print_plan
from mainstem.cli.output import out, out_json


def adopt(
    kafka_directory: Annotated[Path, typer.Argument(metavar="KAFKA_DIR", help="Kafka's log.dirs.")],
    data: options.Data = options.DEFAULT_DATA,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, and list what goes along and what does not.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Make a data directory out of the log directory of a stopped Apache Kafka of one broker (KRaft).

    Every batch is proven first. Closed segments are hard links. Kafka's directory is only read.
    """
    from mainstem.kafka_directory.adoption import adopt, plan_adoption

    plan = plan_adoption(kafka_directory, data) if dry_run else adopt(kafka_directory, data)
    if json:
        out_json({"dry_run": dry_run, "from": str(plan.source), "data": str(plan.target), **plan_json(plan.report)})
        return
    print_plan(plan.report)
    out(
        f"nothing was changed; without --dry-run {data} is made"
        if dry_run
        else f"{data} is ready: mainstem serve --data {data}"
    )
