"""``mainstem read TOPIC``: records as lines, bounded or endless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mainstem.client.log import Log
    from mainstem.client.start import Moment
    from mainstem.model import Record


def read(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: Annotated[
        str,
        typer.Option("--from", metavar="PLACE", help="earliest, latest, an offset, a position, or a time (ISO 8601)."),
    ] = "earliest",
    end: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="Where to stop; the log's end as it is now.")
    ] = "latest",
    key: Annotated[str | None, typer.Option("--key", help="Only records of this key.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many records.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new records until ctrl-C.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Read a topic. Prints partition:offset, key and value of each record; with --json one document a line."""
    from mainstem.gateway.reads import moment

    with connect(bootstrap) as log:
        begin = moment(start, topic)
        wanted = None if key is None else key.encode()
        records = (
            log.follow(topic, start=begin) if follow else _bounded(log, topic, begin, moment(end, topic), key, limit)
        )
        shown = 0
        for record in records:
            if wanted is not None and record.key != wanted:
                continue
            _show(record, as_json=json)
            shown += 1
            if limit is not None and shown >= limit:
                return


def _bounded(log: Log, topic: str, start: Moment, end: Moment, key: str | None, limit: int | None) -> Iterator[Record]:
    if key is None:
        return log.read(topic, start=start, end=end, limit=limit)
    reader = log.read_key(topic, key, start=start, end=end, limit=limit)
    if reader.scan_reason is not None:
        note(f"scanning the key's partition: {reader.scan_reason}")
    return reader


def _show(record: Record, *, as_json: bool) -> None:
    from mainstem.gateway.record_json import record_json

    if as_json:
        out_json(record_json(record))
        return
    out(f"{record.partition}:{record.offset}\t{_text(record.key)}\t{_text(record.value)}")


def _text(data: bytes | None) -> str:
    """Text on one line; what is no text is escaped."""
    return "(null)" if data is None else data.decode(errors="backslashreplace").replace("\n", "\\n")
