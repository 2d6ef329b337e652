"""``mainstem read TOPIC``: records as lines, bounded or endless."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError
from mainstem.model import OnDamaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mainstem.client.read.key_reader import KeyReader
    from mainstem.client.read.reader import BoundedReader, Follower
    from mainstem.model import Record


def read(  # noqa: PLR0913 - a command's options are its parameters
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
    on_damaged: Annotated[
        OnDamaged, typer.Option("--on-damaged", help="At records that cannot be read: stop, or skip them.")
    ] = "stop",
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Read a topic. Prints partition:offset, key and value of each record; with --json one document a line."""
    from mainstem.encodings.encoded_records import encoded_records
    from mainstem.gateway.topics.reads import moment

    if follow and end != "latest":
        raise InputError("--follow has no end: leave out --to, or leave out --follow")
    with connect(bootstrap) as log:
        begin, encoded = moment(start, topic), encoded_records(log)
        wanted = None if key is None else key.encode()
        stored = encoded.encoded_key(topic, key)
        records: Follower | BoundedReader
        if follow:
            records = log.follow(topic, start=begin, on_damaged=on_damaged)
        elif key is None:
            records = log.read(topic, start=begin, end=moment(end, topic), limit=limit, on_damaged=on_damaged)
        else:
            records = _of_key(log.read_key(topic, stored, start=begin, end=moment(end, topic), on_damaged=on_damaged))
        shown = 0
        for record in _naming_damage(records):
            readable = encoded.shown(record)
            if wanted is not None and readable.key != wanted:
                continue
            _show(readable, as_json=json)
            shown += 1
            if limit is not None and shown >= limit:
                return


def _of_key(reader: KeyReader) -> KeyReader:
    if reader.scan_reason is not None:
        note(f"scanning the key's partition: {reader.scan_reason}")
    return reader


def _naming_damage(reader: Follower | BoundedReader) -> Iterator[Record]:
    """The records, with a note about each range that was skipped before them."""
    named = 0
    for record in chain(reader, [None]):
        for damage in reader.damaged[named:]:
            note(f"skipped {damage.offsets}: {damage.reason}")
            named += 1
        if record is not None:
            yield record


def _show(record: Record, *, as_json: bool) -> None:
    from mainstem.gateway.topics.record_json import record_json

    if as_json:
        out_json(record_json(record))
        return
    out(f"{record.partition}:{record.offset}\t{_text(record.key)}\t{_text(record.value)}")


def _text(data: bytes | None) -> str:
    """Text on one line; bytes that are not UTF-8 are escaped."""
    return "(null)" if data is None else data.decode(errors="backslashreplace").replace("\n", "\\n")
