"""Snapshots of a view's store on disk, one every so many records: the start of past states and of rebuilds.

    VERSION/snapshots/000007/bookmark.json   the position of the copy
    VERSION/snapshots/000007/store/          the store's own files, with the same bookmark in them
    VERSION/snapshots/void                   there are none, and will be none, of this version

They belong to one version of the view. A new version makes them invalid, too: after another definition, a recreated
topic, or a rebuild because another process wrote to the store.

Invariants:

1. *Whole or absent.* A snapshot gets its name only when every byte of it is on disk; the next opening deletes what a
   crash left at any step.
2. *Never changed.* Users of a snapshot start from a copy (``copy_store``); a snapshot that is leased stays.
3. *Exact.* It is made only of a state that is the result of all records before its position (``Bookmark.is_exact``).
   It is not made of a store that another process has written to, nor of one that a verification found to differ from
   its log: ``void`` is stored, and holds until the view is rebuilt, also over restarts.
4. *Bounded.* At most ``KEPT_MAX`` are kept, spread over the past: the newest, the oldest, and between them those
   farthest from their neighbors. The next one is made after ``every_records`` records at the earliest, and not before
   as many bytes of records were applied as the last one wrote: a large view makes them less often.

Making one, by the applier between two applies:

1. the store writes a copy of itself into ``000007.making/store``,
2. the bookmark is written beside it,
3. every file and directory is fsynced,
4. ``000007.making`` is renamed to ``000007``, and that is fsynced,
5. one too many is renamed to ``….removing``, that is fsynced, and it is deleted.

A snapshot that fails is removed: a disk that is full does not get fuller.

Concurrency: ``applied`` is the applier's; ``newest_within`` and ``void`` are safe from any thread beside it.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mainstem.durable_files import LOCAL_FILES, put_in_place, remove_directory, replace_file
from mainstem.errors import StorageError, UnavailableError
from mainstem.model import Position
from mainstem.views.stores.store import Bookmark, ViewStore

_LOG = logging.getLogger("mainstem.views")
EVERY_RECORDS = 100_000
KEPT_MAX = 5
_BOOKMARK = "bookmark.json"
_STORE = "store"
_MAKING = ".making"
_REMOVING = ".removing"
_VOID = "void"
# What RocksDB writes once and never again: a copy shares it.
_WRITTEN_ONCE = (".sst", ".blob")


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """A store's copy on disk, and what it reflects."""

    path: Path
    bookmark: Bookmark

    @property
    def number(self) -> int:
        """Its place in the order in which they were made."""
        return int(self.path.name)

    @property
    def offsets(self) -> int:
        """How many offsets were appended after it: how old it is."""
        return sum(self.bookmark.position.values())


class StoreSnapshots:
    """The snapshots of one version of a view."""

    def __init__(self, directory: Path, every_records: int = EVERY_RECORDS) -> None:
        """Takes up what is there, and deletes what a crash left over."""
        self._directory = directory
        self._every_records = every_records
        self._lock = threading.Lock()
        self._leased: dict[Path, int] = {}
        self._records = 0
        self._bytes = 0
        self._written = 0
        self._snapshots = _found(directory)
        self._number = max((found.number for found in self._snapshots), default=0)
        self._is_void = (directory / _VOID).exists()

    @property
    def all(self) -> tuple[StoreSnapshot, ...]:
        """Those that are kept, oldest first."""
        return self._snapshots

    @property
    def is_void(self) -> bool:
        """Whether the store was found not to be what its log gives."""
        return self._is_void

    def applied(self, store: ViewStore, records: int, size_bytes: int) -> None:
        """Take note of records that ``store`` has applied, and make a snapshot when it is time for one."""
        if not store.keeps_past or self._is_void:
            return
        self._records += records
        self._bytes += size_bytes
        if self._records < self._every_records or self._bytes < self._written:
            return
        try:
            if not _is_sound(store):
                return
            self._make(store)
        except (OSError, StorageError, UnavailableError) as error:
            # The view itself has lost nothing: it goes on, and tries again after as many records. UnavailableError:
            # a query ended the process of a SQL store meanwhile.
            _LOG.warning("no snapshot of the store could be made in %s: %s", self._directory, error)
        self._records = self._bytes = 0

    @contextmanager
    def newest_within(self, position: Position) -> Iterator[StoreSnapshot | None]:
        """The newest snapshot that ``position`` covers, kept for as long as it is leased; None when there is none."""
        with self._lock:
            fitting = [found for found in self._snapshots if position.covers(found.bookmark.position)]
            chosen = max(fitting, key=lambda found: found.offsets, default=None)
            if chosen is not None:
                self._leased[chosen.path] = self._leased.get(chosen.path, 0) + 1
        try:
            yield chosen
        finally:
            if chosen is not None:
                with self._lock:
                    self._leased[chosen.path] -= 1
                    is_void = not self._leased[chosen.path] and chosen not in self._snapshots
                if is_void:
                    _remove(chosen.path)

    def void(self) -> None:
        """Delete all snapshots, leased ones when they are returned, and make none of this version from now on."""
        with self._lock:
            self._is_void = True
            gone = [found for found in self._snapshots if not self._leased.get(found.path)]
            self._snapshots = ()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            replace_file(LOCAL_FILES, self._directory / _VOID, b"")
        except (OSError, StorageError) as error:  # until the next opening it is known all the same
            _LOG.warning("it could not be noted in %s that there shall be no snapshots: %s", self._directory, error)
        for found in gone:
            _remove(found.path)

    def _make(self, store: ViewStore) -> None:
        self._number += 1
        path = self._directory / f"{self._number:06d}"
        making = path.with_name(path.name + _MAKING)
        try:
            making.mkdir(parents=True)
            self._written = store.copy_to(making / _STORE)
            (making / _BOOKMARK).write_text(store.bookmark.to_text())
            put_in_place(making, path)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        made = StoreSnapshot(path, store.bookmark)
        with self._lock:
            is_void = self._is_void  # it was found to be wrong while it was copied
            if not is_void:
                self._snapshots = (*self._snapshots, made)
        if is_void:
            _remove(path)
        self._thin()

    def _thin(self) -> None:
        while len(self._snapshots) > KEPT_MAX:
            with self._lock:
                free = [found for found in self._snapshots[1:-1] if not self._leased.get(found.path)]
                if not free:
                    return  # all are being read: there is one too many until the next is made
                gone = min(free, key=self._gap_without)
                self._snapshots = tuple(found for found in self._snapshots if found is not gone)
            _remove(gone.path)

    def _gap_without(self, snapshot: StoreSnapshot) -> int:
        """The distance of its neighbors if it were removed."""
        at = self._snapshots.index(snapshot)
        return self._snapshots[at + 1].offsets - self._snapshots[at - 1].offsets


def store_in(snapshot: StoreSnapshot) -> Path:
    """The directory of the snapshot's store; it is only read."""
    return snapshot.path / _STORE


def copy_store(snapshot: StoreSnapshot, path: Path) -> None:
    """Copy the snapshot's store into the new directory ``path``, where it may be opened and written."""
    for source in sorted(store_in(snapshot).rglob("*")):
        target = path / source.relative_to(store_in(snapshot))
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir(exist_ok=True)
        elif source.suffix in _WRITTEN_ONCE:
            os.link(source, target)
        else:
            shutil.copyfile(source, target)


def _is_sound(store: ViewStore) -> bool:
    if not store.bookmark.is_exact:
        return False
    with store.snapshot() as snapshot:
        return snapshot.intact() is not False


def _found(directory: Path) -> tuple[StoreSnapshot, ...]:
    snapshots = []
    for path in sorted(directory.glob("*")):
        if path.name == _VOID:
            continue
        try:
            whole = path.name.isdecimal()
            bookmark = Bookmark.from_text((path / _BOOKMARK).read_text()) if whole else None
        except (OSError, StorageError) as error:
            _LOG.warning("the snapshot in %s cannot be read, and is deleted: %s", path, error)
            bookmark = None
        if bookmark is None:
            shutil.rmtree(path, ignore_errors=True)
        else:
            snapshots.append(StoreSnapshot(path, bookmark))
    return tuple(snapshots)


def _remove(path: Path) -> None:
    try:
        remove_directory(path, path.with_name(path.name + _REMOVING))
    except StorageError as error:  # the next start finds it and removes it
        _LOG.warning("a snapshot could not be removed: %s", error)
