"""Backups of a running log, and what a restored directory holds."""

from __future__ import annotations

import filecmp
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mainstem.backup.catalog import BackupState
from mainstem.backup.continuous import Backup, BackupOptions
from mainstem.backup.manifest import ManifestReader
from mainstem.backup.restore import Restored, restore
from mainstem.backup.status import BackupStatus
from mainstem.backup.verification import verify_backup
from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.recovery.verify import verify_directory
from mainstem.model import Position
from mainstem.object_stores.opening import open_store
from mainstem.object_stores.store import ObjectStore, StoreError
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.eventually import eventually


def backup_of(data: Path, url: str, clock: Clock | None = None, **options: Any) -> Backup:
    """A backup that runs in this process."""
    clock = clock or SystemClock()
    return Backup(data, open_store(url), BackupOptions(**options), BackupStatus(None, clock), lambda _: None, clock)


def once(data: Path, url: str, **options: Any) -> int:
    """One round; the number of the newest point."""
    with backup_of(data, url, **options) as backup:
        return backup.round()


def backed_up(data: Path, url: str, end: Position, **options: Any) -> BackupState:
    """Back up until the backup's newest point has all records before ``end``; that point."""

    def covers() -> BackupState | None:
        once(data, url, **options)
        state = ManifestReader(open_store(url)).newest()
        ends = {name: found.end_offset for name, found in state.ends.items()}
        return state if all(ends.get(name, 0) >= offset for name, offset in end.items()) else None

    found = eventually(covers, f"the backup has all before {end}")
    assert found is not None
    return found


def restored(url: str, target: Path, at: str | None = None) -> Restored:
    """Restore, and see that nothing is damaged."""
    done = restore(open_store(url), target, at, lambda _: None)
    assert not verify_directory(OsDisk(), target).damages
    return done


def require_sound(url: str) -> None:
    """The backup has no damage."""
    report = verify_backup(open_store(url), lambda _: None)
    assert report.points
    assert not report.damages


def require_prefix(copy: Path, source: Path) -> None:
    """Each segment of the copy is, byte for byte, the beginning of the source's."""
    segments = sorted(copy.glob("*/*.log"))
    assert segments
    for path in segments:
        of_source = (source / path.relative_to(copy)).read_bytes()
        assert of_source[: path.stat().st_size] == path.read_bytes(), path


def require_same_segments(copy: Path, source: Path) -> None:
    """The segments are the same files."""
    names = [{path.relative_to(each) for path in each.glob("*/*.log")} for each in (copy, source)]
    assert names[0] == names[1]
    assert all(filecmp.cmp(copy / name, source / name, shallow=False) for name in names[0])


def values(directory: Path, topic: str) -> list[str]:
    """All committed values of a topic in a data directory, opened by a real broker."""
    with EmbeddedBroker(directory) as broker, Log(broker.bootstrap) as log:
        return values_of(log, topic)


def values_of(log: Log, topic: str) -> list[str]:
    """All committed values of a topic, up to its end now."""
    return sorted((record.value or b"").decode() for record in log.read(topic))


class FailingStore:
    """A real store of which some requests fail, as those of a store in trouble do. ``rate`` 1 fails all."""

    def __init__(self, store: ObjectStore, rate: float, seed: int = 7) -> None:
        self._store = store
        self.rate = rate
        self._chance = random.Random(seed)
        self._one = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "get_range", "put", "create", "replace", "list", "delete"):
            with self._one:
                fails, is_late = self._chance.random() < self.rate, self._chance.random() < 0.5
            if fails and not is_late:
                raise StoreError(f"the store failed at {name}")
            if fails:
                return lambda *arguments: (getattr(self._store, name)(*arguments), self._raise(name))
        return getattr(self._store, name)

    @staticmethod
    def _raise(name: str) -> None:
        raise StoreError(f"the answer to {name} was lost")


class BackupProcess:
    """A backup in a process of its own, to be killed."""

    def __init__(self, data: Path, url: str, every_s: float = 0.1) -> None:
        argv = [sys.executable, "-m", "mainstem.backup.process", "--data", str(data), "--url", url]
        argv += ["--every", str(every_s), "--stop-with-parent"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Stop it cleanly."""
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._process.communicate(timeout=30)


def flip_bit(path: Path, at: int) -> None:
    """Rot in a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
