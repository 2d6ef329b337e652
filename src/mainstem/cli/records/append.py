"""``mainstem append TOPIC [VALUE]``: one record, or one for each line of standard input."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, cast

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError, SchemaError

if TYPE_CHECKING:
    from io import BufferedReader

    from mainstem.client.append.append_options import AppendOptions
    from mainstem.client.log import Log
    from mainstem.client.records import NewRecord
    from mainstem.encodings.encoded_records import StoredValues
    from mainstem.model import Headers, Position

    _AsStored = Callable[[Sequence[bytes | None]], StoredValues]
    _Stored = tuple[bytes | None, Headers]

_BLOCK_BYTES: Final = 1 << 20


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
    from mainstem.encodings.encoded_records import encoded_records

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
    has_lines = value is None and not tombstone
    blocks = _lines() if has_lines else [[None if value is None else value.encode()]]
    with connect(bootstrap) as log:
        stored_as = _as_stored(log, topic, validate=validate)
        values = _ready(stored_as, blocks, headers, has_lines=has_lines)
        stored = encoded_records(log).encoded_key(topic, key)
        counted = _Counted(NewRecord(one, stored, added, partition) for one, added in values)
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
    from mainstem.encodings.encoded_records import encoded_records

    if record.value is None and not wanted.tombstone:
        raise InputError("conditions and idempotency keys are for one record: give a VALUE, or --tombstone")
    with connect(bootstrap) as log:
        encoded = _as_stored(log, topic, validate=wanted.validate)([record.value])
        [value] = encoded.values
        key = encoded_records(log).encoded_key(topic, record.key)
        headers = encoded.headers_of(value, record.headers)
        position = log.append(topic, value, key=key, headers=headers, partition=record.partition, **options)
    _show(topic, 1, position, as_json=wanted.json)


def _ready(
    as_stored: _AsStored, blocks: Iterable[Sequence[bytes | None]], headers: Headers, *, has_lines: bool
) -> Iterator[_Stored]:
    """The values as the topic has them, with their records' headers: of an encoded topic, JSON in its encoding.

    Lines are sent as they come, so those before a wrong one may be appended. Raises SchemaError with the line's number.
    """
    lines_before = 0
    for block in blocks:
        try:
            stored = _with_headers(as_stored(block), headers)
        except SchemaError:
            if not has_lines:
                raise
            yield from _line_by_line(as_stored, block, headers, lines_before)
        else:
            yield from stored
        lines_before += len(block)


def _with_headers(encoded: StoredValues, own: Headers) -> list[_Stored]:
    return [(value, encoded.headers_of(value, own)) for value in encoded.values]


def _as_stored(log: Log, topic: str, *, validate: bool) -> _AsStored:
    from mainstem.encodings.encoded_records import encoded_records

    records = encoded_records(log)
    if not validate:
        return functools.partial(records.encoded, topic)
    from mainstem.schema.validation import Validator  # loads Arrow and the native kernels

    validator = Validator(log)

    def checked(values: Sequence[bytes | None]) -> StoredValues:
        for value in values:
            validator.require(topic, value)
        return records.encoded(topic, values)

    return checked


def _line_by_line(
    as_stored: _AsStored, lines: Sequence[bytes | None], headers: Headers, lines_before: int
) -> Iterator[_Stored]:
    """The lines before the wrong one; then SchemaError with its number."""
    for number, line in enumerate(lines, lines_before + 1):
        try:
            yield from _with_headers(as_stored([line]), headers)
        except SchemaError as error:
            before = "; the lines before it may have been appended" if number > 1 else ""
            raise SchemaError(f"line {number}: {error}{before}") from error


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


def _lines() -> Iterator[list[bytes]]:
    """The lines of standard input, those together that have come together."""
    source, rest = cast("BufferedReader", sys.stdin.buffer), b""
    while block := source.read1(_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield [line.rstrip(b"\r") for line in lines]
    if rest:
        yield [rest.rstrip(b"\r")]


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
