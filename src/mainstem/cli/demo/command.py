"""The command: start, run the steps, show, and stay up or end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import note, out_json
from mainstem.exit_codes import DONE, NO


def demo(
    exit_after: Annotated[bool, typer.Option("--exit", help="End after the answers instead of staying up.")] = False,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The demo's own directory; it is cleared.")
    ] = Path("mainstem-data") / "demo",
    json: options.Json = False,
) -> int:
    """Run the main job on a year of real flights. It needs no network."""
    from mainstem.extras import require

    require("spark", "views", "gateway", "demo")
    from mainstem.cli.demo.data import own_directory
    from mainstem.cli.demo.report import DemoReport
    from mainstem.cli.demo.steps import Demo
    from mainstem.cli.foreground import stay_up, stopping_cleanly
    from mainstem.node.stack import Stack

    report = DemoReport(quiet=json)
    with stopping_cleanly(), own_directory(data), Stack(data, note) as stack:
        run = Demo(stack, report)
        run.run()
        report.finished(run.results.seconds, run.url, stays=not exit_after)
        if json:
            out_json(run.results.to_json())
        if not exit_after:
            stay_up(stack)
    kept = run.results.read_your_writes["included"] and all(view["equal"] for view in run.results.verify.values())
    return DONE if kept else NO
