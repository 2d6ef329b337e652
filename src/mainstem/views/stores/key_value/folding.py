"""The changes that a batch of records makes in a key-value view: each key's new JSON text, or its deletion.

``Latest`` takes the last value of each key. ``Folding`` calls the user's function for each record, in the log's order:

1. The states of the batch's keys are read from the store at once.
2. A tombstone deletes the state; the next record of the key begins with the initial one. For any other record the
   function is called with the state, parsed from its JSON each time, so that it may change it in place.
3. The returned state is written as JSON. None deletes the key. The record is poison, and the state stays as it was, if
   the returned state is not JSON, would be read back as something else (keys that are not text, tuples), is nested too
   deep or is too large, or if the function raises any exception, also that of ``sys.exit``.
4. At the end of the batch each key is written once.

So the effect of a record depends only on the earlier records of its key, never on how they were cut into batches. The
keys of an object are sorted in the text: a replay gives the same text, in whatever order the function made them.

For one thread at a time, the applier.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.json_depth import DEPTH_MAX, is_too_deep
from mainstem.pipelines.folds import Fold, FoldRecord, place_of
from mainstem.views.stores.json_reader import JsonReader
from mainstem.views.stores.rows import value_of
from mainstem.views.stores.store import Poison, ReadRecords

STATE_BYTES_MAX = 1 << 20
_ERROR_CHARS_MAX = 300
_KEPT = ("partition", "offset", "timestamp", "headers")
_UNCHANGING = (str, int, bool)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode

Stored: TypeAlias = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""The texts that the store has for some keys."""


KeysWithTexts: TypeAlias = Sequence[tuple[bytes, bytes | None]]
"""Keys with their new texts, None where they are deleted, sorted by key; each key once."""


class FoldedChanges(NamedTuple):
    """The changes, and the records that cannot be applied."""

    texts: KeysWithTexts
    poisons: list[Poison]


class ChangeReader(Protocol):
    """Computes changes from records."""

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """The records of a batch, read by themselves alone."""

    def changes(self, read: ReadRecords, stored: Stored) -> FoldedChanges:
        """The changes that they make."""


class Latest:
    """The last value of each key."""

    def __init__(self) -> None:
        self._reader = JsonReader((), text=True)

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """The last record of each key, sorted by key: RocksDB takes them in half the time."""
        read = self._reader.read(arrow_batch)
        table = read.table.take(pc.sort_indices(read.table.column("key"))).combine_chunks()  # the sort is stable
        keys = table.column("key")
        is_replaced = pc.equal(keys[:-1], keys[1:])
        if pc.any(is_replaced).as_py():
            is_last = pa.chunked_array([*pc.invert(is_replaced).chunks, pa.array([True])])
            table = table.filter(is_last)
        return ReadRecords(table, read.poisons)

    def changes(self, read: ReadRecords, stored: Stored) -> FoldedChanges:
        """The changes that they make."""
        del stored
        keys, texts = (read.table.column(name).cast(pa.binary()).to_pylist() for name in ("key", "text"))
        return FoldedChanges(list(zip(keys, texts, strict=True)), read.poisons)


class _RefusedStateError(Exception):
    """A fold returned what cannot be kept."""


class Folding:
    """The result of calling ``fold`` with each key's records."""

    def __init__(self, fold: Fold, initial: Any) -> None:
        self._fold = fold
        self._place = place_of(fold)
        self._file = getattr(getattr(fold, "__code__", None), "co_filename", None)
        self._initial = _encode(initial)
        self._reader = JsonReader((), text=True, keep=("value", *_KEPT))

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """The records of a batch, read by themselves alone."""
        return self._reader.read(arrow_batch)

    def changes(self, read: ReadRecords, stored: Stored) -> FoldedChanges:
        """The changes that they make, one after the other."""
        poisons = list(read.poisons)
        table = read.table
        names = table.column("key").to_pylist()
        keys = list(dict.fromkeys(names))
        texts: dict[str, str | None] = {
            key: None if text is None else text.decode()
            for key, text in zip(keys, stored([key.encode() for key in keys]), strict=True)
        }
        values = table.column("text").to_pylist()
        for index, (record, value) in enumerate(zip(_records(table), values, strict=True)):
            if value is None:
                texts[record.key] = None
                continue
            try:
                texts[record.key] = self._state_after(texts[record.key], record._replace(value=value_of(value)))
            except MemoryError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's function raises
                poisons.append(self._poison(error, record, table.column("value")[index].as_py()))
        poisons.sort(key=lambda poison: (poison.partition, poison.offset))
        changed = ((key.encode(), None if text is None else text.encode()) for key, text in texts.items())
        return FoldedChanges(sorted(changed), poisons)

    def _state_after(self, text: str | None, record: FoldRecord) -> str | None:
        """The text of the state after a record. Raises what the function raises, and _RefusedStateError."""
        state = self._fold(json.loads(self._initial if text is None else text), record)
        return None if state is None else _text_of(state)

    def _poison(self, error: BaseException, record: FoldRecord, value: bytes) -> Poison:
        reason = str(error) if isinstance(error, _RefusedStateError) else f"{type(error).__name__}: {error}"
        text = f"the fold {self._place}{self._line(error)}: {reason}"[:_ERROR_CHARS_MAX]
        return Poison(record.partition, record.offset, record.key.encode(), value, text)

    def _line(self, error: BaseException) -> str:
        """The innermost place in the fold's own file at which the error arose."""
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
        return f", line {lines[-1]} of {Path(str(self._file)).name}" if lines else ""


def _text_of(state: Any) -> str:
    try:
        text = _encode(state)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _RefusedStateError("its state has a lone surrogate, which UTF-8 cannot encode") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise _RefusedStateError(f"its state is not JSON: {error}") from error
    if size > STATE_BYTES_MAX:
        raise _RefusedStateError(f"its state is {size} bytes of JSON, over the {STATE_BYTES_MAX} that a key may have")
    if type(state) in _UNCHANGING:
        return text
    if is_too_deep(text):
        raise _RefusedStateError(f"its state is nested deeper than {DEPTH_MAX} levels")
    if json.loads(text) != state:
        raise _RefusedStateError("its state is not JSON: use text as keys of objects, and lists as sequences")
    return text


def _records(table: pa.Table) -> Iterable[FoldRecord]:
    """The records, their values still to be read."""
    timestamps = pc.divide(table.column("timestamp").cast(pa.int64()), 1_000).to_pylist()
    headers = table.column("headers").to_pylist()
    keys, partitions, offsets = (table.column(name).to_pylist() for name in ("key", "partition", "offset"))
    for key, timestamp, partition, offset, pairs in zip(keys, timestamps, partitions, offsets, headers, strict=True):
        named = tuple((pair["key"], pair["value"]) for pair in pairs or ())
        yield FoldRecord(key, {}, timestamp, partition, offset, named)
