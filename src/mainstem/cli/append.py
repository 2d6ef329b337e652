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
    from mainstem.client.asks import Asks
    from mainstem.client.records import NewRecord
    from mainstem.model import Position


def append(  # noqa: PLR0913 - a command's options are its parameters
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The value's text; without it: the lines of standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key's text.")] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="No value: deletes the key.")] = False,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Repeatable.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0)] = None,
    expect_key_offset: Annotated[
        int | None,
        typer.Option("--expect-key-offset", min=-1, help="Only if this is the key's last offset; -1: it has none."),
    ] = None,
    expect_end: Annotated[
        int | None, typer.Option("--expect-end", min=0, help="Only if the partition ends at this offset.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Once, however often it is tried within the topic's window.")
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Append to a topic. Prints the position just after it, once it is durable."""
    from mainstem.client.records import NewRecord

    if tombstone and (value is not None or key is None):
        raise InputError("--tombstone needs --key, and takes no VALUE: a tombstone is a record without a value")
    headers = tuple(_header(text) for text in header or ())
    asks: Asks = {
        "expect_key_offset": expect_key_offset,
        "expect_end": expect_end,
        "idempotency_key": idempotency_key,
    }
    if any(ask is not None for ask in asks.values()):
        _append_asking(
            topic, NewRecord(value, key, headers, partition), asks, bootstrap, tombstone=tombstone, json=json
        )
        return
    values = [None] if tombstone else [value.encode()] if value is not None else _lines()
    with connect(bootstrap) as log:
        counted = _Counted(NewRecord(one, key, headers, partition) for one in values)
        position = log.append_many(topic, counted)
    _show(topic, counted.records, position, as_json=json)


def _append_asking(topic: str, record: NewRecord, asks: Asks, bootstrap: str, *, tombstone: bool, json: bool) -> None:
    """Append one record under conditions, or with an idempotency key."""
    if record.value is None and not tombstone:
        raise InputError("conditions and idempotency keys are for one record: give a VALUE, or --tombstone")
    with connect(bootstrap) as log:
        position = log.append(
            topic, record.value, key=record.key, headers=record.headers, partition=record.partition, **asks
        )
    _show(topic, 1, position, as_json=json)


def _show(topic: str, records: int, position: Position, *, as_json: bool) -> None:
    if as_json:
        out_json({"topic": topic, "records": records, "position": str(position)})
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
