"""``mainstem append TOPIC [VALUE]``: one record, or one for each line of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import out, out_json
from mainstem.errors import InputError

if TYPE_CHECKING:
    from mainstem.client.records import NewRecord


def append(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The value's text; without it: the lines of standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key's text.")] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="No value: deletes the key.")] = False,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Repeatable.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0)] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Append to a topic. Prints the position just after it, once it is durable."""
    from mainstem.client.records import NewRecord

    if tombstone and (value is not None or key is None):
        raise InputError("a tombstone needs --key and has no VALUE")
    headers = tuple(_header(text) for text in header or ())
    values = [None] if tombstone else [value.encode()] if value is not None else _lines()
    with connect(bootstrap) as log:
        counted = _Counted(NewRecord(one, key, headers, partition) for one in values)
        position = log.append_many(topic, counted)
    if json:
        out_json({"topic": topic, "records": counted.records, "position": str(position)})
    else:
        out(str(position))


class _Counted:
    """Records on their way, counted."""

    def __init__(self, records: Iterable[NewRecord]) -> None:
        self._records = records
        self.records = 0

    def __iter__(self) -> Iterator[NewRecord]:
        for record in self._records:
            self.records += 1
            yield record


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
