"""The files that a load's arguments name: files, patterns, directories, a lake. Reads directories, and no file."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mainstem.connectors.sources import inner_suffix
from mainstem.errors import InputError

FORMATS: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
LAKE_FILES: Final = ("catalog.db", "current")
"""`mainstem.lake.table.CATALOG`, and the file with which `mainstem.views.versions.versions` names a view's store."""


def find_files(sources: Sequence[Path | str]) -> list[Path]:
    """The files, in the order of the arguments and of their names; a lake's directory is one entry.

    Of a directory, those with a known suffix, in directories below it too; names that begin with ``.`` or ``_`` are
    passed over, as Spark does. Raises InputError for a file that is not there, and for a pattern or a directory without
    such a file.
    """
    found: list[Path] = []
    for source in map(Path, sources):
        found += _files_of(source)
    return list(dict.fromkeys(found))


def _files_of(source: Path) -> list[Path]:
    if source.is_dir():
        return [source] if _may_be_lake(source) else _files_below(source)
    if not source.exists() and glob.has_magic(str(source)):
        matches = sorted(Path(name) for name in glob.glob(str(source), recursive=True))  # noqa: PTH207 - also of absolute patterns
        files = [path for path in matches if path.is_file()]
        if not files:
            raise InputError(f"{source}: no file matches the pattern")
        return files
    if not source.exists():
        raise InputError(f"{source}: no such file")
    return [source]


def _may_be_lake(directory: Path) -> bool:
    """Whether it has what a lake's directory, or that of its view, has; nothing is loaded to find out."""
    return any((directory / name).is_file() for name in LAKE_FILES)


def _files_below(directory: Path) -> list[Path]:
    found = []
    for path in sorted(directory.rglob("*")):
        if path.name == LAKE_FILES[0]:
            raise InputError(f"{directory}: {path.parent} in it is a lake: name its directory, or the other files")
        names = path.relative_to(directory).parts
        is_hidden = any(name.startswith((".", "_")) for name in names)
        if not is_hidden and path.is_file() and inner_suffix(path) in FORMATS:
            found.append(path)
    if not found:
        known = ", ".join(FORMATS)
        raise InputError(f"{directory}: neither a lake nor a directory with files to load ({known})")
    return found
