"""``mainstem pipelines``: how every pipeline is; one in full, its plan, its log; ``pause``, ``restart``, ``drop`` one.

It works on any log, and needs no gateway.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, out, out_json, out_rows
from mainstem.clock import utc_time
from mainstem.errors import InputError

app = typer.Typer(
    help="How the pipelines are; one in full, its plan, its log; pause, resume, restart or drop one.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="PIPELINE")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait until its App has done it.")
]
_TIMEOUT_S = 60.0


@app.callback(invoke_without_command=True)
def pipelines(
    context: typer.Context,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Every pipeline: how it is, how far behind, how fast, and what went wrong last."""
    if context.invoked_subcommand is None:
        list_pipelines(bootstrap, json)


@app.command("list")
def list_pipelines(bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """Every pipeline: how it is, how far behind, how fast, and what went wrong last."""
    found = _latest(bootstrap)
    if json:
        out_json({"pipelines": found})
    elif found:
        out_rows([_summary(pipeline) for pipeline in found])
    else:
        out("no pipeline has run yet; declare some in an App and start it with: mainstem run APP.py")


@app.command()
def show(name: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """One pipeline: all that is known of it, and its last micro-batches."""
    found = {pipeline["name"]: pipeline for pipeline in _latest(bootstrap)}
    if name not in found:
        raise InputError(f"there is no pipeline {name!r}; there are: {', '.join(found) or 'none'}")
    pipeline = found[name]
    if json:
        out_json(pipeline)
        return
    recent = pipeline.pop("recent", [])
    for field, value in pipeline.items():
        out(f"{field}: {_readable(field, value)}")
    if recent:
        out_rows([_micro_batch(entry) for entry in recent])


@app.command()
def plan(name: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """The plan that Spark made for a pipeline's latest run: analysed, optimized and physical."""
    from mainstem.pipelines.control.run_log import RunLogs, plan_json
    from mainstem.pipelines.overview import Overview

    with connect(bootstrap) as log:
        Overview(log).require(name)
        found = RunLogs(log).plan(name)
    if json:
        out_json(plan_json(name, found))
    elif found is None:
        out(f"no plan yet; it is taken with the first micro-batch after the start of {name}'s App")
    else:
        out(found.text)


@app.command("log")
def show_log(name: Name, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """A pipeline's log, newest first: starts, failures with their errors, pauses, changes and rebuilds."""
    from mainstem.pipelines.control.run_log import RunLogs, log_json
    from mainstem.pipelines.overview import Overview

    with connect(bootstrap) as log:
        Overview(log).require(name)
        found = RunLogs(log).entries(name)
    if json:
        out_json(log_json(name, found))
        return
    if not found:
        out(f"no entries yet; they begin when the App of {name} starts")
    for entry in found:
        first, *more = entry.text.splitlines() or [""]
        out(f"{_time(entry.at_ms)} {entry.event}{f': {first}' if first else ''}")
        for line in more:
            out(f"    {line}")


@app.command()
def pause(
    name: Name,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    timeout_s: Timeout = _TIMEOUT_S,
    json: options.Json = False,
) -> None:
    """Pause a pipeline: it keeps its place and derives nothing until it is resumed, also when its App starts again."""
    _command(name, "pause", bootstrap, timeout_s, json)


@app.command()
def resume(
    name: Name,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    timeout_s: Timeout = _TIMEOUT_S,
    json: options.Json = False,
) -> None:
    """Let a paused pipeline go on from where it stopped."""
    _command(name, "resume", bootstrap, timeout_s, json)


@app.command()
def restart(
    name: Name,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    timeout_s: Timeout = _TIMEOUT_S,
    json: options.Json = False,
) -> None:
    """Stop a pipeline's query and start it from its checkpoint, without the pause after a failure."""
    _command(name, "restart", bootstrap, timeout_s, json)


def _command(name: str, action: str, bootstrap: str, timeout_s: float, json: bool) -> None:
    from mainstem.pipelines.control.commands import Action, ask, wait_until_done

    with connect(bootstrap) as log:
        status = wait_until_done(log, ask(log, name, Action(action)), timeout_s)
    if json:
        out_json({"pipeline": name, "action": action, "status": status})
    elif status is None:
        out(f"{name} does not run now; {action} holds when its App starts")
    else:
        out(f"{name} is {status}")


@app.command()
def drop(
    name: Name,
    app_name: Annotated[
        str | None, typer.Option("--app", metavar="APP", help="Its App; default: the App that it reported.")
    ] = None,
    data: options.Data = options.DEFAULT_DATA,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Drop a pipeline for good: its checkpoint, its open transactions, its records. What it derived stays."""
    from mainstem.extras import require

    require("spark")
    from mainstem.node.layout import Layout
    from mainstem.pipelines.definitions import require_name
    from mainstem.spark.changes.dropping import drop as drop_pipeline

    require_name("a pipeline", name)
    if app_name is not None:
        require_name("an App", app_name)
    state = {pipeline["name"]: pipeline for pipeline in _latest(bootstrap)}.get(name, {})
    app_name = app_name or state.get("app")
    checkpoints = Layout(data.absolute()).checkpoints(_known_app(name, app_name, state))
    if state and not (checkpoints / name).is_dir() and state["batch_id"] is not None and state["batch_id"] >= 0:
        raise InputError(
            f"the checkpoint of {name} is not {checkpoints / name}: name its data directory with --data, on the "
            "machine where it runs; without it what its sink left open cannot be ended"
        )
    if not yes:
        confirm(f"Drop pipeline {name}, with its checkpoint {checkpoints / name}?")
    with connect(bootstrap) as log:
        dropped = drop_pipeline(log, checkpoints, name)
    if json:
        out_json({"dropped": name, "transactions": dropped.transactions})
    else:
        out(f"dropped {name}; transactions that it had left open: {dropped.transactions}")


def _known_app(name: str, app_name: str | None, state: dict[str, Any]) -> str:
    if app_name:
        return app_name
    if state:
        raise InputError(f"pipeline {name} has not reported its App; add --app")
    raise InputError(f"there is no pipeline {name!r} in the log; if it has a checkpoint, say --app and --data")


def _latest(bootstrap: str) -> list[dict[str, Any]]:
    from mainstem.pipelines.overview import Overview

    with connect(bootstrap) as log:
        return Overview(log).latest()


def _summary(pipeline: dict[str, Any]) -> dict[str, Any]:
    """The most important fields, for people; ``--json`` prints all of them."""
    failure = pipeline.get("failure")
    since = "" if pipeline["status"] != "not seen" else f" since {_time(pipeline['seen_ms'])}"
    return {
        "name": pipeline["name"],
        "status": pipeline["status"] + since,
        "lag": pipeline["lag"],
        "rows/s": pipeline.get("input_rows_per_second"),
        "micro-batches": pipeline.get("micro_batches"),
        "read": pipeline.get("input_rows"),
        "written": pipeline.get("written_rows"),
        "last ms": pipeline.get("durations_ms", {}).get("triggerExecution"),
        "restarts": pipeline.get("restarts"),
        "last error": None if failure is None else f"{_time(failure['at_ms'])} {failure['text']}",
    }


def _micro_batch(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "micro-batch": entry["batch_id"],
        "at": _time(entry["at_ms"]),
        "read": entry["input_rows"],
        "lag": entry["lag"],
        **{f"{phase} ms": duration for phase, duration in entry["durations_ms"].items()},
    }


def _readable(field: str, value: Any) -> str:
    if value is None:
        return "-"
    if field.endswith("_ms") and isinstance(value, int):
        return _time(value)
    if field == "failure":
        again = "" if value["next_try_ms"] is None else f"; next try at {_time(value['next_try_ms'])}"
        return f"{_time(value['at_ms'])} {value['text']}{again}"
    if field == "nulled_values":
        numbers = [f"{topic} {name} {number}" for topic, columns in value.items() for name, number in columns.items()]
        return ", ".join(numbers) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items()) or "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(at_ms: int | None) -> str:
    return "ever" if at_ms is None else utc_time(at_ms)
