"""``mainstem restore URL --to DIR``: a data directory as the log was at a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.copies.backup import Where
from mainstem.cli.output import note, out, out_json


def restore(
    store_url: Where,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The new data directory: missing, or empty.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME|POSITION",
            help="The newest point that is not past it: 2026-01-31T12:00:00Z, or orders/0:17. Default: the newest.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Restore a log from its backup into a new directory, as it was at a moment; and say what is missing."""
    from mainstem.backup.moments import time_text
    from mainstem.backup.restore import require_empty
    from mainstem.backup.restore import restore as restore_into
    from mainstem.object_stores.opening import open_store

    require_empty(to.absolute())
    done = restore_into(open_store(store_url), to, at, note)
    if json:
        out_json(
            {
                "point": done.number,
                "time": time_text(done.time_ms),
                "position": str(done.ends),
                "newest_time": time_text(done.newest_time_ms),
                "newest_position": str(done.newest),
                "partitions": done.partitions,
                "size_bytes": done.size_bytes,
            }
        )
        return
    out(f"{to}: {done.partitions:,} partitions, {done.size_bytes:,} bytes, as of {time_text(done.time_ms)}")
    out(f"position: {done.ends}")
    if done.newest_time_ms != done.time_ms or done.newest != done.ends:
        out(f"left out, and in the backup: what came later, up to {time_text(done.newest_time_ms)}, {done.newest}")
    out(f"missing: what the log stored after {time_text(done.newest_time_ms)}, from these offsets on: {done.newest}")
    out("view stores, lakes and the key index are derived, and not in a backup: they are rebuilt from the log")
