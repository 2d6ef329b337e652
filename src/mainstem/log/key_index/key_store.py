"""The ordered store under the key index: a port, and its implementation by RocksDB. Keys and values are bytes.

Contract, which the index relies on:

* ``write`` puts all of its entries or none. When it returns, the write survives the end of the process (a write-ahead
  log that is not synced). A power cut may lose the last writes, but never one without all later ones.
* ``ingest`` takes over files of sorted entries, durably.
* Checksums detect damage: every failure, at opening or later, is a StorageError.

rocksdict is imported when a store is opened, and a store is opened when a topic needs it. Owned by one thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from mainstem.errors import StorageError

if TYPE_CHECKING:
    from rocksdict import Options

Entry: TypeAlias = tuple[bytes, bytes]

_MEMTABLE_BYTES: Final = 8 << 20
_BLOCK_CACHE_BYTES: Final = 16 << 20
_OPEN_FILES_MAX: Final = 128
_WAL_BYTES_MAX: Final = 64 << 20
_BLOOM_BITS: Final = 10


class KeyStore(Protocol):
    """The port of the ordered store. The module's docstring has the contract."""

    def get(self, key: bytes) -> bytes | None: ...

    def last(self, start: bytes, end: bytes) -> Entry | None:
        """The greatest entry with ``start <= key < end``."""
        ...

    def scan(self, start: bytes, end: bytes) -> Iterator[Entry]:
        """The entries with ``start <= key < end``, rising, as they are when the scan begins."""
        ...

    def write(self, puts: Iterable[Entry], deletes: Iterable[bytes] = ()) -> None:
        """Put and delete, all or nothing."""
        ...

    def delete_range(self, start: bytes, end: bytes) -> None: ...

    def ingest(self, files: Sequence[PurePath]) -> None:
        """Take over files that ``write_sorted_files`` wrote; they are gone then."""
        ...

    def close(self) -> None: ...


class RocksKeyStore:
    """A KeyStore in a directory. ``bulk``: for building, without a write-ahead log."""

    def __init__(self, path: PurePath, *, bulk: bool = False) -> None:
        """Raises StorageError: it cannot be opened, or is damaged."""
        from rocksdict import Rdict, WriteBatch, WriteOptions

        self._new_batch = WriteBatch
        self._path = path
        try:
            self._db = Rdict(str(path), _options())
            if bulk:
                options = WriteOptions()
                options.disable_wal = True  # type: ignore[assignment,method-assign]  # rocksdict's stub calls it a method
                self._db.set_write_options(options)
        except Exception as error:  # rocksdict raises bare Exception
            raise self._failed("opened", error) from error

    def _failed(self, what: str, error: Exception) -> StorageError:
        return StorageError(f"the key index in {self._path} cannot be {what}: {error}")

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._failed("read", error) from error
        return value

    def last(self, start: bytes, end: bytes) -> Entry | None:
        try:
            iterator = self._db.iter()
            iterator.seek_for_prev(end)
            if iterator.valid() and iterator.key() == end:
                iterator.prev()
            found = (iterator.key(), iterator.value()) if iterator.valid() else None
            iterator.status()
        except Exception as error:
            raise self._failed("read", error) from error
        return found if found is not None and found[0] >= start else None

    def scan(self, start: bytes, end: bytes) -> Iterator[Entry]:
        try:
            iterator = self._db.iter()
            iterator.seek(start)
            while iterator.valid() and (key := iterator.key()) < end:
                yield key, iterator.value()
                iterator.next()
            iterator.status()
        except Exception as error:
            raise self._failed("read", error) from error

    def write(self, puts: Iterable[Entry], deletes: Iterable[bytes] = ()) -> None:
        batch = self._new_batch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        put = batch.put
        for key, value in puts:
            put(key, value)
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._failed("written", error) from error

    def delete_range(self, start: bytes, end: bytes) -> None:
        try:
            self._db.delete_range(start, end)
        except Exception as error:
            raise self._failed("written", error) from error

    def ingest(self, files: Sequence[PurePath]) -> None:
        from rocksdict import IngestExternalFileOptions

        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            self._db.ingest_external_file([str(file) for file in files], options)
        except Exception as error:
            raise self._failed("filled", error) from error

    def close(self) -> None:
        self._db.close()


def remove_store(path: PurePath) -> None:
    """Remove a store that is closed, with all that it holds."""
    shutil.rmtree(Path(path), ignore_errors=True)


def write_sorted_files(directory: Path, entries: Iterable[Entry], file_bytes_max: int) -> list[Path]:
    """Write entries, whose keys rise strictly, to files that a store can ingest. Raises StorageError."""
    from rocksdict import SstFileWriter

    files: list[Path] = []
    writer, size = None, 0
    try:
        for key, value in entries:
            if writer is None:
                files.append(directory / f"{len(files):06d}.sst")
                writer, size = SstFileWriter(_options()), 0
                writer.open(str(files[-1]))
            writer[key] = value
            size += len(key) + len(value)
            if size >= file_bytes_max:
                writer.finish()
                writer = None
        if writer is not None:
            writer.finish()
    except StorageError:
        raise
    except Exception as error:  # rocksdict raises bare Exception
        raise StorageError(f"key index files in {directory} cannot be written: {error}") from error
    return files


def _options() -> Options:
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_max_total_wal_size(_WAL_BYTES_MAX)
    options.set_max_open_files(_OPEN_FILES_MAX)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_BLOCK_CACHE_BYTES))
    table.set_bloom_filter(_BLOOM_BITS, False)
    options.set_block_based_table_factory(table)
    return options
