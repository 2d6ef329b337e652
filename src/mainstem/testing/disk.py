"""A disk in memory that loses what was not synced: for tests of everything that must survive a power cut.

``FaultyDisk`` keeps two states, what programs see and what is on the platter, and all steps in between:

* ``power_cut`` removes the state that programs saw. Of the writes to each file since its last sync it keeps a part,
  chosen by the seed: none, all, or some 512-byte sectors (so writes are dropped, torn and reordered). Of the changes
  to names since each directory's last sync it keeps the first few. ``kill`` ends programs only: they find their
  writes, and a lock is free again.
* ``cut_power_at_call = n`` stops the n-th call from now on with PowerCutError, before or in the middle of its work;
  every later call fails in the same way until ``power_cut``. ``cut_power`` does it at once: programs that still run
  then write nothing more.
* ``fail_at_call = n`` makes the n-th call from now on fail with an input/output error, before its work.
* ``fail_syncs`` makes syncs fail with an input/output error. As in Linux, the pages then count as clean: a later sync
  succeeds and writes nothing.
* ``capacity_bytes`` makes writes fail half way when the disk is full. ``flip_bit`` damages stored bytes.
* ``on_call`` is called before each call does its work, and may copy the disk as a power cut at that moment would leave
  it. So one history can be cut at each of its calls without running it again for each.

The same seed and calls give the same result. Calls of several threads take turns; ``on_call`` runs in its call's turn.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from mainstem.errors import DirectoryLockedError, StorageError

Buffer = bytes | bytearray | memoryview
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

SECTOR_BYTES: Final = 512


class PowerCutError(Exception):
    """The power is off. Not a StorageError: no program survives it to handle it."""


class _Write:
    """Bytes written at a file position; ``data`` None is a truncation to that size."""

    __slots__ = ("data", "file_position")

    def __init__(self, file_position: int, data: bytes | None) -> None:
        self.file_position = file_position
        self.data = data

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.file_position :]
            content.extend(bytes(self.file_position - len(content)))
            return
        if len(content) < self.file_position:
            content.extend(bytes(self.file_position - len(content)))
        content[self.file_position : self.file_position + len(self.data)] = self.data

    def sectors(self) -> list[_Write]:
        """The same as writes of single sectors, which reach the platter one by one."""
        if self.data is None:
            return [self]
        parts = []
        start, end = self.file_position, self.file_position + len(self.data)
        while start < end:
            stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
            parts.append(_Write(start, self.data[start - self.file_position : stop - self.file_position]))
            start = stop
        return parts


class _Content:
    """A file's content: what programs see, what is on the platter, and the writes between them."""

    __slots__ = ("on_platter", "pending", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.on_platter = b""
        self.pending: list[_Write] = []

    def change(self, write: _Write) -> None:
        write.apply(self.seen)
        self.pending.append(write)

    def sync(self) -> None:
        if self.pending:
            content = bytearray(self.on_platter)
            for write in self.pending:
                write.apply(content)
            self.on_platter = bytes(content)
            self.pending.clear()

    def copy(self) -> _Content:
        twin = _Content()
        twin.seen = bytearray(self.seen)
        twin.on_platter = self.on_platter
        twin.pending = list(self.pending)
        return twin

    def give_up(self, chance: random.Random) -> None:
        """A sync has failed: some sectors got there, the rest never will, and programs see them all the same."""
        content = bytearray(self.on_platter)
        share = chance.choice((0.0, 0.5, 0.9, 1.0))
        for write in self.pending:
            for sector in write.sectors():
                if chance.random() < share:
                    sector.apply(content)
        self.on_platter = bytes(content)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        self.give_up(chance)
        self.seen = bytearray(self.on_platter)


class _NameStep(NamedTuple):
    """One change of a directory's names: ``name`` is made, or, if ``entry`` is None, moved or removed."""

    name: str
    entry: _Content | _Directory | None
    renamed_to: str | None = None

    def apply(self, names: dict[str, _Content | _Directory]) -> None:
        if self.entry is not None:
            names[self.name] = self.entry
        elif self.renamed_to is not None:
            names[self.renamed_to] = names.pop(self.name)
        else:
            names.pop(self.name, None)


class _Directory:
    """Names, as programs see them and as they are on the platter."""

    __slots__ = ("on_platter", "pending", "seen")

    def __init__(self) -> None:
        self.seen: dict[str, _Content | _Directory] = {}
        self.on_platter: dict[str, _Content | _Directory] = {}
        self.pending: list[_NameStep] = []

    def change(self, step: _NameStep) -> None:
        step.apply(self.seen)
        self.pending.append(step)

    def sync(self) -> None:
        self.keep(len(self.pending))

    def keep(self, steps: int) -> None:
        for step in self.pending[:steps]:
            step.apply(self.on_platter)
        self.pending.clear()

    def copy(self, twins: dict[int, _Content | _Directory]) -> _Directory:
        """The same, of twins of all that is in it; ``twins`` are by the identity of what they were made of."""
        twin = _Directory()
        twin.seen = {name: _twin(entry, twins) for name, entry in self.seen.items()}
        twin.on_platter = {name: _twin(entry, twins) for name, entry in self.on_platter.items()}
        twin.pending = [
            step if step.entry is None else step._replace(entry=_twin(step.entry, twins)) for step in self.pending
        ]
        return twin

    def lose_power(self, chance: random.Random) -> None:
        self.keep(chance.choice((0, chance.randint(0, len(self.pending)), len(self.pending))))
        self.seen = dict(self.on_platter)
        for _, entry in sorted(self.seen.items()):
            entry.lose_power(chance)


def _twin(entry: _Content | _Directory, twins: dict[int, _Content | _Directory]) -> _Content | _Directory:
    twin = twins.get(id(entry))
    if twin is None:
        twin = twins[id(entry)] = entry.copy() if isinstance(entry, _Content) else entry.copy(twins)
    return twin


class CutDisk(NamedTuple):
    """The argument of ``on_call``: the disk in the middle of a call that may be a write."""

    disk: FaultyDisk
    torn: tuple[_Content, _Write] | None

    def copy(self, seed: int) -> FaultyDisk:
        """A disk of its own in that state; ``power_cut`` it. The seed decides what survives."""
        twins: dict[int, _Content | _Directory] = {}
        disk = FaultyDisk(seed)
        disk._root = self.disk._root.copy(twins)
        if self.torn is not None:
            content, write = self.torn
            twin = twins.get(id(content))
            if isinstance(twin, _Content):
                twin.change(write)
        return disk


def _in_turn(
    call: Callable[Concatenate[FaultyDisk, _Given], _Result],
) -> Callable[Concatenate[FaultyDisk, _Given], _Result]:
    """A method of a FaultyDisk that one thread at a time calls."""

    @functools.wraps(call)
    def in_turn(disk: FaultyDisk, /, *args: _Given.args, **options: _Given.kwargs) -> _Result:
        with disk._turn:
            return call(disk, *args, **options)

    return in_turn


class FaultyDisk:
    """A disk in memory with faults. ``calls`` counts the storage calls that were made."""

    def __init__(self, seed: int = 0) -> None:
        self.calls = 0
        self.cut_power_at_call: int | None = None
        self.fail_at_call: int | None = None
        self.capacity_bytes: int | None = None
        self.on_call: Callable[[CutDisk], None] | None = None
        self._turn = threading.RLock()
        self._chance = random.Random(seed)
        self._root = _Directory()
        self._is_off = False
        self._locks: set[PurePath] = set()
        self._failing_syncs: dict[str, int] = {}

    # Faults

    @_in_turn
    def cut_power(self) -> None:
        """Let every call fail with PowerCutError from now on, until ``power_cut``: for programs that still run."""
        self._is_off = True

    @property
    def is_off(self) -> bool:
        """Whether calls fail because the power is off."""
        return self._is_off

    @_in_turn
    def power_cut(self) -> None:
        """Lose what was not synced, then have power again."""
        self._root.lose_power(self._chance)
        self.kill()

    @_in_turn
    def kill(self) -> None:
        """End the programs that use the disk; what they wrote stays visible, synced or not."""
        self._locks.clear()
        self._is_off = False
        self.cut_power_at_call = None

    def fail_syncs(self, pattern: str, times: int = 1) -> None:
        """Let the next syncs of files (or directories) whose path matches ``pattern`` fail."""
        self._failing_syncs[pattern] = times

    def flip_bit(self, path: PurePath, file_position: int, bit: int = 0) -> None:
        """Rot one bit of a file, for programs and on the platter."""
        content = self._content(path)
        content.sync()
        content.seen[file_position] ^= 1 << bit
        content.on_platter = bytes(content.seen)

    def content(self, path: PurePath) -> bytes:
        """The content of a file that programs see."""
        return bytes(self._content(path).seen)

    def used_bytes(self) -> int:
        """The size of all files."""
        return sum(len(content.seen) for content in self._all_contents(self._root))

    def _all_contents(self, directory: _Directory) -> list[_Content]:
        found = []
        for entry in directory.seen.values():
            found += self._all_contents(entry) if isinstance(entry, _Directory) else [entry]
        return found

    # The Disk port

    @_in_turn
    def open(self, path: PurePath) -> FaultyFile:
        """Open a file that exists."""
        self._call()
        return FaultyFile(self, path, self._content(path))

    @_in_turn
    def create(self, path: PurePath) -> FaultyFile:
        """Open a file that is new or emptied."""
        self._call()
        directory = self._directory(path.parent)
        content = directory.seen.get(path.name)
        if isinstance(content, _Directory):
            raise StorageError(f"cannot create {path}: Is a directory")
        if content is None:
            content = _Content()
            self._put(directory, path.name, content)
        else:
            content.change(_Write(0, None))
        return FaultyFile(self, path, content)

    @_in_turn
    def exists(self, path: PurePath) -> bool:
        """Whether a file or directory of this name is there."""
        self._call()
        return self._find(path) is not None

    @_in_turn
    def list(self, path: PurePath) -> list[str]:
        """The names in a directory."""
        self._call()
        return sorted(self._directory(path).seen)

    @_in_turn
    def make_directory(self, path: PurePath) -> None:
        """Make a directory and its parents."""
        self._call()
        for each in reversed((path, *path.parents)):
            if self._find(each) is None:
                self._put(self._directory(each.parent), each.name, _Directory())

    @_in_turn
    def rename(self, source: PurePath, target: PurePath) -> None:
        """Rename within one directory."""
        self._call()
        if source.parent != target.parent:
            raise StorageError(f"cannot rename {source} to {target}: another directory")
        directory = self._directory(source.parent)
        if source.name not in directory.seen:
            raise StorageError(f"cannot rename {source}: No such file or directory")

        directory.change(_NameStep(source.name, None, target.name))

    @_in_turn
    def remove(self, path: PurePath) -> None:
        """Remove a file if it is there."""
        self._call()
        directory = self._directory(path.parent)
        if path.name in directory.seen:
            directory.change(_NameStep(path.name, None))

    @_in_turn
    def remove_directory(self, path: PurePath) -> None:
        """Remove a directory with all that is in it."""
        self._directory(path)
        self.remove(path)

    @_in_turn
    def sync_directory(self, path: PurePath) -> None:
        """Make the names in a directory durable."""
        self._call()
        directory = self._directory(path)
        if self._sync_fails(path):
            raise StorageError(f"cannot sync the directory {path}: Input/output error")
        directory.sync()

    @_in_turn
    def lock(self, path: PurePath) -> FaultyLock:
        """Take a lock."""
        self._call()
        if path in self._locks:
            raise DirectoryLockedError(f"{path.parent} is in use by another process")
        self._locks.add(path)
        return FaultyLock(self._locks, path)

    # What files call

    @_in_turn
    def write(self, path: PurePath, content: _Content, file_position: int, data: bytes) -> None:
        """One write call: all of it, or as much as there was power or space for."""
        half = _Write(file_position, data[: len(data) // 2])
        try:
            self._call((content, half))
        except PowerCutError:
            content.change(half)
            raise
        if self.capacity_bytes is not None:
            room = self.capacity_bytes - self.used_bytes() + max(0, len(content.seen) - file_position)
            if len(data) > room:
                content.change(_Write(file_position, data[: max(0, room)]))
                raise StorageError(f"cannot write {path}: No space left on device")
        content.change(_Write(file_position, data))

    @_in_turn
    def truncate(self, content: _Content, size_bytes: int) -> None:
        """One truncate call."""
        self._call()
        content.change(_Write(size_bytes, None))

    @_in_turn
    def sync(self, path: PurePath, content: _Content) -> None:
        """One fdatasync call."""
        self._call()
        if self._sync_fails(path):
            content.give_up(self._chance)
            raise StorageError(f"cannot sync {path}: Input/output error")
        content.sync()

    @_in_turn
    def call(self) -> None:
        """One call that changes nothing."""
        self._call()

    def _call(self, torn: tuple[_Content, _Write] | None = None) -> None:
        if self._is_off:
            raise PowerCutError
        self.calls += 1
        if self.on_call is not None:
            self.on_call(CutDisk(self, torn))
        if self.cut_power_at_call is not None:
            self.cut_power_at_call -= 1
            if self.cut_power_at_call <= 0:
                self._is_off = True
                raise PowerCutError
        if self.fail_at_call is not None:
            self.fail_at_call -= 1
            if self.fail_at_call <= 0:
                self.fail_at_call = None
                raise StorageError("Input/output error")

    def _sync_fails(self, path: PurePath) -> bool:
        for pattern, times in self._failing_syncs.items():
            if times > 0 and fnmatch(str(path), pattern):
                self._failing_syncs[pattern] -= 1
                return True
        return False

    def _put(self, directory: _Directory, name: str, entry: _Content | _Directory) -> None:
        directory.change(_NameStep(name, entry))

    def _find(self, path: PurePath) -> _Content | _Directory | None:
        entry: _Content | _Directory | None = self._root
        for name in path.parts:
            if name == path.root:
                continue
            if not isinstance(entry, _Directory):
                return None
            entry = entry.seen.get(name)
        return entry

    def _directory(self, path: PurePath) -> _Directory:
        entry = self._find(path)
        if not isinstance(entry, _Directory):
            raise StorageError(f"cannot open the directory {path}: No such file or directory")
        return entry

    def _content(self, path: PurePath) -> _Content:
        entry = self._find(path)
        if not isinstance(entry, _Content):
            raise StorageError(f"cannot open {path}: No such file or directory")
        return entry


class FaultyFile:
    """A file of a FaultyDisk."""

    def __init__(self, disk: FaultyDisk, path: PurePath, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    def size_bytes(self) -> int:
        """The file's size."""
        self._disk.call()
        return len(self._content.seen)

    def read(self, file_position: int, length: int) -> bytes:
        """At most ``length`` bytes."""
        self._disk.call()
        return bytes(self._content.seen[file_position : file_position + length])

    def view(self, file_position: int, length: int) -> memoryview:
        """As ``read``."""
        return memoryview(self.read(file_position, length))

    def write(self, file_position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers."""
        self._disk.write(self.path, self._content, file_position, b"".join(buffers))

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend."""
        self._disk.truncate(self._content, size_bytes)

    def sync(self) -> None:
        """Put the writes so far on the platter."""
        self._disk.sync(self.path, self._content)

    def close(self) -> None:
        """Nothing to release."""


class FaultyLock:
    """A lock of a FaultyDisk."""

    def __init__(self, locks: set[PurePath], path: PurePath) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """Let others take it."""
        self._locks.discard(self._path)
