"""The progress of a load, kept in the log with the loaded records, so that each row is there exactly once.

The rows of a load go out in transactions; each also commits, for a group of the load's own, the position just after
what was loaded, and as its metadata the row that was reached. A load that is run again finds the row and goes on there,
however it ended. Its transactional id is the group's name: an older run that still lives is fenced.

A load is the same when its identity is: the topic (by its id), the file's content, and the options that decide
what is written. Its progress is forgotten as every committed offset is (``offsets.retention.minutes`` after the last
commit). Used by one thread.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.client.wire.admin.groups import committed_entries
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.transactions import TransactionalProducer
from mainstem.connectors.bulk import NO_FIELDS, BulkAppender, RecordFields
from mainstem.errors import InputError, LogUnavailableError, MainstemError
from mainstem.model import LOAD_GROUP_PREFIX, Position

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem.client.log import Log, TopicInfo

_COMMIT_BYTES: Final = 32 << 20
_COMMIT_S: Final = 10.0
_TRANSACTION_S: Final = 60.0
_READ_BYTES: Final = 1 << 20


class StoredProgress(NamedTuple):
    """The rows that are loaded, the position just after them, and whether they are all."""

    rows: int = 0
    position: Position = Position()
    is_done: bool = False


def load_name(parts: Sequence[object]) -> str:
    """The name of the load that ``parts`` tell from every other."""
    return LOAD_GROUP_PREFIX + hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def load_identity(topic: TopicInfo, path: Path, options: Sequence[object]) -> str:
    """The name of a load: the same for the same file, topic and options. Raises InputError for a file that is gone."""
    content = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                content.update(block)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return load_name([topic.name, topic.topic_id, content.hexdigest(), *map(repr, options)])


class ResumableLoad:
    """One run of a load, a context manager. ``progress`` is what earlier runs and this one have committed.

    When it is left by an error, what is not committed yet is aborted.
    """

    def __init__(self, log: Log, topic: str, identity: str, *, again: bool = False) -> None:
        """Take the load over from a run that may still live, and find how far it is; with ``again`` from the start.

        Raises UnknownTopicError, LogUnavailableError, RemoteError.
        """
        self.progress = StoredProgress()
        self._identity = identity
        self._client = WireClient(
            log.bootstrap, client_id="mainstem-load", timeout_s=log.timeout_s, security=log.security
        )
        try:
            self._producer = TransactionalProducer(self._client, identity, timeout_s=_TRANSACTION_S)
            self._producer.init()
            if not again:
                self.progress = _committed(self._client, identity)
            self._appender = BulkAppender(log, topic, self._producer)
        except BaseException:
            self._client.close()
            raise
        self._rows = self.progress.rows
        self._bytes = 0
        self._began_s = time.monotonic()

    def append(self, keys: pa.Array | None, values: pa.Array, fields: RecordFields = NO_FIELDS) -> None:
        """Send the next rows on their way; commits those before when they have become many.

        Raises what an earlier send failed with, ProducerFencedError, TransactionTimeoutError.
        """
        if self._bytes >= _COMMIT_BYTES or time.monotonic() - self._began_s >= _COMMIT_S:
            self._commit(is_done=False)
        if not self._bytes:
            self._began_s = time.monotonic()
        self._appender.append(keys, values, fields)
        self._rows += len(values)
        self._bytes += values.nbytes

    def finish(self) -> StoredProgress:
        """Commit the rest; the load is done. Raises what ``append`` raises."""
        if self._rows > self.progress.rows:
            self._commit(is_done=True)
        return self.progress

    def _commit(self, *, is_done: bool) -> None:
        position = self.progress.position | self._appender.finish()
        metadata = json.dumps({"rows": self._rows, "done": is_done})
        self._producer.commit_offsets(self._identity, position, metadata)
        self._producer.end(commit=True)
        self.progress = StoredProgress(self._rows, position, is_done)
        self._bytes = 0

    def __enter__(self) -> ResumableLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._appender.close()
        if error is not None and not isinstance(error, LogUnavailableError):
            with suppress(MainstemError):  # another run has taken over, or the log aborts by itself: the error counts
                self._producer.end(commit=False)  # else readers of committed records wait for the time-out
        self._client.close()


def _committed(client: WireClient, group: str) -> StoredProgress:
    """The last committed progress. The load's open transaction was aborted before, so it cannot change any more."""
    entries = committed_entries(client, group, require_stable=True)
    if not entries:
        return StoredProgress()
    kept = [json.loads(entry.metadata) for entry in entries.values()]
    newest = max(kept, key=lambda each: each["rows"])
    position = Position({tp: entry.offset for tp, entry in entries.items()})
    return StoredProgress(newest["rows"], position, newest["done"])
