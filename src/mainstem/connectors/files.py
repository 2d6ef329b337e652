"""``load``: a file's rows into a topic, as records with a key and a JSON value.

The steps: look at the whole file (every row must fit, have its key and what derived columns need, or nothing is
written), create the topic when it is missing, append all rows in the file's order, and return the position after them.
When the topic has a schema, its columns must be in the file and its types decide how text is read.

**Exactly once**: rows go out in transactions that also say how far the load is (``load_progress``). A load that is cut
short, at any time and in any way, goes on where it was when it is run again; one that is done does nothing. Memory is
bounded by a few blocks of the file. One thread runs one load.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.connectors.load_progress import ResumableLoad, load_identity
from mainstem.connectors.loads import Loaded, LoadOptions, LoadProgress
from mainstem.connectors.sources import inner_suffix
from mainstem.connectors.tables import EncodedRows, RowsFile, Wanted
from mainstem.errors import InputError
from mainstem.lake.installed import require_iceberg

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.schema.types import TopicSchema

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def load(
    log: Log,
    source: Path | str,
    topic: str,
    options: LoadOptions | None = None,
    on_progress: Callable[[LoadProgress], None] | None = None,
) -> Loaded:
    """Load ``source``, a file or a lake's directory, into ``topic``, each row exactly once.

    Raises InputError for a file that cannot be read or whose format is not known, SchemaError for one whose rows do not
    fit, each before anything is written; ProducerFencedError when another run of the same load takes over.
    """
    options = options or LoadOptions()
    if Path(source).is_dir():
        require_iceberg()
        from mainstem.connectors.lake_source import load_lake  # loads Iceberg

        return load_lake(log, Path(source), topic, options, on_progress)
    started_s = time.monotonic()
    file = open_rows(Path(source), options)
    registered = _registered(log, topic)
    key = options.key or (registered[1] if registered else ())
    file.check(Wanted(registered[0] if registered else None, key, options.derived))
    configs = {"cleanup.policy": "compact"} if options.compacted else {}
    info = log.create_topic(topic, partitions=options.partitions, configs=configs, exist_ok=True)
    written_with = (key, sorted(options.derived.items()), options.nulls, registered[0] if registered else None)
    identity = load_identity(info, Path(source), written_with)
    with ResumableLoad(log, topic, identity, again=options.again) as target:
        before, seen = target.progress.rows, 0
        if not target.progress.is_done:
            for rows in file.encoded(key, options.derived):
                _append_new(target, rows, before - seen)
                seen += len(rows.values)
                if on_progress is not None:
                    rate = max(0, seen - before) / max(time.monotonic() - started_s, 1e-6)
                    on_progress(LoadProgress(seen, rows.bytes_read, rows.bytes_total, rate))
        done = target.finish()
    return Loaded(topic, done.rows - before, done.position, time.monotonic() - started_s, before)


def _append_new(target: ResumableLoad, rows: EncodedRows, skipped: int) -> None:
    """Append the rows behind the first ``skipped``, which an earlier run has loaded."""
    if skipped <= 0:
        target.append(rows.keys, rows.values)
    elif skipped < len(rows.values):
        target.append(None if rows.keys is None else rows.keys.slice(skipped), rows.values.slice(skipped))


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
