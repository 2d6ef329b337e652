"""What the tests of the log features share: a store in memory that forgets as RocksDB may, and a node that uses it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from mainstem.errors import MainstemError, StorageError
from mainstem.log.key_index.index_build import plan_entries
from mainstem.log.key_index.index_worker import BuildResult
from mainstem.log.key_index.key_index import BuildPlan, KeyIndex
from mainstem.log.key_index.key_store import Entry
from mainstem.log.node.directory import LogDirectory
from mainstem.model import Headers
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.log.support import NOW_MS, Node


class MemoryKeyStore:
    """A KeyStore whose last writes a power cut can take, and which can fail."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.before: list[dict[bytes, bytes]] = []
        self.files: dict[PurePath, list[Entry]] = {}
        self.fails = False
        self.closed = 0

    def _check(self) -> None:
        if self.fails:
            raise StorageError("the store fails")

    def get(self, key: bytes) -> bytes | None:
        self._check()
        return self.data.get(key)

    def last(self, start: bytes, end: bytes) -> Entry | None:
        self._check()
        keys = sorted(self.data)
        at = bisect_left(keys, end) - 1
        return (keys[at], self.data[keys[at]]) if at >= 0 and keys[at] >= start else None

    def scan(self, start: bytes, end: bytes) -> Iterator[Entry]:
        self._check()
        return iter([(key, self.data[key]) for key in sorted(self.data) if start <= key < end])

    def write(self, puts: Iterable[Entry], deletes: Iterable[bytes] = ()) -> None:
        self._check()
        self.before.append(dict(self.data))
        for key in deletes:
            self.data.pop(key, None)
        self.data.update(puts)

    def delete_range(self, start: bytes, end: bytes) -> None:
        self.write((), [key for key in self.data if start <= key < end])

    def ingest(self, files: Sequence[PurePath]) -> None:
        self._check()
        for file in files:
            self.data.update(self.files.pop(file))
        self.before.clear()  # it is durable, and with it all before it

    def close(self) -> None:
        self.closed += 1

    def lose(self, writes: int) -> None:
        """A power cut takes the last writes."""
        for _ in range(min(writes, len(self.before))):
            self.data = self.before.pop()


class InlineBuild:
    """A build that is done when it is polled the first time."""

    def __init__(self, node: FeatureNode, plan: BuildPlan) -> None:
        self._node = node
        self._plan = plan
        self.stopped = False

    def poll(self) -> BuildResult:
        try:
            entries = list(plan_entries(self._node.disk, self._plan))
        except MainstemError as error:
            return BuildResult([], str(error))
        name = PurePath(f"build-{self._plan.generation}")
        self._node.store.files[name] = entries
        return BuildResult([name])

    def stop(self) -> None:
        self.stopped = True


class FeatureNode(Node):
    """A node with one partition, whose features use a store in memory."""

    def __init__(self, seed: int = 0, **configs: str) -> None:
        self.store = MemoryKeyStore()
        super().__init__(None, seed, **configs)

    def _open(self) -> LogDirectory:
        directory = super()._open()
        directory.features.open_store = lambda: self.store
        directory.features.remove_store = self._remove_store
        directory.features.start_build = lambda plan: InlineBuild(self, plan)
        return directory

    def _remove_store(self) -> None:
        self.store = MemoryKeyStore()

    @property
    def index(self) -> KeyIndex:
        assert self.log.features is not None
        assert self.log.features.index is not None
        return self.log.features.index

    def put(
        self,
        *records: tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers],
        producer: ProducerStamp | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append a batch of (key, value) or (key, value, headers); its base offset."""
        at = self.clock.time_ms() if timestamp_ms is None else timestamp_ms
        rows = [NewRecord(each[0], each[1], each[2] if len(each) > 2 else (), at) for each in records]  # type: ignore[misc]
        return self.log.append(build_batch(rows, producer=producer)).base_offset

    def tick(self, times: int = 3) -> None:
        """Let builds begin and be taken over."""
        for _ in range(times):
            self.directory.features.tick()
            self.clock.advance(2)


def expect_key(offset: int) -> Headers:
    return (("mainstem-expect-key-offset", str(offset).encode()),)


def expect_end(offset: int) -> Headers:
    return (("mainstem-expect-end", str(offset).encode()),)


def idempotency_key(key: str) -> Headers:
    return (("mainstem-idempotency-key", key.encode()),)


ALL = {
    "mainstem_key_index": "true",
    "mainstem_conditional_append": "true",
    "mainstem_idempotency_window_ms": "60000",
}
assert NOW_MS > 0
