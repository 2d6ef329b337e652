"""Key-value views: the latest value of each key, or what a fold made of all its records, in RocksDB.

Layout: one key space. ``r`` + the record's key → the JSON text (`views.stores.key_value.folding`); ``m`` → the
bookmark. ``apply`` writes both at once. Few changes are one WriteBatch, through the write-ahead log and not synced: a
process that is killed loses nothing, a machine that loses power loses whole batches from the end. RocksDB recovers to a
point in time, never with a gap. Many changes, as a view has while it catches up, are one sorted file that RocksDB takes
over, durably, after it has written what is only in memory: that takes half the time. While RocksDB has many files to
merge, changes go into batches again: a read looks into each file, and at 36 RocksDB takes no batch any more.

The account: RocksDB numbers every write, and the bookmark holds the number of the last one of its own batch. A file has
one number: the next one where the store has a bookmark, which the file replaces, and none in an empty store. A write by
another process, even of the same value, increases that number. RocksDB's lock keeps other processes out while the store
is open, so one check at each opening is enough. Changes in the files themselves fail RocksDB's block checksums.

Concurrency: as `views.stores.store` says; RocksDB reads beside the writer without locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    DBRecoveryMode,
    IngestExternalFileOptions,
    Options,
    Rdict,
    RdictIter,
    SstFileWriter,
    WriteBatch,
)

from mainstem.errors import StorageError
from mainstem.pipelines.kinds import KeyValue
from mainstem.views.requests import GetQuery, RangeQuery, Request, wrong_kind
from mainstem.views.stores.hashing import digest_of
from mainstem.views.stores.key_value.folding import ChangeReader, Folding, KeysWithTexts, Latest
from mainstem.views.stores.rows import KEY, readable, row_of
from mainstem.views.stores.sql.query_bounds import AnswerSize
from mainstem.views.stores.store import (
    Account,
    Answer,
    Bookmark,
    Bucket,
    DeadLetters,
    Digest,
    ReadRecords,
    Row,
    Snapshot,
    StoreDefinition,
    ViewStore,
)

_RECORD = b"r"
_AFTER_RECORDS = b"s"
_BOOKMARK = b"m"
_MEMTABLE_BYTES = 64 << 20
_BLOCK_CACHE_BYTES = 64 << 20
_OPEN_FILES_MAX = 256
_TABLE_FILES = ".sst"  # a RocksDB checkpoint links them
_MANY_CHANGES = 5_000
_UNMERGED_FILES_MAX = 16
_UNMERGED_FILES = "rocksdb.num-files-at-level0"
_CHANGES_FILE = "changes.sst"


class KeyValueStore(ViewStore):
    """The store of a key-value view, in RocksDB."""

    keeps_past = True

    def __init__(self, path: Path, definition: StoreDefinition) -> None:
        kind = definition.kind
        assert isinstance(kind, KeyValue)
        self._changes_file = path / _CHANGES_FILE
        try:
            self._db = Rdict(str(path), _options())
        except Exception as error:  # rocksdict raises bare Exception
            raise StorageError(f"the key-value store in {path} cannot be opened: {error}") from error
        self._reader: ChangeReader = Latest() if kind.fold is None else Folding(kind.fold, kind.initial)
        self._is_broken: bool | None = None
        """Whether someone else has written; None: no account is kept."""
        stored = self._db.get(_BOOKMARK)
        self._has_bookmark = stored is not None
        self._bookmark = self._accounted(stored)

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        return self._reader.read(arrow_batch)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        changes = self._reader.changes(read, self._stored)
        if changes.poisons:
            dead_letters(changes.poisons)
        bookmark = bookmark.after(self._bookmark, changes.poisons)
        is_many = len(changes.texts) >= _MANY_CHANGES and self._unmerged_files() < _UNMERGED_FILES_MAX
        write = self._write_many if is_many else self._write_few
        try:
            self._bookmark = write(changes.texts, bookmark)
        except Exception as error:  # rocksdict raises bare Exception
            raise StorageError(f"the key-value store cannot be written: {error}") from error
        self._has_bookmark = True

    def _unmerged_files(self) -> int:
        return int(self._db.property_value(_UNMERGED_FILES) or 0)

    def _write_few(self, texts: KeysWithTexts, bookmark: Bookmark) -> Bookmark:
        """Write changes and bookmark in one batch; the bookmark as written."""
        writes = WriteBatch(raw_mode=True)
        for key, text in texts:
            if text is None:
                writes.delete(_RECORD + key)
            else:
                writes.put(_RECORD + key, text)
        bookmark = bookmark.accounted(self._account_after(writes.len() + 1))
        writes.put(_BOOKMARK, bookmark.to_text().encode())
        self._db.write(writes)
        return bookmark

    def _write_many(self, texts: KeysWithTexts, bookmark: Bookmark) -> Bookmark:
        """Write changes and bookmark as one file in the order of the keys; the bookmark as written."""
        bookmark = bookmark.accounted(self._account_after(1 if self._has_bookmark else 0))
        # After a kill the name may still be a second link to a file that RocksDB has taken over.
        self._changes_file.unlink(missing_ok=True)
        file = SstFileWriter(_options())
        file.open(str(self._changes_file))
        file[_BOOKMARK] = bookmark.to_text().encode()  # sorts before every record
        for key, text in texts:
            if text is None:
                del file[_RECORD + key]
            else:
                file[_RECORD + key] = text
        file.finish()
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        self._db.ingest_external_file([str(self._changes_file)], options)
        return bookmark

    def snapshot(self) -> KeyValueSnapshot:
        return KeyValueSnapshot(self._db.iter(), self._is_broken)

    def copy_to(self, path: Path) -> int:
        try:
            Checkpoint(self._db).create_checkpoint(str(path))
        except Exception as error:  # rocksdict raises bare Exception
            raise StorageError(f"the key-value store cannot be copied to {path}: {error}") from error
        return sum(entry.stat().st_size for entry in path.iterdir() if entry.suffix != _TABLE_FILES)

    @property
    def bookmark(self) -> Bookmark:
        return self._bookmark

    def mark_verified(self) -> None:
        self._is_broken = False

    def close(self) -> None:
        self._db.close()

    def _stored(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        if not keys:
            return []
        found: Any = self._db.get([_RECORD + key for key in keys])  # a list for a list
        return [None if text is None else bytes(text) for text in found]

    def _accounted(self, stored: bytes | None) -> Bookmark:
        """The stored bookmark, its account updated from RocksDB."""
        bookmark = _read_bookmark(stored)
        account = Account(writes=0) if stored is None else bookmark.account
        if account is None:
            return bookmark
        writes = self._db.latest_sequence_number()
        self._is_broken = account.is_broken or account.writes != writes
        return bookmark.accounted(Account(writes=writes, is_broken=self._is_broken))

    def _account_after(self, writes: int) -> Account | None:
        """The account after a batch of so many writes. The number is counted on, not asked for: it must not heal."""
        account = self._bookmark.account
        if account is None or account.writes is None or self._is_broken is None:
            return None
        return Account(writes=account.writes + writes, is_broken=self._is_broken)


class KeyValueSnapshot(Snapshot):
    """One state of a KeyValueStore: a RocksDB iterator, which sees the state in which it was made.

    Not rocksdict's own Snapshot: its iterators read the newest state (rocksdict 0.3.29).
    """

    def __init__(self, iterator: RdictIter, is_broken: bool | None) -> None:
        self._iterator: RdictIter | None = iterator
        self._is_broken = is_broken
        self.bookmark = _read_bookmark(self._get(_BOOKMARK))

    def query(self, request: Request) -> list[Row]:
        match request:
            case GetQuery(key):
                text = self._get(_RECORD + key.encode())
                return [] if text is None else [row_of(key, text)]
            case RangeQuery():
                return self._page(request)[0]
            case _:
                raise wrong_kind(request, "key-value")

    def answer(self, request: Request) -> Answer:
        if not isinstance(request, RangeQuery):
            return super().answer(request)
        rows, next_key = self._page(request)
        return Answer(rows, self.position, next=next_key)

    def digest(self) -> Digest:
        return digest_of(self._scan(b"", None))

    def intact(self) -> bool | None:
        return None if self._is_broken is None else not self._is_broken

    def count(self) -> int:
        return sum(1 for _ in self._scan(b"", None))

    def entries(self) -> Iterator[tuple[str, Row]]:
        return self.entries_after(None)

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        for key, text in self._scan(b"" if name is None else name.encode() + b"\0", None):
            name = readable(key)
            yield name, row_of(name, text)

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        named = ((readable(key), text) for key, text in self._scan(b"", None) if bucket.has(key))
        return ((name, row_of(name, text)) for name, text in named)

    def close(self) -> None:
        self._iterator = None  # RocksDB lets the state go with its last reference

    @property
    def _open(self) -> RdictIter:
        assert self._iterator is not None, "the snapshot is closed"
        return self._iterator

    def _get(self, key: bytes) -> bytes | None:
        iterator = self._open
        iterator.seek(key)
        found: bytes | None = iterator.value() if iterator.valid() and iterator.key() == key else None
        iterator.status()  # raises when the iterator ended on an error
        return found

    def _page(self, request: RangeQuery) -> tuple[list[Row], str | None]:
        """The next rows of a range, and their last key when more follow."""
        prefix = request.prefix.encode()
        after = b"" if request.after is None else request.after.encode() + b"\0"
        start = max(prefix, (request.start or "").encode(), after)
        end = None if request.end is None else request.end.encode()
        size = AnswerSize()
        rows: list[Row] = []
        for key, text in self._scan(start, end):
            if not key.startswith(prefix):
                break
            if len(rows) == request.limit or (rows and not size.has_room(len(text))):
                return rows, rows[-1][KEY]
            size.add(len(text))
            rows.append(row_of(readable(key), text))
        return rows, None

    def _scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Key and text from ``start`` (included) to ``end`` (not), in the order of the keys' bytes."""
        iterator = self._open
        iterator.seek(_RECORD + start)
        after = _AFTER_RECORDS if end is None else _RECORD + end
        while iterator.valid() and (key := iterator.key()) < after:
            yield key[1:], iterator.value()
            iterator.next()
        iterator.status()  # raises when the iterator ended on an error


def _read_bookmark(text: bytes | None) -> Bookmark:
    return Bookmark() if text is None else Bookmark.from_text(text.decode())


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_max_open_files(_OPEN_FILES_MAX)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(table)
    return options
