"""The content of a backup, as values: the partitions at each point in time, and the files with their pieces.

A *point* is a moment of the log: for each partition up to where it goes. A *stored file* is one generation of a
``.log`` or ``.snapshot`` file, or of the leaves of a verifiable partition, in pieces; it belongs to the points from
``added`` on, before ``removed``.
A point names no pieces: it takes the files of its number and cuts the last one at ``end_position``. So pieces can be
merged without touching any point.

The state is a fold of *entries*: one for each point, and some in between which only add files. Everything here is JSON,
compressed, with a checksum. Pure data, no I/O.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from mainstem.errors import CorruptBatchError
from mainstem.log.files.names import LOG, SNAPSHOT
from mainstem.log.segments.remote_segment import StoredPiece
from mainstem.model import TopicPartition
from mainstem.record.checksum import crc32c

VERSION: Final = 1
TREE: Final = ".tree"
"""The suffix of a partition's leaves, of offset 0: all hashes of its tree are computed from them."""
_MAGIC: Final = b"MSBK1 %08x\n"
_MAGIC_BYTES: Final = len(b"MSBK1 00000000\n")
PartitionKey: TypeAlias = str
"""A partition of one topic id: a recreated topic has another."""


@dataclass(slots=True)
class StoredFile:
    """One generation of a file. ``identity`` is the local file that was read; ``end_offset`` follows its end."""

    offset: int
    suffix: str
    added: int
    identity: str
    end_offset: int
    removed: int | None = None
    pieces: list[StoredPiece] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The bytes that are stored."""
        return self.pieces[-1].end if self.pieces else 0

    @property
    def is_closed(self) -> bool:
        """Whether it is all of a segment that does not grow any more."""
        return self.identity.count(":") == 3

    def is_of(self, number: int) -> bool:
        """Whether it belongs to the point of this number."""
        return self.added <= number and (self.removed is None or self.removed > number)

    def as_json(self) -> list[Any]:
        """For an entry."""
        pieces = [list(piece) for piece in self.pieces]
        return [self.offset, self.suffix, self.added, self.identity, self.end_offset, self.removed, pieces]

    @classmethod
    def of_json(cls, values: list[Any]) -> StoredFile:
        """From an entry."""
        offset, suffix, added, identity, end_offset, removed, pieces = values
        return cls(offset, suffix, added, identity, end_offset, removed, [StoredPiece(*piece) for piece in pieces])

    @property
    def name(self) -> tuple[int, str, int]:
        """Its key among all files of its partition."""
        return self.offset, self.suffix, self.added


class PartitionEnd(NamedTuple):
    """A partition at a point. Its last segment begins at ``last_base`` and is cut at ``end_position``."""

    topic_id: str
    log_start_offset: int
    end_offset: int
    last_base: int
    end_position: int
    epochs: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class ManifestEntry:
    """A step of the state. ``ends`` has the partitions that changed, None for one that is gone."""

    number: int
    time_ms: int
    leader_epoch: int
    is_point: bool
    ends: dict[TopicPartition, PartitionEnd | None] = field(default_factory=dict)
    files: dict[PartitionKey, list[StoredFile]] = field(default_factory=dict)
    gone: dict[PartitionKey, list[tuple[int, str, int]]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.ends or self.files or self.gone)


@dataclass(slots=True)
class BackupState:
    """All of it at one number."""

    number: int = 0
    time_ms: int = 0
    leader_epoch: int = 0
    ends: dict[TopicPartition, PartitionEnd] = field(default_factory=dict)
    files: dict[PartitionKey, dict[tuple[int, str, int], StoredFile]] = field(default_factory=dict)

    def apply(self, entry: ManifestEntry) -> None:
        """Take the next entry."""
        self.number = entry.number
        if entry.is_point:
            self.time_ms, self.leader_epoch = entry.time_ms, entry.leader_epoch
        for topic_partition, end in entry.ends.items():
            if end is None:
                self.ends.pop(topic_partition, None)
            else:
                self.ends[topic_partition] = end
        for key, files in entry.files.items():
            self.files.setdefault(key, {}).update({file.name: file for file in files})
        for key, names in entry.gone.items():
            for name in names:
                self.files.get(key, {}).pop(name, None)
            if not self.files.get(key):
                self.files.pop(key, None)

    def current(self, key: PartitionKey, suffix: str) -> dict[int, StoredFile]:
        """The files of the newest point, by offset, rising."""
        found = (file for file in self.files.get(key, {}).values() if file.suffix == suffix and file.removed is None)
        return {file.offset: file for file in sorted(found, key=lambda file: file.offset)}

    def at(self, key: PartitionKey, number: int, end: PartitionEnd) -> tuple[list[StoredFile], StoredFile | None]:
        """The segments of a partition at a point, and the producers' snapshot for it."""
        files = [file for file in self.files.get(key, {}).values() if file.is_of(number)]
        segments = sorted((f for f in files if f.suffix == LOG and f.offset <= end.last_base), key=lambda f: f.offset)
        snapshots = [f for f in files if f.suffix == SNAPSHOT and f.offset <= end.end_offset]
        return segments, max(snapshots, key=lambda f: f.offset, default=None)

    def tree_at(self, key: PartitionKey, number: int) -> StoredFile | None:
        """The leaves of a verifiable partition at a point; also later ones, which the point's end cuts off."""
        return next((f for f in self.files.get(key, {}).values() if f.suffix == TREE and f.is_of(number)), None)

    def all_files(self) -> Iterator[tuple[PartitionKey, StoredFile]]:
        """Each file that any point needs."""
        for key, files in self.files.items():
            for file in files.values():
                yield key, file


def key_of(topic_id: str, partition: int) -> PartitionKey:
    """The key of a partition."""
    return f"{topic_id}/{partition}"


def encode_entry(entry: ManifestEntry) -> bytes:
    """The object's bytes."""
    return _packed(
        {
            "version": VERSION,
            "number": entry.number,
            "time_ms": entry.time_ms,
            "leader_epoch": entry.leader_epoch,
            "is_point": entry.is_point,
            "ends": _ends_json(entry.ends),
            "files": {key: [file.as_json() for file in files] for key, files in entry.files.items()},
            "gone": entry.gone,
        }
    )


def decode_entry(data: bytes) -> ManifestEntry:
    """Read the object's bytes. Raises CorruptBatchError."""
    found = _unpacked(data)
    return ManifestEntry(
        found["number"],
        found["time_ms"],
        found["leader_epoch"],
        found["is_point"],
        dict(_ends_of(found["ends"])),
        {key: [StoredFile.of_json(each) for each in files] for key, files in found["files"].items()},
        {key: [(name[0], name[1], name[2]) for name in names] for key, names in found["gone"].items()},
    )


def encode_state(state: BackupState) -> bytes:
    """The object's bytes."""
    files: dict[str, list[Any]] = {}
    for key, file in state.all_files():
        files.setdefault(key, []).append(file.as_json())
    return _packed(
        {
            "version": VERSION,
            "number": state.number,
            "time_ms": state.time_ms,
            "leader_epoch": state.leader_epoch,
            "ends": _ends_json(state.ends),
            "files": files,
        }
    )


def decode_state(data: bytes) -> BackupState:
    """Read the object's bytes. Raises CorruptBatchError."""
    found = _unpacked(data)
    state = BackupState(found["number"], found["time_ms"], found["leader_epoch"])
    state.ends = {name: end for name, end in _ends_of(found["ends"]) if end is not None}
    for key, files in found["files"].items():
        state.files[key] = {file.name: file for file in map(StoredFile.of_json, files)}
    return state


def _ends_json(ends: Mapping[TopicPartition, PartitionEnd | None]) -> list[list[Any]]:
    return [[name.topic, name.partition, None if end is None else list(end)] for name, end in ends.items()]


def _ends_of(values: Iterable[list[Any]]) -> Iterator[tuple[TopicPartition, PartitionEnd | None]]:
    for topic, partition, end in values:
        parsed = None if end is None else PartitionEnd._make([*end[:-1], tuple((each[0], each[1]) for each in end[-1])])
        yield TopicPartition(topic, partition), parsed


def _packed(document: Mapping[str, Any]) -> bytes:
    body = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)
    return _MAGIC % crc32c(body) + body


def _unpacked(data: bytes) -> dict[str, Any]:
    body = data[_MAGIC_BYTES:]
    if data[:_MAGIC_BYTES] != _MAGIC % crc32c(body):
        raise CorruptBatchError("an object of the backup's manifest does not match its checksum")
    document: dict[str, Any] = json.loads(zlib.decompress(body))
    return document
