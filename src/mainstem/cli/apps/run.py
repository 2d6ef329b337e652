"""``mainstem run APP.py``: the log, the pipelines on Spark, the views and the gateway of one App."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.apps.served_backup import ServedBackup
from mainstem.cli.output import note, out, out_json
from mainstem.exit_codes import DONE

if TYPE_CHECKING:
    from mainstem.model import Position
    from mainstem.node.stack import Stack
    from mainstem.pipelines.app import App

DEFAULT_MASTER = "local[*]"
_LOOK_EVERY_S = 0.2


def run(  # noqa: PLR0913 - a command's options are its parameters
    app: Annotated[Path, typer.Argument(metavar="APP.py", help="The Python file that declares the App.")],
    once: Annotated[bool, typer.Option("--once", help="Derive and apply what is there, then end.")] = False,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--changed",
            metavar="[PIPELINE=]CHOICE",
            help="What becomes of a pipeline that was changed: resume, rebuild or fresh; repeatable.",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="A log that runs already; default: our own.")
    ] = None,
    master: Annotated[str, typer.Option("--master", envvar="MAINSTEM_MASTER", help="Spark's master.")] = DEFAULT_MASTER,
    data: options.Data = options.DEFAULT_DATA,
    listen: options.Listen = options.DEFAULT_LISTEN,
    http: options.Http = options.DEFAULT_HTTP,
    http_tokens: options.HttpTokens = None,
    cors_origin: options.CorsOrigins = None,
    http_name: options.HttpNames = None,
    http_tls_cert: options.HttpTlsCert = None,
    http_tls_key: options.HttpTlsKey = None,
    no_console: options.NoConsole = False,
    console_read_only: options.ConsoleReadOnly = False,
    alert_webhook: options.AlertWebhook = None,
    settings: options.Settings = None,
    backup: options.BackupUrl = None,
    backup_every: options.ServedBackupEvery = options.DEFAULT_BACKUP_EVERY,
    backup_keep: options.ServedBackupKeep = options.DEFAULT_BACKUP_KEEP,
    json: options.Json = False,
) -> int:
    """Run an App. It gets its own log unless --bootstrap names one, a Spark driver, a view host and the gateway."""
    from mainstem.cli.foreground import stay_up, stopping_cleanly
    from mainstem.extras import require
    from mainstem.gateway.access.limits import divided
    from mainstem.node.roles import HttpAccess
    from mainstem.node.stack import Stack

    require("spark", "views", "gateway")
    of_log, of_gateway = divided(settings or (), log=bootstrap)
    declared = _declared(app, changed or ())
    served_backup = ServedBackup.of(None if bootstrap else backup, backup_every, backup_keep)
    with stopping_cleanly(), Stack(data, note) as stack:
        ready = {"kafka": bootstrap or stack.start_log(listen, served_backup.added_to(of_log))}
        _start_beside(stack, served_backup, app := app.resolve(), declared, ready["kafka"])
        if declared.pipelines:
            stack.launch_pipelines(app, declared.name, ready["kafka"], master, once=once, changed=changed or ())
        if once:
            return _finish_once(stack, app, declared, ready["kafka"], json=json)
        if declared.views:
            stack.launch_views(app, ready["kafka"])
        web = (http_tokens, tuple(cors_origin or ()), tuple(http_name or ()), http_tls_cert, http_tls_key)
        access = HttpAccess(*web, settings=of_gateway, console_read_only=console_read_only, alert_webhook=alert_webhook)
        views = bool(declared.views)
        ready["http"] = stack.launch_gateway(ready["kafka"], http, views=views, access=access, console=not no_console)
        _wait_ready(stack, declared)
        stay_up(stack, ready, as_json=json)
    return DONE


def _wait_ready(stack: Stack, declared: App) -> None:
    for name in ("gateway", *(["views"] if declared.views else []), *(["pipelines"] if declared.pipelines else [])):
        stack.supervisor.wait_ready(name)


def _declared(app: Path, changed: Sequence[str]) -> App:
    """The App of a file, for whose captures the extra is there, and whose pipelines have the names of ``changed``."""
    from mainstem.extras import require
    from mainstem.pipelines.changes import Choices
    from mainstem.pipelines.load import load_app

    declared = load_app(app)
    require(*(["postgres"] if declared.captures else []))
    Choices.parse(changed).require_known(declared.pipelines)
    return declared


def _start_beside(stack: Stack, backup: ServedBackup, app: Path, declared: App, bootstrap: str) -> None:
    """Create the topics; start the backup and the captures. When it returns, the captured topics are there, too."""
    deploy_app(app, bootstrap)
    backup.start(stack)
    for process in [stack.launch_capture(app, bootstrap, name) for name in declared.captures]:
        stack.supervisor.wait_ready(process)


def deploy_app(app: Path, bootstrap: str) -> None:
    """Create the App's topics and register its schemas; warn of topics that are not as the App declares them."""
    from mainstem.client.log import Log
    from mainstem.pipelines.deploy import deploy, differences
    from mainstem.pipelines.load import load_app

    with Log(bootstrap) as log:
        declared = load_app(app)
        deploy(declared, log)
        for difference in differences(declared, log):
            note(f"WARNING: {difference}")


def _finish_once(stack: Stack, app: Path, declared: App, bootstrap: str, *, json: bool) -> int:
    """Wait until the pipelines have derived all, then until the views have applied that too, and say what was done.

    Raises the pipelines' own error when one of them failed, ViewStoppedError.
    """
    begun_s = time.monotonic()
    if declared.pipelines:
        stack.supervisor.finish("pipelines")
    if declared.views:
        _apply_once(stack, app, declared, bootstrap)
    _say_what_was_done(declared, bootstrap, time.monotonic() - begun_s, json=json)
    return DONE


def _apply_once(stack: Stack, app: Path, declared: App, bootstrap: str) -> None:
    from mainstem.client.http.views import views
    from mainstem.client.log import Log

    with Log(bootstrap) as log:
        ends = log.end(*sorted({view.topic.name for view in declared.views.values()}))
    stack.launch_views(app, bootstrap)
    url = stack.launch_gateway(bootstrap, "127.0.0.1:0", views=True, console=False)
    for name in ("views", "gateway"):
        stack.supervisor.wait_ready(name)
    asked = views(url)
    behind = {view.name: ends.restrict([view.topic.name]) for view in declared.views.values()}
    while behind:
        behind = _still_behind(asked.status(), behind)
        if behind:
            time.sleep(_LOOK_EVERY_S)
    asked.close()


def _say_what_was_done(declared: App, bootstrap: str, seconds: float, *, json: bool) -> None:
    """Of each pipeline the rows of this run, as its state in the log says; then how many views are up to date."""
    from mainstem.client.log import Log
    from mainstem.pipelines.overview import Overview

    with Log(bootstrap) as log:
        states = {state["name"]: state for state in Overview(log).latest()} if declared.pipelines else {}
    rows = [
        {"pipeline": name, "read": states[name]["input_rows"], "written": states[name]["written_rows"]}
        for name in declared.pipelines
        if "input_rows" in states.get(name, {})
    ]
    if json:
        out_json({"done": {"pipelines": rows, "views": list(declared.views), "seconds": round(seconds, 1)}})
        return
    for row in rows:
        out(f"pipeline {row['pipeline']}: {row['read']:,} rows read, {row['written']:,} written")
    counts = [
        f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((len(rows), "pipeline"), (len(declared.views), "view"))
    ]
    out(f"done: {' and '.join(counts)} up to date, in {seconds:.1f} s")


def _still_behind(statuses: list[dict[str, Any]], behind: dict[str, Position]) -> dict[str, Position]:
    """The views that have not reached their positions. Raises ViewStoppedError for one that never will."""
    from mainstem.errors import ViewStoppedError
    from mainstem.model import Position

    by_name = {status["name"]: status for status in statuses}
    for name in behind:
        if by_name[name]["state"] == "stopped":
            raise ViewStoppedError(f"view {name} stopped: {by_name[name]['detail']}")
    return {name: end for name, end in behind.items() if not Position.parse(by_name[name]["position"]).covers(end)}
