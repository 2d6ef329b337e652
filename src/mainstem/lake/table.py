"""A lake's Iceberg table: one writer appends files of records, and each commit says how far it goes.

Layout of a lake's directory::

    catalog.db          SQLite: which metadata file is the table (pyiceberg's catalog)
    table/data/*.parquet    records, sorted by (_partition, _offset) within a file
    table/metadata/*        Iceberg's own: metadata, manifest lists, manifests
    retired.json        files that compaction replaced, and when: readers may still be at them

One commit, in this order; a kill before the last step leaves the last commit, and files that no metadata names:

1. Write the data file, and sync it.
2. Write manifests, manifest list and metadata, each synced. The snapshot's summary has the caller's properties.
3. Change the catalog's row, in a SQLite transaction that syncs: the commit.

A data file is named by the number of the commit whose records it begins with; compaction merges neighbors and keeps
the first's number. So the order of names is, within each partition, the order of offsets.

Old snapshots are expired in the same commit, so that metadata, and with it the cost of a commit, stays small. The data
files that compaction replaced stay for ``KEEP_S``, for readers that have begun with them. Files that no metadata names
are removed when the table is opened, and from time to time. For one thread; one process owns the directory.

A lake that was moved or copied can be read at once (`mainstem.lake.files`). The absolute paths in its table, which
other readers of Iceberg follow, are corrected when it is next opened for writing: a new catalog with a table of the
same schema, files and properties in this place is made beside the old one, and then replaces it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
from pyiceberg.io.pyarrow import (
    DataFileStatistics,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.typedef import Record
from sqlalchemy.exc import SQLAlchemyError

from mainstem.durable_files import LOCAL_FILES, put_in_place, replace_file
from mainstem.errors import StorageError
from mainstem.lake.columns import OFFSET, PARTITION, RECORD, VALUE
from mainstem.lake.files import DIRECTORY, DURABLE_FILES, TABLE_FILES, create, make_parts, own_path

CATALOG: Final = "catalog.db"
NAMESPACE: Final = "mainstem"
TABLE: Final = "records"
KEEP_S: Final = 3600.0
_RETIRED: Final = "retired.json"
_SNAPSHOTS_MAX: Final = 12
_STRAY_S: Final = 600.0
ROW_GROUP_ROWS: Final = 65_536
ROW_GROUP_BYTES: Final = 32 << 20
_FILE_PATH: Final = 1  # where a DataFile has its path
_PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "4",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "16",
    # Bounds for the columns that place a record; those of every column would outweigh small files.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column._partition": "full",
    "write.metadata.metrics.column._offset": "full",
    "write.metadata.metrics.column._timestamp": "full",
    # How many values are null: a reader of typed columns need not read the values of a file without tombstones.
    "write.metadata.metrics.column._value": "counts",
}
_NO_TIME_BOUNDS: Final = {"write.metadata.metrics.column._timestamp": "counts"}


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One data file. ``schema_id``: the table's schema by which its values were read.

    ``tombstones``: how many records have no value; None where the file was written before they were counted.
    """

    path: Path
    number: int
    schema_id: int
    rows: int
    size_bytes: int
    entry: DataFile
    tombstones: int | None = None


class LakeTable:
    """The Iceberg table of one lake, open for writing."""

    def __init__(self, directory: Path, typed: pa.Schema) -> None:
        """Open the lake in ``directory``, or make one; the table gets the columns of ``typed``, and no others.

        Raises StorageError when it cannot be read, or when a column has another type than it had.
        """
        try:
            directory = self._directory = directory.resolve()
            if not (directory / CATALOG).exists():
                _create(directory, typed)
            self._catalog, self._table = _at_home(directory)
            self._follow(typed)
            self.files = files_of(self._table, directory)
        except (OSError, NoSuchTableError, SQLAlchemyError, ValidationError, ValueError) as error:
            raise StorageError(f"the lake in {directory} cannot be opened: {error}") from error
        self._retired = self._read_retired()
        self.sweep(at_opening=True)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the last commit; empty before the first."""
        return properties_of(self._table)

    @property
    def schema_id(self) -> int:
        """The table's schema now; values that another one read lack the columns added since."""
        return int(self._table.metadata.current_schema_id)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The table's columns, with the ids by which Iceberg knows them."""
        return schema_to_pyarrow(self._table.schema())

    def append(self, rows: pa.Table, properties: Mapping[str, str]) -> None:
        """Commit ``rows`` as one file, and ``properties`` as what the table says now. Raises StorageError."""
        number = self.files[-1].number + 1 if self.files else 0
        ordered = rows.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
        added = [self._write(number, [ordered])] if len(rows) else []
        self._commit(added, (), properties)
        self.files = (*self.files, *added)

    def replace(self, old: Sequence[LakeFile], parts: Iterable[pa.Table]) -> None:
        """Commit one file in the place of ``old``, neighbors in ``files``; the table says what it said.

        ``parts`` hold the same records, in the order of partition and offset. Raises StorageError.
        """
        merged = self._write(old[0].number, parts)
        self._retire(old)
        self._commit([merged], old, self.properties)
        first = self.files.index(old[0])
        self.files = (*self.files[:first], merged, *self.files[first + len(old) :])

    def sweep(self, *, at_opening: bool = False) -> int:
        """Delete files that no kept snapshot names, and that no reader can be at; how many there were."""
        now_s = time.time()
        named = _named_files(self._table, self._directory)
        doomed = [path for path in self._present() if path not in named and self._is_over(path, now_s, at_opening)]
        for path in doomed:
            path.unlink(missing_ok=True)
        self._retired = {name: at_s for name, at_s in self._retired.items() if now_s - at_s < KEEP_S}
        return len(doomed)

    def close(self) -> None:
        """Let the catalog go."""
        self._catalog.close()

    # ---- how

    def _write(self, number: int, parts: Iterable[pa.Table]) -> LakeFile:
        schema = self.arrow_schema
        name = f"{number:010d}-{self.schema_id:04d}-{uuid.uuid4().hex[:12]}.parquet"
        path = self._directory / TABLE_FILES / "data" / name
        try:
            with create(path) as file:
                with pq.ParquetWriter(file, schema, compression="zstd", store_decimal_as_integer=True) as writer:
                    for part in parts:
                        ordered = part.select(schema.names).cast(schema)
                        writer.write_table(ordered, row_group_size=_rows_of_a_group(ordered))
                metadata = writer.writer.metadata
        except OSError as error:
            raise StorageError(f"the lake's file {path} cannot be written: {error}") from error
        return _lake_file(self._entry(path, metadata), self._table, self._directory)

    def _entry(self, path: Path, metadata: Any) -> DataFile:
        properties = {**self._table.metadata.properties, **_PROPERTIES}  # an older version's lake may lack some
        try:
            statistics = self._statistics(metadata, properties)
        except (OverflowError, ValueError):  # a time before the year 1 or past 9999, which pyiceberg cannot hold
            statistics = self._statistics(metadata, {**properties, **_NO_TIME_BOUNDS})
        entry = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=str(path),
            file_format=FileFormat.PARQUET,
            partition=Record(),
            file_size_in_bytes=path.stat().st_size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        entry.spec_id = self._table.metadata.default_spec_id
        return entry

    def _statistics(self, metadata: Any, properties: dict[str, str]) -> DataFileStatistics:
        schema = self._table.schema()
        return data_file_statistics_from_parquet_metadata(
            parquet_metadata=metadata,
            stats_columns=compute_statistics_plan(schema, properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )

    def _commit(self, added: Iterable[LakeFile], removed: Sequence[LakeFile], properties: Mapping[str, str]) -> None:
        try:
            with self._table.transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties=dict(properties))
                with update.overwrite() if removed else update.merge_append() as snapshot:
                    for file in added:
                        snapshot.append_data_file(file.entry)
                    for file in removed:
                        snapshot.delete_data_file(file.entry)
                self._expire(transaction)
        except (OSError, CommitFailedException, SQLAlchemyError, ValidationError, ValueError) as error:
            raise StorageError(f"the lake in {self._directory} cannot be written: {error}") from error

    def _expire(self, transaction: Any) -> None:
        old = sorted(self._table.metadata.snapshots, key=lambda each: each.sequence_number or 0)[: -_SNAPSHOTS_MAX + 1]
        if old:
            ExpireSnapshots(transaction=transaction).by_ids([each.snapshot_id for each in old]).commit()

    def _follow(self, typed: pa.Schema) -> None:
        """Add the columns that are new, and let those go that the topic's schema has no longer."""
        present = {field.name: field.type for field in plain_schema(self._table)}
        changed = [f"{f.name}: {present[f.name]} → {f.type}" for f in typed if present.get(f.name, f.type) != f.type]
        if changed:
            raise StorageError(f"columns of the lake changed their type ({', '.join(changed)}): rebuild the view")
        new = pa.schema([field for field in typed if field.name not in present])
        gone = [name for name in present if name not in {*RECORD.names, *typed.names}]
        if len(new) or gone:
            with self._table.update_schema() as update:
                for name in gone:
                    update.delete_column(name)
                update.union_by_name(new)

    def _retire(self, files: Sequence[LakeFile]) -> None:
        """Write down, before they are replaced, that readers may be at these files."""
        self._retired |= {file.path.name: time.time() for file in files}
        replace_file(LOCAL_FILES, self._directory / _RETIRED, json.dumps(self._retired).encode())

    def _read_retired(self) -> dict[str, float]:
        try:
            entries = json.loads((self._directory / _RETIRED).read_text())
            return {str(name): float(at_s) for name, at_s in entries.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise StorageError(f"{self._directory / _RETIRED} cannot be read: {error}") from error

    def _present(self) -> list[Path]:
        table = self._directory / TABLE_FILES
        return [path for part in ("data", "metadata") for path in (table / part).glob("*") if path.is_file()]

    def _is_over(self, path: Path, now_s: float, at_opening: bool) -> bool:
        retired_s = self._retired.get(path.name)
        if retired_s is not None:
            return now_s - retired_s >= KEEP_S
        return at_opening or now_s - path.stat().st_mtime >= _STRAY_S


def _rows_of_a_group(table: pa.Table) -> int:
    """The number of rows of ``table`` in a row group, which bounds the memory of a reader."""
    return max(1, min(ROW_GROUP_ROWS, len(table) * ROW_GROUP_BYTES // max(1, int(table.nbytes))))


def properties_of(table: Table) -> Mapping[str, str]:
    """The properties that the newest commit of ``table`` was given, among Iceberg's own."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return {}
    return {k: v for k, v in snapshot.summary.additional_properties.items() if k.startswith("mainstem.")}


def _create(directory: Path, typed: pa.Schema) -> None:
    """Make an empty lake; it is one when its catalog has its name."""
    make_parts(directory)
    with _making(directory) as catalog:
        schema = pa.schema([*RECORD, *typed])
        location = str(directory / TABLE_FILES)
        catalog.create_table((NAMESPACE, TABLE), schema=schema, location=location, properties=_PROPERTIES)


@contextmanager
def _making(directory: Path) -> Iterator[SqlCatalog]:
    """A new catalog, to be filled; after the block it is the lake's."""
    beside = directory / f"{CATALOG}.making"
    beside.unlink(missing_ok=True)
    with closing(open_catalog(beside)) as catalog:
        catalog.create_namespace(NAMESPACE)
        yield catalog
    put_in_place(beside, directory / CATALOG)


def _at_home(directory: Path) -> tuple[SqlCatalog, Table]:
    """The catalog and the table, whose location is where the lake lies now."""
    catalog = open_catalog(directory / CATALOG)
    table = catalog.load_table((NAMESPACE, TABLE))
    if _lies_at(directory / TABLE_FILES, Path(table.metadata.location)):
        return catalog, table
    _move(table, directory)
    catalog.close()
    catalog = open_catalog(directory / CATALOG)
    return catalog, catalog.load_table((NAMESPACE, TABLE))


def _lies_at(here: Path, location: Path) -> bool:
    try:
        return location.samefile(here)
    except OSError:  # nothing is there, or nothing that may be looked at
        return False


def _move(table: Table, directory: Path) -> None:
    """Correct the paths in the lake's table for its current ``directory``."""
    files, location = files_of(table, directory), directory / TABLE_FILES
    nowhere: dict[str, Any] = {
        "current_snapshot_id": None,
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
    }
    metadata = table.metadata.model_copy(update={"location": str(location), **nowhere})
    name = str(location / "metadata" / f"00000-{uuid.uuid4()}.metadata.json")
    ToOutputFile.table_metadata(metadata, table.io.new_output(name))
    with _making(directory) as catalog:
        moved = catalog.register_table((NAMESPACE, TABLE), name)
        if table.current_snapshot() is None:
            return
        with moved.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=dict(properties_of(table)))
            with update.merge_append() as snapshot:
                for file in files:
                    file.entry[_FILE_PATH] = str(file.path)
                    snapshot.append_data_file(file.entry)


def plain_schema(table: Table) -> pa.Schema:
    """The columns of ``table``. pyiceberg's text and bytes are Arrow's large ones; in Parquet they are the same."""
    fields = {field.name: field.type for field in schema_to_pyarrow(table.schema(), include_field_ids=False)}
    own = {field.name: field.type for field in RECORD}
    plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([(name, own.get(name, plain.get(kind, kind))) for name, kind in fields.items()])


def open_catalog(path: Path) -> SqlCatalog:
    """The catalog in a file; the caller closes it."""
    path = path.absolute()
    properties = {"uri": f"sqlite:///{path}", "py-io-impl": DURABLE_FILES, DIRECTORY: str(path.parent)}
    return SqlCatalog(NAMESPACE, **properties)


def files_of(table: Table, directory: Path) -> tuple[LakeFile, ...]:
    """The data files of the newest snapshot of the lake in ``directory``, in order."""
    found = [_lake_file(task.file, table, directory) for task in table.scan().plan_files()]
    return tuple(sorted(found, key=lambda file: file.path.name))


def _lake_file(entry: DataFile, table: Table, directory: Path) -> LakeFile:
    path = own_path(directory, entry.file_path)
    number, schema_id, _ = path.stem.split("-")
    tombstones = (entry.null_value_counts or {}).get(table.schema().find_field(VALUE).field_id)
    rows, size_bytes = int(entry.record_count), int(entry.file_size_in_bytes)
    return LakeFile(path, int(number), int(schema_id), rows, size_bytes, entry, tombstones)


def _named_files(table: Table, directory: Path) -> set[Path]:
    """Every file of the lake in ``directory`` that a kept snapshot needs, and the kept metadata files."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    manifests: dict[str, Any] = {}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        named.add(path)
        named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {own_path(directory, name) for name in named}
