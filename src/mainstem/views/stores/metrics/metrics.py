"""Metrics views: figures of the records by label, in memory, from a snapshot file.

Every record counts once, whether or not it has a key; tombstones are counted apart and take nothing back. The state is
a mapping of label combinations to ``Figures`` that is never changed, only replaced, together with its bookmark: so a
snapshot is a reference, and readers see each apply whole or not at all.

``metrics.json`` holds one state with its bookmark. It is replaced by a rename after a sync, every second or so and when
the store is closed. A process that is killed loses the records since then, and reads them again: the feed goes on from
the bookmark in the file, and the view answers when it has reached the log's end (``ViewStore.is_volatile``).

**How many combinations.** At most ``labels_max`` have figures of their own: the first in the order of their labels'
text. All others are counted together, with ``__other__`` for every label. So the figures depend on the set of records
and not on their order, as the contract of stores requires. (The order in which combinations first occur would depend on
how the partitions of a topic interleave.) A label's text is cut at 200 characters; a field that is null or missing is
the empty text.

**Decimals.** A value is read as ``DOUBLE``, or, where the topic's schema says ``DECIMAL``, as that type and then as the
nearest double: pipelines and ``load`` write decimals as text.

Concurrency: as `views.stores.store` says; readers take the state's reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.clock import Clock, SystemClock
from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import StorageError
from mainstem.pipelines.kinds import Metrics
from mainstem.views.requests import MetricsPageQuery, MetricsQuery, Request, wrong_kind
from mainstem.views.stores.hashing import digest_of
from mainstem.views.stores.json_reader import JsonColumn, JsonReader
from mainstem.views.stores.metrics.figures import Figures, figures_of_groups
from mainstem.views.stores.metrics.metrics_answers import TOMBSTONES, entries_of, rows_of
from mainstem.views.stores.metrics.prometheus import page
from mainstem.views.stores.store import (
    Bookmark,
    DeadLetters,
    Digest,
    ReadRecords,
    Row,
    Snapshot,
    StoreDefinition,
    ViewStore,
)

OTHER = "__other__"
_FILE = "metrics.json"
_FORMAT = 1
_LABEL_CHARS_MAX = 200
_WRITE_EVERY_S = 1.0
_WRITE_SHARE = 0.05  # of the applier's time, where writing takes long

Combination: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """Everything a metrics view holds."""

    bookmark: Bookmark = field(default_factory=Bookmark)
    tombstones: int = 0
    figures: Mapping[Combination, Figures] = field(default_factory=dict)


class MetricsStore(ViewStore):
    """The store of a metrics view, in memory with a snapshot file."""

    is_volatile = True

    def __init__(self, path: Path, definition: StoreDefinition, clock: Clock | None = None) -> None:
        kind = definition.kind
        assert isinstance(kind, Metrics)
        self._kind = kind
        self._view = definition.view
        self._file = path / _FILE
        self._clock = clock or SystemClock()
        types = dict.fromkeys(kind.values, "DOUBLE") | definition.decimals
        columns = [*map(JsonColumn, kind.by), *(JsonColumn(name, types[name]) for name in kind.values)]
        self._reader = JsonReader(columns, text=not columns, keep=("timestamp",), keyed=False)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"the metrics store in {path} cannot be opened: {error.strerror}") from error
        self._state = self._written = _read(self._file)
        self._write_next_s = self._clock.monotonic_s() + _WRITE_EVERY_S

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        return self._reader.read(arrow_batch)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        if read.poisons:
            dead_letters(read.poisons)
        alive = read.table.filter(pc.invert(read.table.column("tombstone")))
        old = self._state
        self._state = State(
            bookmark.after(old.bookmark, read.poisons),
            old.tombstones + len(read.table) - len(alive),
            self._with(old.figures, alive) if len(alive) else old.figures,
        )

    def settle(self) -> None:
        """Write the snapshot file, when it is time. Raises StorageError."""
        started_s = self._clock.monotonic_s()
        if self._state is self._written or started_s < self._write_next_s:
            return
        self._write()
        now_s = self._clock.monotonic_s()
        self._write_next_s = now_s + max(_WRITE_EVERY_S, (now_s - started_s) / _WRITE_SHARE)

    def snapshot(self) -> MetricsSnapshot:
        return MetricsSnapshot(self._view, self._kind, self._state)

    @property
    def bookmark(self) -> Bookmark:
        return self._state.bookmark

    def close(self) -> None:
        if self._state is not self._written:
            self._write()

    def _with(self, old: Mapping[Combination, Figures], table: pa.Table) -> Mapping[Combination, Figures]:
        kind = self._kind
        row = table.column("row") if kind.columns else None
        fields = [pc.struct_field(row, [number]) for number in range(len(kind.columns))]
        groups, combinations = _grouped(fields[: len(kind.by)], len(table))
        timestamps = table.column("timestamp").cast(pa.int64()).to_numpy()
        values = dict(zip(kind.values, map(_doubles, fields[len(kind.by) :]), strict=True))
        new = figures_of_groups(groups, len(combinations), values, timestamps, kind.buckets, kind.minutes)
        figures = dict(old)
        for combination, each in zip(combinations, new, strict=True):
            _add(figures, combination, each, kind.minutes)
        _bound(figures, kind)
        return figures

    def _write(self) -> None:
        state = self._state
        document = {
            "format": _FORMAT,
            "bookmark": state.bookmark.to_text(),
            "tombstones": state.tombstones,
            "figures": [[list(labels), each.to_json()] for labels, each in sorted(state.figures.items(), key=_labels)],
        }
        replace_file(LOCAL_FILES, self._file, json.dumps(document).encode())
        self._written = state


class MetricsSnapshot(Snapshot):
    """One state of a MetricsStore."""

    def __init__(self, view: str, kind: Metrics, state: State) -> None:
        self._view = view
        self._kind = kind
        self._state = state
        self.bookmark = state.bookmark

    def query(self, request: Request) -> list[Row]:
        match request:
            case MetricsQuery():
                return rows_of(request, self._kind, self._state.figures)
            case MetricsPageQuery():
                kind = self._kind
                figures = [(dict(zip(kind.by, labels, strict=True)), each) for labels, each in self._sorted()]
                return [{"text": page(self._view, figures, kind.values, kind.buckets, self._state.tombstones)}]
            case _:
                raise wrong_kind(request, "metrics")

    def digest(self) -> Digest:
        return digest_of((name.encode(), json.dumps(row).encode()) for name, row in self.entries())

    def count(self) -> int:
        return len(self._state.figures)

    def entries(self) -> Iterator[tuple[str, Row]]:
        found = entries_of(self._kind, self._state.figures)
        if self._state.tombstones:
            found.append((TOMBSTONES, {"records": self._state.tombstones}))
        return iter(sorted(found, key=lambda entry: entry[0].encode()))

    def close(self) -> None:
        """Nothing is held but memory."""

    def _sorted(self) -> list[tuple[Combination, Figures]]:
        return sorted(self._state.figures.items(), key=_labels)


def _doubles(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The nearest doubles. A decimal is converted through its text: Arrow's direct cast is off by a bit for some."""
    return column.cast(pa.string()).cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _labels(entry: tuple[Combination, Figures]) -> Combination:
    return entry[0]


def _add(figures: dict[Combination, Figures], combination: Combination, more: Figures, minutes: int) -> None:
    there = figures.get(combination)
    figures[combination] = more if there is None else there.plus(more, minutes)


def _bound(figures: dict[Combination, Figures], kind: Metrics) -> None:
    """Merge the label combinations over the limit into one."""
    other = (OTHER,) * len(kind.by)
    own = [combination for combination in figures if combination != other]
    if len(own) > kind.labels_max:
        for combination in sorted(own)[kind.labels_max :]:
            _add(figures, other, figures.pop(combination), kind.minutes)


def _grouped(labels: list[pa.ChunkedArray], count: int) -> tuple[np.ndarray[Any, Any], list[Combination]]:
    """The group of each record, and each group's labels."""
    groups = first = np.zeros(count, np.int64)
    texts = [pc.fill_null(pc.utf8_slice_codeunits(label, 0, _LABEL_CHARS_MAX), "") for label in labels]
    for text in texts:
        encoded = text.combine_chunks().dictionary_encode()
        codes = groups * len(encoded.dictionary) + encoded.indices.to_numpy()
        _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    if not texts:
        return groups, [()]
    return groups, list(zip(*(text.take(pa.array(first)).to_pylist() for text in texts), strict=True))


def _read(file: Path) -> State:
    try:
        document = json.loads(file.read_text())
        if document["format"] != _FORMAT:
            raise StorageError(f"{file} has format {document['format']}, which this release does not read: rebuild it")
        figures = {tuple(labels): Figures.from_json(each) for labels, each in document["figures"]}
        return State(Bookmark.from_text(document["bookmark"]), int(document["tombstones"]), figures)
    except FileNotFoundError:
        return State()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"the metrics store cannot read {file} ({error}): rebuild the view") from error
