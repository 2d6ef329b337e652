"""The manifest of a backup in its store: who writes it, and the entries and states that make it up.

    backup.json                      the root: the log's identity, the writer, the newest entry, the chapters
    points/<number>-<writer>         an entry: a point in time, or files on their way to the next one
    chapters/<number>-<writer>       the whole state at a point, about once an hour
    data/<number>-<writer>-<count>   bytes of files

Only the root changes, by compare-and-set; all else is written once, under a name with its writer's id. A writer claims
the root when it starts. From then on every commit of an earlier writer fails, so two never mix. The root keeps, for
each writer, from which number on the entries are its own: an entry that a writer left and never committed does not
belong to the backup.

Concurrency: one thread.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from mainstem.backup.catalog import (
    VERSION,
    BackupState,
    ManifestEntry,
    decode_entry,
    decode_state,
    encode_entry,
    encode_state,
)
from mainstem.errors import ConfigError, InputError
from mainstem.log.segments.remote_segment import BACKUP_ROOT
from mainstem.object_stores.store import (
    ObjectMissingError,
    ObjectStore,
    StoreConflictError,
    StoreError,
)

ROOT: Final = BACKUP_ROOT
POINTS, CHAPTERS, DATA = "points", "chapters", "data"
_FORMAT: Final = "mainstem-backup"
_AT_ONCE: Final = 16


class BackupTakenError(InputError):
    """The URL belongs to another log, or another process has claimed it since."""


def new_writer() -> str:
    """A name for a writer: each start of a backup has one."""
    return secrets.token_hex(4)


@dataclass(frozen=True)
class LogIdentity:
    """Whose log it is: the identity in ``meta.properties``, and where it was when it was backed up."""

    cluster_id: str
    directory_id: str
    node_id: int
    path: str = ""


@dataclass(frozen=True)
class Root:
    """The root object. ``writers`` has (first number, writer), ``chapters`` (number, time), both rising by number."""

    source: LogIdentity
    writer: str
    host: str
    pid: int
    newest: int = 0
    horizon_ms: int = 0
    writers: tuple[tuple[int, str], ...] = ()
    chapters: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """The object's bytes: JSON, to be read by eye."""
        return json.dumps({"format": _FORMAT, "version": VERSION, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, url: str) -> Root:
        """Read the object's bytes. Raises ConfigError for another version, and for other bytes."""
        try:
            found: dict[str, Any] = json.loads(data)
            if found.pop("format") != _FORMAT:
                raise ValueError
            version = found.pop("version")
            if version != VERSION:
                raise ConfigError(
                    f"{url} holds a backup of version {version}, and this Mainstem reads version {VERSION}: "
                    "use the version of Mainstem that wrote it"
                )
            found["source"] = LogIdentity(**found["source"])
            for name in ("writers", "chapters"):
                found[name] = tuple((pair[0], pair[1]) for pair in found[name])
            return cls(**found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{url}/{ROOT} is not the root of a backup: name another URL") from error

    def writer_of(self, number: int) -> str:
        """Who wrote the entry of this number."""
        return next((writer for first, writer in reversed(self.writers) if first <= number), "")

    def entry_name(self, number: int) -> str:
        """The object of an entry."""
        return f"{POINTS}/{number:012d}-{self.writer_of(number)}"

    def chapter_name(self, number: int) -> str:
        """The object of a chapter's state."""
        return f"{CHAPTERS}/{number:012d}-{self.writer_of(number)}"


class ManifestReader:
    """Reads the manifest as it is at one moment."""

    def __init__(self, store: ObjectStore) -> None:
        """Raises InputError when the store has no backup."""
        self.store = store
        try:
            self.root = Root.decode(store.get(ROOT).data, store.url)
        except ObjectMissingError as error:
            raise InputError(f"{store.url} holds no backup (it has no {ROOT}): name another URL") from error

    def chapter(self, number: int) -> BackupState:
        """The state at a chapter's beginning; the empty one for 0."""
        return decode_state(self.store.get(self.root.chapter_name(number)).data) if number else BackupState()

    def entries(self, after: int, last: int) -> Iterator[ManifestEntry]:
        """The entries from ``after`` + 1 to ``last``, in order."""
        names = [self.root.entry_name(number) for number in range(after + 1, last + 1)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for found in threads.map(self.store.get, names):
                yield decode_entry(found.data)

    def newest(self) -> BackupState:
        """The state that the newest entry gives."""
        number = self.root.chapters[-1][0] if self.root.chapters else 0
        state = self.chapter(number)
        for entry in self.entries(number, self.root.newest):
            state.apply(entry)
        return state


@dataclass
class Manifest:
    """The writer's hold on the manifest."""

    store: ObjectStore
    root: Root
    version: str
    state: BackupState = field(default_factory=BackupState)

    @classmethod
    def claim(cls, store: ObjectStore, source: LogIdentity, writer: str) -> Manifest:
        """Take the root for this writer, made if need be, and read the state.

        Raises BackupTakenError when it holds the backup of another log.
        """
        mine = Root(source, writer, socket.gethostname(), os.getpid())
        try:
            found = store.get(ROOT)
        except ObjectMissingError:
            root = replace(mine, writers=((1, writer),))
            try:
                return cls(store, root, store.create(ROOT, root.encode()))
            except StoreConflictError:
                found = store.get(ROOT)
        old = Root.decode(found.data, store.url)
        if (old.source.cluster_id, old.source.directory_id) != (source.cluster_id, source.directory_id):
            raise BackupTakenError(
                f"{store.url} holds the backup of another log: cluster {old.source.cluster_id}, "
                f"{old.source.path} on {old.host}. Give each log, and each restored one, a URL of its own"
            )
        writers = (*(each for each in old.writers if each[0] <= old.newest), (old.newest + 1, writer))
        root = replace(old, source=source, writer=writer, host=mine.host, pid=mine.pid, writers=writers)
        try:
            version = store.replace(ROOT, root.encode(), found.version)
        except StoreConflictError as error:
            raise StoreError(f"{store.url} was claimed by another process at the same moment") from error
        return cls(store, root, version, ManifestReader(store).newest())

    def commit(
        self, entry: ManifestEntry, *, begins_chapter: bool, keep: Iterable[tuple[int, int]], horizon_ms: int
    ) -> None:
        """Make an entry, whose data objects are all stored, a part of the backup.

        Raises BackupTakenError when another process has claimed the root; StoreError, and then nothing has changed.
        """
        writers = self.root.writers
        chapters = tuple(keep)
        root = replace(self.root, newest=entry.number, horizon_ms=horizon_ms, writers=writers, chapters=chapters)
        self.store.put(root.entry_name(entry.number), encode_entry(entry))
        self.state.apply(entry)
        if begins_chapter:
            root = replace(root, chapters=(*chapters, (entry.number, entry.time_ms)))
            self.store.put(root.chapter_name(entry.number), encode_state(self.state))
        first = root.chapters[0][0] if root.chapters else 0
        later = [slot for slot, each in enumerate(root.writers) if each[0] <= first]
        root = replace(root, writers=root.writers[later[-1] if later else 0 :])
        self._replace_root(root)

    def _replace_root(self, root: Root) -> None:
        data = root.encode()
        try:
            self.version = self.store.replace(ROOT, data, self.version)
        except StoreConflictError as error:
            found = self.store.get(ROOT)
            if found.data != data:  # else this very write was stored, and its answer lost
                other = Root.decode(found.data, self.store.url)
                raise BackupTakenError(
                    f"{self.store.url} was claimed by another process: {other.pid} on {other.host}, "
                    f"for {other.source.path}"
                ) from error
            self.version = found.version
        self.root = root
