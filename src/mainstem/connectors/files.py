"""``load``: files' rows into a topic, as records with a key and a JSON value.

The steps: look at all files as a whole (every row must fit the topic's schema, have its key and what derived columns
need, or nothing is written), create the topic when it is missing, append all rows in the files' order, and return the
position after them. When the topic has a schema, its columns must be in the files; its types decide how text is read.

**Exactly once**: rows go out in transactions that also say how far the load is (``load_progress``). A load that is cut
short, at any time and in any way, goes on where it was when it is run again; one that is done does nothing. Memory is
bounded by a few blocks of a file. One thread runs one load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.connectors.bulk import RecordFields
from mainstem.connectors.find_files import FORMATS, find_files
from mainstem.connectors.load_progress import ResumableLoad, load_identity
from mainstem.connectors.loads import Loaded, LoadOptions, LoadProgress
from mainstem.connectors.sources import inner_suffix
from mainstem.connectors.tables import EncodedRows, RowsFile, Wanted
from mainstem.errors import InputError
from mainstem.lake.installed import require_iceberg
from mainstem.model import Position
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.schema.topic_schemas import RegisteredSchema


def load(
    log: Log,
    source: Path | str | Sequence[Path | str],
    topic: str,
    options: LoadOptions | None = None,
    on_progress: Callable[[LoadProgress], None] | None = None,
) -> Loaded:
    """Load ``source`` into ``topic``, each row exactly once: files, patterns and directories of files, or a lake's.

    Raises InputError for a file that cannot be read or whose format is not known, SchemaError for one whose rows do not
    fit, each before anything is written; ProducerFencedError when another run of the same load takes over.
    """
    options = options or LoadOptions()
    paths = find_files([source] if isinstance(source, Path | str) else source)
    if any(path.is_dir() for path in paths):
        if len(paths) > 1:
            raise InputError("a lake is loaded by itself: name its directory alone")
        require_iceberg()
        from mainstem.connectors.lake_source import load_lake  # loads Iceberg

        return load_lake(log, paths[0], topic, options, on_progress)
    started_s = time.monotonic()
    rungs: dict[str, int] = {}
    files = [(path, open_rows(path, options, rungs)) for path in paths]
    registered = lookup(log, topic)
    schema = registered.schema if registered else None
    key = options.key or (registered.key if registered else ())
    encoding = registered.encoding if registered else None
    for _, file in files:
        file.check(Wanted(schema, key, options.derived, is_complete=encoding is not None))
    configs = {"cleanup.policy": "compact"} if options.compacted else {}
    info = log.create_topic(topic, partitions=options.partitions, configs=configs, exist_ok=True)
    written_with: list[object] = [key, sorted(options.derived.items()), options.nulls, schema]
    written_with += [options.delimiter] if options.delimiter else []
    report = _Report(started_s, sum(path.stat().st_size for path in paths), on_progress)
    done, known = Loaded(topic, 0, Position(), 0.0), set[str]()
    for path, file in files:
        identity, copy = load_identity(info, path, written_with), 0
        while identity in known:  # a file of the same content is another file all the same
            copy += 1
            identity = load_identity(info, path, [*written_with, copy])
        known.add(identity)
        with ResumableLoad(log, topic, identity, again=options.again) as target:
            rows = file.encoded(key, options.derived)
            if registered is not None and (encoding is not None or registered.key_encoding is not None):
                rows = _with_schemas(log, registered, key, rows)
            done = _with_file(done, target, rows, report)
        report.finish(path.stat().st_size)
    return replace(done, seconds=time.monotonic() - started_s)


@dataclass
class _Report:
    """Says how far a load of some files is."""

    started_s: float
    bytes_total: int
    on_progress: Callable[[LoadProgress], None] | None
    bytes_before: int = 0
    rows: int = 0
    new_rows: int = 0

    def add(self, rows: EncodedRows, new_rows: int) -> None:
        self.rows += len(rows.values)
        self.new_rows += new_rows
        if self.on_progress is not None:
            rate = self.new_rows / max(time.monotonic() - self.started_s, 1e-6)
            read = min(self.bytes_before + rows.bytes_read, self.bytes_total)
            self.on_progress(LoadProgress(self.rows, read, max(self.bytes_total, rows.bytes_total), rate))

    def finish(self, size_bytes: int) -> None:
        self.bytes_before += size_bytes


def _with_file(done: Loaded, target: ResumableLoad, encoded: Iterator[EncodedRows], report: _Report) -> Loaded:
    """Append the rows of one file that are not there yet; what is done then."""
    before, seen = target.progress.rows, 0
    if not target.progress.is_done:
        for rows in encoded:
            _append_new(target, rows, before - seen)
            seen += len(rows.values)
            report.add(rows, max(0, min(len(rows.values), seen - before)))
    progress = target.finish()
    return replace(
        done,
        records=done.records + progress.rows - before,
        records_before=done.records_before + before,
        position=done.position | progress.position,
    )


def _append_new(target: ResumableLoad, rows: EncodedRows, skipped: int) -> None:
    """Append the rows after the first ``skipped``, which an earlier run has loaded."""
    start = max(0, skipped)
    if start < len(rows.values):
        keys, headers = (None if column is None else column.slice(start) for column in (rows.keys, rows.headers))
        target.append(keys, rows.values.slice(start), RecordFields(headers=headers))


def open_rows(path: Path, options: LoadOptions, rungs: dict[str, int] | None = None) -> RowsFile:
    """The reader for a file, by its suffix. CSV files with the same ``rungs`` find the types of columns together.

    Raises InputError when there is none.
    """
    found = FORMATS.get(inner_suffix(path))
    if found is None:
        known = ", ".join(FORMATS)
        raise InputError(
            f"{path}: its name does not show its format; known: {known} (.gz, .zst and .zip around the text ones)"
        )
    if options.delimiter and found not in ("csv", "tsv"):
        raise InputError(f"{path}: a delimiter is for CSV files alone; leave it out")
    if found == "json":
        from mainstem.connectors.json_lines import JsonLinesFile

        return JsonLinesFile(path)
    if found == "parquet":
        from mainstem.connectors.parquet_files import ParquetFile

        return ParquetFile(path)
    from mainstem.connectors.csv_files import CsvFile

    delimiter = options.delimiter or ("\t" if found == "tsv" else ",")
    return CsvFile(path, nulls=options.nulls, delimiter=delimiter, rungs={} if rungs is None else rungs)


def _with_schemas(
    log: Log, topic: RegisteredSchema, key: Sequence[str], encoded: Iterator[EncodedRows]
) -> Iterator[EncodedRows]:
    """The rows with their keys and values in the topic's encodings instead of text and JSON."""
    from mainstem.encodings.encoders import encoder_of, key_encoder_of
    from mainstem.encodings.json_values import encoded_values

    encoder = None
    if topic.encoding is not None:
        encoder = encoder_of(log, topic.topic, topic.schema, topic.encoding, framing=topic.framing)
    keys = None
    if topic.key_encoding is not None and key:
        columns = TopicSchema(tuple(map(topic.schema.column, key)))
        keys = key_encoder_of(log, topic.topic, columns, topic.key_encoding)
    for rows in encoded:
        if encoder is not None:
            headers = encoder.headers_column(len(rows.values))
            rows = rows._replace(values=encoded_values(rows.values, encoder), headers=headers)
        yield rows if keys is None or rows.keys is None else rows._replace(keys=keys.encode_texts(rows.keys))
