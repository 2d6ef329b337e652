"""``mainstem run APP.py``: the log, the pipelines on Spark, the views and the gateway of one App."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import note, out, out_json
from mainstem.exit_codes import DONE, REFUSED

if TYPE_CHECKING:
    from mainstem.node.stack import Stack

DEFAULT_MASTER = "local[*]"


def run(
    app: Annotated[Path, typer.Argument(metavar="APP.py", help="The Python file that declares the App.")],
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then end.")] = False,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="A log that runs already; default: our own.")
    ] = None,
    master: Annotated[str, typer.Option("--master", envvar="MAINSTEM_MASTER", help="Spark's master.")] = DEFAULT_MASTER,
    data: options.Data = options.DEFAULT_DATA,
    listen: options.Listen = options.DEFAULT_LISTEN,
    http: options.Http = options.DEFAULT_HTTP,
    json: options.Json = False,
) -> int:
    """Run an App. It gets its own log unless --bootstrap names one, a Spark driver, a view host and the gateway."""
    from mainstem.cli.foreground import stay_up, stopping_cleanly
    from mainstem.node.extras import require
    from mainstem.node.stack import Stack
    from mainstem.pipelines.load import load_app

    require("spark", "views", "gateway")
    declared = load_app(app)
    with stopping_cleanly(), Stack(data, note) as stack:
        ready = {"kafka": bootstrap or stack.start_log(listen)}
        deploy_app(app, ready["kafka"])
        if declared.pipelines:
            stack.launch_pipelines(app.resolve(), declared.name, ready["kafka"], master, once=once)
        if once:
            return _finish_once(stack, bool(declared.pipelines))
        if declared.views:
            stack.launch_views(app.resolve(), ready["kafka"])
        ready["http"] = stack.launch_gateway(ready["kafka"], http, views=bool(declared.views))
        for name in ("gateway", *(["views"] if declared.views else []), *(["pipelines"] if declared.pipelines else [])):
            stack.supervisor.wait_ready(name)
        if json:
            out_json({"ready": ready})
        else:
            out("ready: " + " ".join(f"{name} {address}" for name, address in ready.items()))
        stay_up(stack)
    return DONE


def deploy_app(app: Path, bootstrap: str) -> None:
    """Create the App's topics and register its schemas."""
    from mainstem.client.log import Log
    from mainstem.pipelines.deploy import deploy
    from mainstem.pipelines.load import load_app

    with Log(bootstrap) as log:
        deploy(load_app(app), log)


def _finish_once(stack: Stack, has_pipelines: bool) -> int:
    """Wait for the pipelines' batch run to end."""
    from mainstem.node.child import exit_text

    code = stack.supervisor.wait_ended("pipelines") if has_pipelines else DONE
    if code != DONE:
        note(f"error: the pipelines ended with {exit_text(code)}; their output is in {stack.layout.run}/pipelines.log")
        return REFUSED
    return DONE
