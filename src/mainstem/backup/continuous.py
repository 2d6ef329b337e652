"""The loop of a backup: a round every few seconds, and after an error another try, with growing pauses.

One process backs up a directory: it holds ``run/backup.lock``. ``run/backup-writer`` names the writer that
this directory has claimed the manifest with, and its next one. A manifest that another has claimed belongs to another
copy of the directory (a clone), and is refused unless ``take_over`` says so.

Nothing that the store does stops more than this loop. Concurrency: one thread; ``stop`` from any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstem.background import StopEvent
from mainstem.backup.backup_round import BackupRounds, MoreToStoreError
from mainstem.backup.held_until import Behind, HeldUntil
from mainstem.backup.manifest import ROOT, BackupTakenError, LogIdentity, Manifest, Root, new_writer
from mainstem.backup.retention import Keeper
from mainstem.backup.source import ChangedError, DataDirectory, Moment, NoLogYetError
from mainstem.backup.status import BackupStatus
from mainstem.clock import Clock, SystemClock, utc_time
from mainstem.durable_files import LOCAL_FILES, DirectoryLock, private_directory, replace_file
from mainstem.errors import MainstemError, StorageError
from mainstem.log.segments.remote_segment import BACKUP_WRITERS
from mainstem.model import TopicPartition
from mainstem.object_stores.opening import probe
from mainstem.object_stores.store import ObjectMissingError, ObjectStore

EVERY_S: Final = 5.0
KEEP_S: Final = 7 * 86_400.0
_LOCK: Final = "backup.lock"
_START_PAUSE_S: Final = 1.0
_CHANGED_PAUSE_S: Final = 0.3
_CHANGED_TRIES: Final = 200
_NOT_HELD: Final = "what the log has stored since the last whole round is not in the backup"
_BEHIND_MS: Final = 60_000
"""A log that writes checkpoints is never so far behind its files."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class BackupOptions:
    """``every_s`` between rounds, ``keep_s`` for points in time. ``take_over`` the manifest of another copy.

    ``pauses_s``: the first one after an error, and the longest.
    """

    every_s: float = EVERY_S
    keep_s: float = KEEP_S
    take_over: bool = False
    pauses_s: tuple[float, float] = (1.0, 60.0)


class Backup:
    """The backup of one data directory into one store."""

    def __init__(
        self,
        data: Path,
        store: ObjectStore,
        options: BackupOptions,
        status: BackupStatus,
        tell: Tell,
        clock: Clock | None = None,
    ) -> None:
        self._directory = DataDirectory(data)
        self._run = data / "run"
        self._writers = data / BACKUP_WRITERS
        self._store = store
        self._options = options
        self._status = status
        self._tell = tell
        self._clock = clock or SystemClock()
        self._keeper = Keeper(self._clock, options.keep_s)
        self._stopping = StopEvent()
        self._rounds: BackupRounds | None = None
        self._claimed_for: LogIdentity | None = None
        self._lock: DirectoryLock | None = None
        self._is_probed = False
        self._held = HeldUntil(self._directory)
        self._told_beyond: TopicPartition | None = None

    def stop(self) -> None:
        """Let the loop end after its round."""
        self._stopping.set()

    def __enter__(self) -> Backup:
        """Take the directory's backup. Raises DirectoryLockedError, StorageError."""
        if not self._run.parent.is_dir():
            raise StorageError(f"{self._run.parent} is not a data directory: name one with --data")
        private_directory(self._run)
        self._lock = DirectoryLock.take(
            self._run / _LOCK, f"{self._run.parent} is being backed up by another process, {{holder}}: stop that one"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
        if self._lock is not None:
            self._lock.release()

    def run(self) -> None:
        """Run until ``stop``, inside the context. Each error is reported, and the round tried again."""
        pause_s, longest_s = self._options.pauses_s
        while not self._stopping.is_set():
            try:
                self.round()
            except NoLogYetError:
                self._stopping.wait(_START_PAUSE_S)
            except MainstemError as error:
                self._failed(error, "it is tried again")
                self._stopping.wait(pause_s)
                pause_s = min(pause_s * 2, longest_s)
            else:
                pause_s = self._options.pauses_s[0]
                self._stopping.wait(self._options.every_s)
        self._round_at_end()

    def _round_at_end(self) -> None:
        """Take along what the log has stored since, when it was stopped before this process."""
        if self._rounds is not None:
            try:
                if self.round() is None:
                    self._tell(f"backup: it was stopped in the middle of its last round; {_NOT_HELD}")
            except MainstemError as error:
                self._failed(error, _NOT_HELD)

    def _failed(self, error: MainstemError, what_follows: str) -> None:
        self._let_go()
        if str(error) != self._status.last_error:
            self._tell(f"backup: {error}; {what_follows}")
        self._status.failed(str(error))

    def round(self) -> int | None:
        """Bring the backup up to now, inside the context; the number of its newest point. Raises the first error.

        None when it was stopped before it had all.

        A round begins again as long as the log changes its files meanwhile.
        """
        if self._rounds is not None and self._directory.source() != self._claimed_for:
            self._let_go()  # another log came into the directory: it may not write there
        rounds = self._rounds or self._claimed()
        changed = ""
        for _ in range(_CHANGED_TRIES):
            try:
                moment = rounds.run()
            except MoreToStoreError:
                self._status.stored_bytes = rounds.stored_bytes
                self._status.publish()
                if self._stopping.is_set():
                    break
            except ChangedError as error:
                changed = str(error)
                if self._stopping.wait(_CHANGED_PAUSE_S):
                    break
            else:
                self._report(rounds, moment)
                return rounds.number
        if self._stopping.is_set():
            return None
        raise StorageError(
            f"{changed}. Either the files of {self._directory.path} change faster than they can be read, or the log "
            "was killed while it changed them. If it does not run, start the log: the backup then goes on"
        )

    def _report(self, rounds: BackupRounds, moment: Moment) -> None:
        """Show what the backup has after a round. Raises StorageError."""
        self._status.stored_bytes = rounds.stored_bytes
        left_out = [f"{name} is left out: {why}" for name, why in sorted(rounds.left_out.items())]
        for text in left_out:
            if text not in self._status.left_out:
                self._tell(f"backup: {text}")
        now_ms = self._clock.time_ms()  # before the look at the files, which then has all that is older
        held_ms, behind = self._held.look(moment, rounds.ends, now_ms)
        text = ""
        if behind is not None and now_ms - behind.seen_ms > _BEHIND_MS and not left_out:
            text = self._why_behind(behind)
        partition = None if behind is None else behind.topic_partition
        if text and partition != self._told_beyond:
            self._tell(f"backup: {text}")
        if text or partition is None:
            self._told_beyond = partition
        self._status.held(held_ms, rounds.number, left_out, text)

    def _why_behind(self, behind: Behind) -> str:
        """Why the backup lacks records of a partition for long; empty when the log has noted them meanwhile."""
        partition = behind.topic_partition
        if self._directory.moment().checkpoint.partitions.get(partition) != behind.line:
            return ""  # the round took long
        return (
            f"{partition} has records that are not in the log's checkpoint, at least since {utc_time(behind.seen_ms)}, "
            "so the backup lacks them. Either the log cannot write its checkpoint or this partition: its output says "
            "why. Or the log was killed, and this partition was not used since: then read one record of it"
        )

    def _claimed(self) -> BackupRounds:
        source = self._directory.source()
        self._directory.moment()  # before anything is claimed: the log must have begun
        if not self._is_probed:
            probe(self._store)
            self._is_probed = True
        writer = new_writer()
        last = self._last_writer()
        replace_file(LOCAL_FILES, self._writers, "\n".join([*last, writer]).encode())
        manifest = Manifest.claim(self._store, source, writer)
        self._claimed_for = source
        self._rounds = BackupRounds(self._directory, manifest, self._keeper, self._damaged)
        return self._rounds

    def _known_writers(self) -> list[str]:
        with suppress(FileNotFoundError):
            return self._writers.read_text().split()
        return []

    def _last_writer(self) -> list[str]:
        """The writer of the manifest, if there is one. Raises BackupTakenError when it is of another copy."""
        try:
            root = Root.decode(self._store.get(ROOT).data, self._store.url)
        except ObjectMissingError:
            return []
        is_own = self._options.take_over or root.writer in self._known_writers()
        if root.source.directory_id == self._directory.source().directory_id and not is_own:
            raise BackupTakenError(
                f"{self._store.url} was written last from another copy of this directory: {root.source.path} on "
                f"{root.host}. Give this one a URL of its own, or, if that copy is gone, say --take-over"
            )
        return [root.writer]

    def _damaged(self, text: str) -> None:
        if text not in self._status.damages:
            self._status.damages.append(text)
            self._tell(f"backup: {text}")

    def _let_go(self) -> None:
        if self._rounds is not None:
            self._rounds.close()
        self._rounds = None
