"""``mainstem views``: list, query (range, neighbors, path, metrics), verify, rebuild. A client of the HTTP gateway."""

from __future__ import annotations

import enum
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json, out_rows
from mainstem.errors import QueryError
from mainstem.exit_codes import DONE, NO
from mainstem.pipelines.kinds import SINK_NAMES

if TYPE_CHECKING:
    from mainstem.client.http.views import Answer, Fresh, ViewClient

app = typer.Typer(help="List, query, verify and rebuild views.", no_args_is_help=True, rich_markup_mode=None)


class Direction(enum.StrEnum):
    """Which way edges are followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class RebuildSource(enum.StrEnum):
    """The source of a rebuild's records."""

    LOG = "log"
    LEFT = "left"
    LAKE = "lake"
    SNAPSHOT = "snapshot"


Name = Annotated[str, typer.Argument(metavar="VIEW")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")]
After = Annotated[str | None, typer.Option("--after", metavar="KEY", help="Read on after this key.")]
Way = Annotated[Direction, typer.Option("--direction", help="Which way edges are followed.")]


@app.command("list")
def list_views(url: options.Url = options.DEFAULT_URL, json: options.Json = False) -> None:
    """Every view: its kind, topic, rows and position."""
    from mainstem.client.http.views import views

    rows = views(url).status()
    if json:
        out_json({"views": rows})
    elif rows:
        out_rows([_summary(row) for row in rows])
    else:
        out("no views are served; declare some in an App and start it with: mainstem run APP.py")


def _summary(status: dict[str, Any]) -> dict[str, Any]:
    """The most important fields, for people; ``--json`` prints all of them."""
    verified = status["verified"]
    words = {None: "never", True: "equal", False: "differs"}
    return {
        "name": status["name"],
        "kind": status["kind"],
        "topic": status["topic"],
        "state": status["detail"] or status["state"],
        "lag": status["lag"],
        "dead letters": status["dead_letters"],
        "damaged": status.get("damaged_offsets", 0),
        "verified": words[verified["equal"] if verified else None],
    }


@app.command()
def query(  # noqa: PLR0913 - a command's options are its parameters
    view: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A key, a SELECT, words, or a node.")],
    limit: Limit = 1_000,
    at_least: options.AtLeast = None,
    max_lag_ms: options.MaxLag = None,
    as_of: options.AsOf = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """Ask a view by its kind: a key-value view for a key, a SQL view, a search, a node's neighbors."""
    client = _view(url, view)
    kind = client.status()["kind"]
    fresh = _fresh(at_least, max_lag_ms, timeout, as_of)
    if kind == "key-value" or kind in SINK_NAMES:
        answer = client.get(text, **fresh)
    elif kind == "sql":
        answer = client.sql(text, limit=limit, **fresh)
    elif kind == "search":
        answer = client.search(text, limit=limit, **fresh)
    elif kind == "graph":
        answer = client.neighbors(text, direction="both", limit=limit, **fresh)
    elif kind == "lake":
        answer = client.sql(text, limit=limit, **fresh)
    else:
        raise QueryError(f"{view} is a {kind} view: ask it with: mainstem views {kind} {view}")
    _show(answer, as_json=json)


@app.command()
def metrics(
    view: Name,
    over: Annotated[list[str] | None, typer.Option("--over", help="A label to group by; repeatable.")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", help="Only NAME=TEXT; repeatable.")] = None,
    quantile: Annotated[list[float] | None, typer.Option("--quantile", help="0.5 is the median; repeatable.")] = None,
    at_least: options.AtLeast = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """The figures of a metrics view, by label; --json also has the records a minute."""
    labels = dict(_label(text) for text in label or [])
    fresh = _fresh(at_least, None, timeout)
    answer = _view(url, view).metrics(over=over, labels=labels, quantiles=quantile or (), series=json, **fresh)
    _show(answer if json else _flat(answer), as_json=json)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise QueryError(f"--label {text}: it is NAME=TEXT")
    return name, value


def _flat(answer: Answer) -> Answer:
    """Figures as a table: labels, records, and columns for each value."""
    rows = []
    for row in answer.rows:
        flat = {**row["labels"], "records": row["records"]}
        for value, figures in row["values"].items():
            quantiles = {f"p{100 * float(name):g}": number for name, number in figures.get("quantiles", {}).items()}
            shown = {name: figures[name] for name in ("mean", "min", "max")} | quantiles
            flat |= {f"{value} {name}": number for name, number in shown.items()}
        rows.append(flat)
    return replace(answer, rows=rows)


@app.command("range")
def ask_range(  # noqa: PLR0913 - a command's options are its parameters
    view: Name,
    prefix: Annotated[str, typer.Option("--prefix", help="Only keys that start so.")] = "",
    limit: Limit = 1_000,
    after: After = None,
    at_least: options.AtLeast = None,
    max_lag_ms: options.MaxLag = None,
    as_of: options.AsOf = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """The rows of a key-value view, in the order of their keys."""
    fresh = _fresh(at_least, max_lag_ms, timeout, as_of)
    answer = _view(url, view).range(prefix=prefix, limit=limit, after=after, **fresh)
    if json:
        out_json({**_document(answer), "next": answer.next})
        return
    _show(answer, as_json=False)
    if answer.next is not None:
        out(f"more rows follow: --after {shlex.quote(answer.next)}")


@app.command()
def neighbors(  # noqa: PLR0913 - a command's options are its parameters
    view: Name,
    node: Annotated[str, typer.Argument(metavar="NODE")],
    hops: Annotated[int, typer.Option("--hops", min=1, help="How far.")] = 1,
    direction: Way = Direction.OUT,
    at_least: options.AtLeast = None,
    max_lag_ms: options.MaxLag = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """The nodes around one in a graph view."""
    fresh = _fresh(at_least, max_lag_ms, timeout)
    _show(_view(url, view).neighbors(node, hops=hops, direction=direction.value, **fresh), as_json=json)


@app.command()
def path(  # noqa: PLR0913 - a command's options are its parameters
    view: Name,
    start: Annotated[str, typer.Argument(metavar="FROM")],
    end: Annotated[str, typer.Argument(metavar="TO")],
    direction: Way = Direction.OUT,
    at_least: options.AtLeast = None,
    max_lag_ms: options.MaxLag = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """A shortest path in a graph view."""
    fresh = _fresh(at_least, max_lag_ms, timeout)
    _show(_view(url, view).path(start, end, direction=direction.value, **fresh), as_json=json)


@app.command()
def diff(
    view: Name,
    start: Annotated[str, typer.Option("--from", metavar="MOMENT", help="A past position or time (ISO 8601, or ms).")],
    end: Annotated[str | None, typer.Option("--to", metavar="MOMENT", help="The same; default: now.")] = None,
    limit: Limit = 1_000,
    after: After = None,
    timeout: options.Timeout = 30.0,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """The rows of a key-value or SQL view that changed between two moments."""
    found = _view(url, view).diff(start, end, limit=limit, after=after, timeout=timeout)
    rows = [{"key": change.key, "before": change.before, "after": change.after} for change in found]
    if json:
        out_json({"rows": rows, "from": str(found.start), "to": str(found.end), "next": found.next})
        return
    if rows:
        out_rows(rows)
    out(f"{len(rows)} row{'s' if len(rows) != 1 else ''} differ from {found.start} to {found.end}")
    if found.next is not None:
        out(f"there may be more: --from {found.start} --to {found.end} --after {shlex.quote(found.next)}")


@app.command()
def verify(
    view: Name,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without a replay, where the store's own account of its writes suffices.")
    ] = False,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> int:
    """Compare a view with a replay of its topic. Exit code 5 when they differ."""
    result = _view(url, view).verify(full=not quick)
    if json:
        out_json(result)
    elif result["method"] == "account":
        out(f"equal: {view} is what its host has written, by the store's own account; a replay: leave out --quick")
    elif result["equal"]:
        out(f"equal: {view} and a replay of {result['records']:,} records")
    else:
        out(f"different: {view} is not what a replay of {result['records']:,} records gives")
        out_rows(result["differences"])
        out(f"to rebuild it from the log: mainstem views rebuild {view}")
    if result.get("checkpoints") and not json:
        out(f"its topic is verifiable: --json has the signed checkpoints that cover {result['position']}")
    return DONE if result["equal"] else NO


@app.command()
def rebuild(
    view: Name,
    source: Annotated[
        RebuildSource, typer.Option("--from", help="The whole log, what is left of it, a Lake view, or a snapshot.")
    ] = RebuildSource.LOG,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> None:
    """Rebuild a view from the log; the old version answers queries until the new one is ready."""
    result = _view(url, view).rebuild(source=source.value)
    if json:
        out_json(result)
    else:
        built_from = result["built_from"]
        out(
            f"rebuilt {view}"
            + (f" from what is left: {built_from['beginning']}" if source == RebuildSource.LEFT else "")
        )


def _view(url: str, name: str) -> ViewClient:
    from mainstem.client.http.views import views

    return views(url)[name]


def _fresh(at_least: str | None, max_lag_ms: int | None, timeout: float, as_of: str | None = None) -> Fresh:
    """How fresh an answer has to be, or from when."""
    from mainstem.model import Position

    position = None if at_least is None else Position.parse(at_least)
    return {"at_least": position, "max_lag_ms": max_lag_ms, "as_of": as_of, "timeout": timeout}


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        out_json(_document(answer))
        return
    if answer.rows:
        out_rows(answer.rows)
    out(f"{len(answer.rows)} row{'s' if len(answer.rows) != 1 else ''} at position {answer.position}")


def _document(answer: Answer) -> dict[str, Any]:
    return {"rows": answer.rows, "position": str(answer.position), "covers": str(answer.covers)}
