"""``mainstem backup URL``: a continuous copy of a log's data directory elsewhere; verify it, and list its points."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mainstem.cli import options
from mainstem.cli.output import note, out, out_json
from mainstem.exit_codes import DONE, NO

_DEFAULT = "to"
Where = Annotated[str, typer.Argument(metavar="URL", help="s3://BUCKET/PATH, gs://…, az://… or file:///PATH.")]


class BackupGroup(TyperGroup):
    """``backup URL`` is ``backup to URL``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not any(word in self.commands or word in ("-h", "--help") for word in args):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=BackupGroup,
    help="Back up a log into an object store or a directory: mainstem backup URL.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@app.command(_DEFAULT)
def to(
    store_url: Where,
    data: options.Data = options.DEFAULT_DATA,
    every: options.BackupEvery = options.DEFAULT_BACKUP_EVERY,
    keep: options.BackupKeep = options.DEFAULT_BACKUP_KEEP,
    once: Annotated[bool, typer.Option("--once", help="One point, then end.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Go on where another copy of this directory, which is gone, wrote.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Back up the log in --data, running or stopped, until ctrl-C. `mainstem backup URL` is the short form.

    With --once exit code 5 when a partition had to be left out.
    """
    from mainstem.backup.continuous import Backup, BackupOptions
    from mainstem.backup.moments import parse_duration
    from mainstem.backup.process import run
    from mainstem.backup.status import BackupStatus
    from mainstem.clock import SystemClock
    from mainstem.object_stores.opening import open_store

    chosen = BackupOptions(parse_duration(every), parse_duration(keep), take_over)
    if not once:

        def ready() -> None:
            if json:
                out_json({"ready": {"backup": store_url}})
            else:
                out(f"ready: backup {store_url}")

        run(data, store_url, chosen, say=note, on_ready=ready)
        return DONE
    status = BackupStatus(None, SystemClock())
    with Backup(data, open_store(store_url), chosen, status, note) as backup:
        point = backup.round()
    if json:
        out_json({"point": point, "url": store_url, "left_out": status.left_out})
    else:
        out(f"point {point} is in {store_url}")
    return NO if status.left_out else DONE


@app.command()
def verify(store_url: Where, json: options.Json = False) -> int:
    """Prove every object by its checksums, and every record batch by its own. Exit code 5 on damage."""
    from mainstem.backup.moments import time_text
    from mainstem.backup.verification import verify_backup
    from mainstem.object_stores.opening import open_store

    report = verify_backup(open_store(store_url), note)
    counts = {name: getattr(report, name) for name in ("points", "files", "pieces", "batches", "records", "size_bytes")}
    if json:
        times = {"first_ms": report.first_ms, "last_ms": report.last_ms}
        out_json({"ok": not report.damages, **counts, **times, "damages": report.damages})
        return NO if report.damages else DONE
    for damage in report.damages:
        out(damage)
    out(", ".join(f"{count:,} {name.replace('size_', '')}" for name, count in counts.items()))
    if report.points:
        out(f"from {time_text(report.first_ms)} to {time_text(report.last_ms)}")
    out(f"{len(report.damages)} damages" if report.damages else "no damage")
    return NO if report.damages else DONE


@app.command()
def points(
    store_url: Where,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The newest N.")] = 20,
    json: options.Json = False,
) -> None:
    """The newest points in time that can be restored, oldest first: number, time and position."""
    from mainstem.backup.manifest import ManifestReader
    from mainstem.backup.moments import ends_of, newest_points, time_text
    from mainstem.object_stores.opening import open_store

    for state in newest_points(ManifestReader(open_store(store_url)), limit):
        position = str(ends_of(state))
        if json:
            out_json({"point": state.number, "time": time_text(state.time_ms), "position": position})
        else:
            out(f"{state.number}  {time_text(state.time_ms)}  {position}")
