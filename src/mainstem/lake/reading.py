"""A lake for readers in other processes: the files of its newest commit, and their position.

The view host may write meanwhile: a commit is seen whole or not at all, files are never changed, and files that
compaction replaces stay for an hour (``table.KEEP_S``), for readers that have begun with them. Immutable; safe from any
thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from mainstem.errors import InputError, StorageError
from mainstem.lake.columns import RECORD
from mainstem.lake.compaction import of_partition
from mainstem.lake.table import CATALOG, NAMESPACE, TABLE, LakeFile, files_of, open_catalog, plain_schema, properties_of
from mainstem.model import Position

BOOKMARK: Final = "mainstem.bookmark"
"""The property of a snapshot that says how far it goes; `mainstem.views.stores.store` has its form."""


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """``files`` hold the records of ``topic`` before ``position``; ``schema``: every column that they have.

    ``topic_id`` says which topic of this name it was; empty where the lake has none. ``bookmark``: all that the commit
    says of how far it goes, as text.
    """

    directory: Path
    topic: str
    topic_id: str
    position: Position
    files: tuple[LakeFile, ...]
    schema: pa.Schema
    bookmark: str

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that the lake has read."""
        return tuple(sorted(tp.partition for tp in self.position))

    @property
    def rows(self) -> int:
        """How many records it has."""
        return sum(file.rows for file in self.files)

    def records(self, partition: int, columns: Sequence[str] = RECORD.names) -> Iterator[pa.Table]:
        """The records of a partition in the order of their offsets, a row group at a time.

        Raises StorageError for a file that is gone or damaged.
        """
        for file in self.files:
            try:
                yield from of_partition(file.path, partition, columns)
            except FileNotFoundError as error:
                raise StorageError(
                    f"{file.path} is gone: it was merged into another over an hour ago; try again"
                ) from error
            except (OSError, pa.ArrowException) as error:
                raise StorageError(f"{file.path} cannot be read: {error}") from error


def read_lake(path: Path) -> LakeFiles:
    """The newest commit of the lake in a directory: its ``location``, or the view's own.

    Raises InputError when there is no lake, or nothing in it yet; StorageError when it cannot be read.
    """
    directory = _store_directory(path)
    if directory is None:
        raise InputError(f"{path} is not a lake: name the directory that the status of a Lake view shows as `location`")
    try:
        catalog = open_catalog(directory / CATALOG)
        try:
            table = catalog.load_table((NAMESPACE, TABLE))
            text = properties_of(table).get(BOOKMARK)
            if text is None:
                raise InputError(f"the lake in {directory} has no records yet")
            bookmark = json.loads(text)
            position = Position.from_json(bookmark["position"])
            topic = next(iter(position.topics))
            topic_id = str(bookmark["topic_ids"].get(topic, ""))
            return LakeFiles(
                directory, topic, topic_id, position, files_of(table, directory), plain_schema(table), text
            )
        finally:
            catalog.close()
    except (OSError, ValueError, KeyError, StopIteration, NoSuchTableError, ValidationError, SQLAlchemyError) as error:
        raise StorageError(f"the lake in {directory} cannot be read: {error}") from error


def _store_directory(path: Path) -> Path | None:
    """The directory of the catalog: the path itself, or what the view's ``current`` names; absolute."""
    path = path.resolve()
    if (path / CATALOG).is_file():
        return path
    try:
        version = (path / "current").read_text().strip()
    except OSError:
        return None
    store = path / version / "store"
    return store if version and (store / CATALOG).is_file() else None
