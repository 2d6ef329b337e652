"""``mainstem connect``: capture the tables of a database as topics; how the captures are; end one for good."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, note, out, out_json, out_rows
from mainstem.errors import InputError

app = typer.Typer(
    help="Capture the tables of a PostgreSQL database as topics.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
_PLAIN = re.compile(r"[^a-z0-9_-]+")

Dsn = Annotated[
    str,
    typer.Argument(
        metavar="DSN",
        help="The database: host=… dbname=… user=…, or postgresql://…; the password in PGPASSWORD or a password file.",
    ),
]
Capture = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The capture's name; default: the database's.")
]


@app.command()
def postgres(
    dsn: Dsn,
    tables: Annotated[
        str, typer.Option("--tables", metavar="TABLE,…", help="Which tables: public.orders,public.customers.")
    ],
    name: Capture = None,
    envelope: Annotated[
        str, typer.Option("--envelope", metavar="FORM", help="row: the row after each change; or debezium.")
    ] = "row",
    partitions: Annotated[int, typer.Option("--partitions", help="Of each topic that is created.")] = 1,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="FORM", help="avro, json-schema or protobuf; default: plain JSON."),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="again", help="again: replace the slot, and read all tables again."),
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
) -> None:
    """Each table becomes a topic: first its rows, then every change, exactly once, until ctrl-C."""
    from mainstem.extras import require

    require("postgres")
    if encoding is not None:
        require("registry")
    from mainstem.client.log import Log
    from mainstem.pipelines.definitions import CaptureSettings
    from mainstem.postgres.connector import Connector
    from mainstem.postgres.process import run_until_signal

    if snapshot not in (None, "again"):
        raise InputError(f"--snapshot is again, or left out, not {snapshot!r}")
    settings = CaptureSettings.of(
        name or _name_of(dsn), dsn, _named(tables), envelope=envelope, partitions=partitions, encoding=encoding
    )
    with Log(bootstrap, client_id="mainstem-postgres") as log:
        connector = Connector(settings, log, note, again=snapshot == "again")
        topics = ", ".join(settings.topic_of(table) for table in settings.tables)
        run_until_signal(connector, lambda: out(f"ready: postgres {settings.name}, topics {topics}"))


@app.command()
def status(bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """Every capture: how it is, how far behind the database, and how far its snapshots are."""
    from mainstem.pipelines.overview import Overview

    with connect(bootstrap) as log:
        found = [pipeline for pipeline in Overview(log).latest() if pipeline.get("database")]
    if json:
        out_json({"captures": found})
    elif found:
        out_rows([_summary(capture) for capture in found])
    else:
        out("no database is captured; start with: mainstem connect postgres DSN --tables public.orders")


@app.command()
def snapshot(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The capture's name.")],
    dsn: Dsn,
    tables: Annotated[
        str, typer.Option("--tables", metavar="TABLE,…", help="Which tables; default: all of the capture.")
    ] = "",
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Let a running capture read tables again, beside the changes. Keys that a table does not have get tombstones."""
    from mainstem.extras import require

    require("postgres")
    from mainstem.postgres.requests import request_snapshots

    with connect(bootstrap) as log:
        asked = request_snapshots(log, name, dsn, _named(tables))
    if json:
        out_json({"capture": name, "tables": list(asked)})
    else:
        out(f"asked capture {name} to read {', '.join(asked)} again; see how far it is: mainstem connect status")


@app.command()
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The capture's name.")],
    dsn: Dsn,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """End a capture for good: its slot and its publication in the database, its progress in the log. Topics stay."""
    from mainstem.extras import require

    require("postgres")
    from mainstem.pipelines.definitions import CaptureSettings
    from mainstem.postgres.requests import drop_capture

    settings = CaptureSettings.of(name, dsn, ["public.any"])
    if not yes:
        confirm(f"Drop capture {name}, with the slot {settings.slot} of the database?")
    with connect(bootstrap) as log:
        had_slot = drop_capture(settings, log)
    if json:
        out_json({"dropped": name, "slot": settings.slot if had_slot else None})
    else:
        out(f"dropped {name}" + (f" and its slot {settings.slot}" if had_slot else "; the database had no slot of it"))


def _named(tables: str) -> list[str]:
    return [table.strip() for table in tables.split(",") if table.strip()]


def _name_of(dsn: str) -> str:
    """The capture's name where none is given: the database's."""
    from mainstem.postgres_dsn import PostgresDsn

    return _PLAIN.sub("-", PostgresDsn(dsn).database.lower()).strip("-") or "postgres"


def _summary(capture: dict[str, Any]) -> dict[str, Any]:
    database, failure = capture["database"], capture.get("failure")
    tables = database["tables"]
    done = sum(table["snapshot_done"] for table in tables.values())
    return {
        "name": capture["name"],
        "status": capture["status"],
        "lsn": database["lsn"],
        "behind": _size(database.get("lag_bytes")),
        "kept by slot": _size(database.get("kept_bytes")),
        "snapshots": f"{done} of {len(tables)}",
        "records": capture.get("written_rows", 0),
        "failure": failure["text"][:200] if failure else "",
    }


def _size(size: int | None) -> str:
    if size is None:
        return "?"
    return f"{size / (1 << 20):,.1f} MiB" if size >= 1 << 20 else f"{size / 1024:,.1f} KiB"
