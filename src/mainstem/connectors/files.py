"""``load``: a file's rows into a topic, as records with a key and a JSON value.

The steps: look at the whole file (every row must fit, or nothing is written), create the topic when it is missing,
append all rows in the file's order, and return the position after them. When the topic has a schema, its columns must
be in the file and its types decide how text is read.

**At least once**: a load that is cut short has appended a part of its rows, and run again it repeats them. Memory is
bounded by a few blocks of the file. One thread runs one load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.connectors.bulk import BulkAppender
from mainstem.connectors.sources import inner_suffix
from mainstem.connectors.tables import RowsFile, check_columns, pieces_of
from mainstem.errors import InputError
from mainstem.model import Position

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.schema.types import TopicSchema

DEFAULT_NULLS = ("", "NA")
_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load.

    ``key``: the key's columns; default: the topic's own, if it has a schema. ``derived``: column → template of other
    columns, ``{"id": "{carrier}-{flight}"}``. ``partitions`` and ``compacted`` are for a topic that is created.
    ``nulls``: what stands for null in a CSV file.
    """

    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    compacted: bool = False
    nulls: tuple[str, ...] = DEFAULT_NULLS


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. ``rate`` is records a second."""

    records: int
    bytes_read: int
    bytes_total: int
    rate: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that is done; every record of it lies before ``position`` and is durable."""

    topic: str
    records: int
    position: Position
    seconds: float

    @property
    def records_per_second(self) -> float:
        """The rate over the whole load."""
        return self.records / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "topic": self.topic,
            "records": self.records,
            "position": str(self.position),
            "seconds": round(self.seconds, 3),
        }


def load(
    log: Log,
    source: Path | str,
    topic: str,
    options: LoadOptions | None = None,
    on_progress: Callable[[LoadProgress], None] | None = None,
) -> Loaded:
    """Load ``source`` into ``topic``. At least once.

    Raises InputError for a file that cannot be read or whose format is not known, SchemaError for one whose rows do not
    fit, each before anything is written.
    """
    options = options or LoadOptions()
    started_s = time.monotonic()
    file = open_rows(Path(source), options)
    registered = _registered(log, topic)
    key = options.key or (registered[1] if registered else ())
    _check(file, Path(source), registered[0] if registered else None, key, options)
    configs = {"cleanup.policy": "compact"} if options.compacted else {}
    log.create_topic(topic, partitions=options.partitions, configs=configs, exist_ok=True)
    records = 0
    with BulkAppender(log, topic) as appender:
        for rows in file.encoded(key, options.derived):
            appender.append(rows.keys, rows.values)
            records += len(rows.values)
            if on_progress is not None:
                rate = records / max(time.monotonic() - started_s, 1e-6)
                on_progress(LoadProgress(records, rows.bytes_read, rows.bytes_total, rate))
        position = appender.finish()
    return Loaded(topic, records, position, time.monotonic() - started_s)


def open_rows(path: Path, options: LoadOptions) -> RowsFile:
    """The reader for a file, by its suffix. Raises InputError when there is none."""
    found = _FORMATS.get(inner_suffix(path))
    if found is None:
        known = ", ".join(_FORMATS)
        raise InputError(
            f"{path}: its name does not tell what it is; known: {known} (.gz and .zip around the text ones)"
        )
    if found == "jsonl":
        from mainstem.connectors.json_lines import JsonLinesFile

        return JsonLinesFile(path)
    if found == "parquet":
        from mainstem.connectors.parquet_files import ParquetFile

        return ParquetFile(path)
    from mainstem.connectors.csv_files import CsvFile

    return CsvFile(path, nulls=options.nulls, delimiter="\t" if found == "tsv" else ",")


def _registered(log: Log, topic: str) -> tuple[TopicSchema, tuple[str, ...]] | None:
    from mainstem.schema.registry import lookup

    found = lookup(log, topic)
    return None if found is None else (found.schema, found.key)


def _check(file: RowsFile, path: Path, schema: TopicSchema | None, key: tuple[str, ...], options: LoadOptions) -> None:
    """Everything that can be wrong with the file, before a record is written."""
    file.check(schema)
    columns = (*file.columns, *options.derived)
    named = {name for template in options.derived.values() for name in pieces_of(template)[1::2]}
    check_columns(str(path), file.columns, {"a derived column needs": sorted(named)})
    check_columns(str(path), columns, {"is the key": key})
    if schema is not None:
        check_columns(str(path), columns, {"the topic's schema asks for": schema.names})
