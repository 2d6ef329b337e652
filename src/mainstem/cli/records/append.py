"""``mainstem append TOPIC [VALUE]``: one record, or one for each line of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError, SchemaError

if TYPE_CHECKING:
    from mainstem.client.append.append_options import AppendOptions
    from mainstem.client.log import Log
    from mainstem.client.records import NewRecord
    from mainstem.model import Position

_Value = TypeVar("_Value", bound=Any)


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
    validate: Annotated[
        bool, typer.Option("--validate", help="Refuse what does not fit the topic's registered schema.")
    ] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Append to a topic. Prints the position just after it, once it is durable."""
    from mainstem.client.records import NewRecord

    if tombstone and (value is not None or key is None):
        raise InputError("--tombstone needs --key, and takes no VALUE: a tombstone is a record without a value")
    headers = tuple(_header(text) for text in header or ())
    append_options: AppendOptions = {
        "expect_key_offset": expect_key_offset,
        "expect_end": expect_end,
        "idempotency_key": idempotency_key,
    }
    if any(option is not None for option in append_options.values()):
        _append_with_options(
            topic,
            NewRecord(value, key, headers, partition),
            append_options,
            bootstrap,
            _Wanted(tombstone, validate, json),
        )
        return
    values: Iterable[bytes | None] = [None] if tombstone else [value.encode()] if value is not None else _lines()
    with connect(bootstrap) as log:
        if validate:
            values = _fitting(log, topic, values, has_lines=value is None and not tombstone)
        values = _encoded(log, topic, values)
        counted = _Counted(NewRecord(one, key, headers, partition) for one in values)
        position = log.append_many(topic, counted)
    _show(topic, counted.records, position, as_json=json)


class _Wanted(NamedTuple):
    """The switches of an append."""

    tombstone: bool
    validate: bool
    json: bool


def _append_with_options(
    topic: str, record: NewRecord, options: AppendOptions, bootstrap: str, wanted: _Wanted
) -> None:
    """Append one record under conditions, or with an idempotency key."""
    if record.value is None and not wanted.tombstone:
        raise InputError("conditions and idempotency keys are for one record: give a VALUE, or --tombstone")
    from mainstem.encodings.encoded_records import encoded_records

    with connect(bootstrap) as log:
        if wanted.validate:
            list(_fitting(log, topic, [record.value], has_lines=False))
        [value] = encoded_records(log).encoded(topic, [record.value])
        position = log.append(
            topic, value, key=record.key, headers=record.headers, partition=record.partition, **options
        )
    _show(topic, 1, position, as_json=wanted.json)


def _encoded(log: Log, topic: str, values: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """The values as the topic has them: of an encoded one, JSON objects by its schema. Each is sent as it comes."""
    from mainstem.encodings.encoded_records import encoded_records

    for value in values:
        yield from encoded_records(log).encoded(topic, [value])


def _show(topic: str, records: int, position: Position, *, as_json: bool) -> None:
    if not records:
        note("standard input had no lines: nothing was appended")
    if as_json:
        out_json({"topic": topic, "records": records, "position": str(position)})
    elif records:
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


def _fitting(log: Log, topic: str, values: Iterable[_Value], *, has_lines: bool) -> Iterator[_Value]:
    """The values, each after it has been found to fit the topic's schema. Raises SchemaError, with the line's number.

    Lines are sent as they come, so those before a wrong one may be appended.
    """
    from mainstem.schema.validation import Validator  # loads Arrow and the native kernels

    validator = Validator(log)
    for number, value in enumerate(values, 1):
        try:
            validator.require(topic, value)
        except SchemaError as error:
            if not has_lines:
                raise
            before = "; the lines before it may have been appended" if number > 1 else ""
            raise SchemaError(f"line {number}: {error}{before}") from error
        yield value


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
