"""Which points a backup keeps, and which objects go.

Every point of the last ``keep_s`` is kept; with them the chapter in which the oldest lies. What only older points need
goes: their entries, segments that the log has removed or compacted since, and deleted topics. What the log itself still
has is never removed.

The *horizon* is the time before which points may go. It follows ``now - keep`` by at most a minute for each second
that this process has run, and never goes back: a clock that jumps ahead takes no point before it is seen.

Objects that no entry names any more are removed a minute later, so a restore that reads an older manifest is not cut
off; those that a killed process has left go at the next start. An object stays as long as a ``.remote`` of the log
names it: the manifest may be an older one, and the log reads its old records there.

Concurrency: one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from mainstem.backup.catalog import BackupState, ManifestEntry, StoredFile
from mainstem.backup.manifest import CHAPTERS, DATA, POINTS, Manifest
from mainstem.clock import Clock

_CHAPTER_POINTS: Final = 500
_CHAPTER_MS: Final = 3_600_000
_HORIZON_SPEED: Final = 60
_REMOVE_AFTER_S: Final = 60.0
_REMOVED_AT_ONCE: Final = 1000


class Keeper:
    """Of one process; ``begin`` gives it the manifest of a new writer."""

    def __init__(
        self,
        clock: Clock,
        keep_s: float,
        *,
        remove_after_s: float = _REMOVE_AFTER_S,
        chapter_points: int = _CHAPTER_POINTS,
    ) -> None:
        self._clock = clock
        self._chapter_points = chapter_points
        self._keep_ms = int(keep_s * 1000)
        self._remove_after_s = remove_after_s
        self._looked_s = clock.monotonic_s()
        self._to_remove: list[tuple[float, str]] = []

    def begin(self, manifest: Manifest) -> None:
        """Take a claimed manifest, and find what earlier writers left."""
        self._manifest = manifest
        self._named = Counter(_objects(file for _, file in manifest.state.all_files()))
        self._to_remove = []
        self._note_left_over()

    def _note_left_over(self) -> None:
        root = self._manifest.root
        first = root.chapters[0][0] if root.chapters else 0
        wanted = {root.entry_name(number) for number in range(first, root.newest + 1)}
        wanted |= {root.chapter_name(number) for number, _ in root.chapters}
        for prefix in (DATA, POINTS, CHAPTERS):
            for found in self._manifest.store.list(f"{prefix}/"):
                if found.name not in wanted and found.name not in self._named:
                    self._remove_later(found.name)

    def _remove_later(self, name: str) -> None:
        self._to_remove.append((self._clock.monotonic_s() + self._remove_after_s, name))

    def commit(self, entry: ManifestEntry) -> None:
        """Commit an entry, with what has become too old taken out. Raises as ``Manifest.commit`` does."""
        manifest = self._manifest
        root, now_s = manifest.root, self._clock.monotonic_s()
        passed_ms = int((now_s - self._looked_s) * 1000)
        self._looked_s = now_s
        wanted_ms = self._clock.time_ms() - self._keep_ms
        horizon_ms = max(root.horizon_ms, min(wanted_ms, (root.horizon_ms or wanted_ms) + passed_ms * _HORIZON_SPEED))
        chapters = list(root.chapters)
        while len(chapters) > 1 and chapters[1][1] <= horizon_ms:
            chapters.pop(0)
        if chapters:
            self._forget_before(entry, manifest.state, chapters[0][0])
        former = [self._former(manifest.state, key, file) for key, files in entry.files.items() for file in files]
        forgotten = [manifest.state.files[key][name] for key, names in entry.gone.items() for name in names]
        is_due = not chapters or entry.number - chapters[-1][0] >= self._chapter_points
        begins_chapter = entry.is_point and (is_due or abs(entry.time_ms - chapters[-1][1]) >= _CHAPTER_MS)
        manifest.commit(entry, begins_chapter=begins_chapter, keep=chapters, horizon_ms=horizon_ms)
        self._count(entry, [*(file for file in former if file is not None), *forgotten])
        for number, _ in root.chapters[: len(root.chapters) - len(chapters)]:
            self._remove_later(root.chapter_name(number))
        if chapters and root.chapters:
            for number in range(root.chapters[0][0], chapters[0][0]):
                self._remove_later(root.entry_name(number))

    def _forget_before(self, entry: ManifestEntry, state: BackupState, first: int) -> None:
        """Let the entry take out files that no point from ``first`` on has."""
        changed = {(key, file.name) for key, files in entry.files.items() for file in files}
        for key, file in state.all_files():
            if file.removed is not None and file.removed <= first and (key, file.name) not in changed:
                entry.gone.setdefault(key, []).append(file.name)

    @staticmethod
    def _former(state: BackupState, key: str, file: StoredFile) -> StoredFile | None:
        return state.files.get(key, {}).get(file.name)

    def _count(self, entry: ManifestEntry, former: Iterable[StoredFile]) -> None:
        """Follow which objects are named; those that no file names any more go later."""
        self._named.update(_objects(file for files in entry.files.values() for file in files))
        for name in _objects(former):
            self._named[name] -= 1
            if not self._named[name]:
                del self._named[name]
                self._remove_later(name)

    def tidy(self, named_elsewhere: Callable[[], set[str] | None] = set) -> None:
        """Remove what has waited long enough. Raises StoreError; it is tried again.

        What ``named_elsewhere`` says stays for now: the log reads it, whatever the manifest says. None: all stays.
        """
        now_s = self._clock.monotonic_s()
        self._to_remove = [each for each in self._to_remove if each[1] not in self._named]
        due = [name for at_s, name in self._to_remove if at_s <= now_s]
        kept = named_elsewhere() if due else set()
        if kept is None:
            return
        gone = [name for name in due if name not in kept][:_REMOVED_AT_ONCE]
        if gone:
            self._manifest.store.delete(gone)
            taken = set(gone)
            self._to_remove = [each for each in self._to_remove if each[1] not in taken]


def _objects(files: Iterable[StoredFile]) -> list[str]:
    return [piece.object_name for file in files for piece in file.pieces]
