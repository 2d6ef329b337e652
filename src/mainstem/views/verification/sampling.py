"""Verifying a view in the background, one bucket of its keys after another, at a bounded cost.

A round:

1. **Begin**: the next bucket (the keys whose CRC-32 is so much modulo the number of buckets), and a scratch store. So
   memory and disk hold a sixteenth of the view at a time.
2. **Replay** the topic up to where the view is now, fetch by fetch, applying the bucket's records alone. After each
   fetch the round rests, so that it takes the ``share`` of a processor that it may. It holds nothing of the view.
3. **Follow**: the same for what the view has applied meanwhile, taking more of the processor, since the view goes on.
4. **Compare**: with a snapshot, replay the little that came since, and walk both buckets side by side. The snapshot is
   held for this alone: some microseconds an entry, at half of the processor.
5. **Report** the result and its position. Differences stay reported until their bucket is found equal. They make the
   snapshots and past states of the view invalid (``Version.mark_unverified``).

A rebuild, a verification, a deletion or a stop takes precedence: ``giving_way`` ends a round within a fetch, without a
result. A round leaves out what it cannot decide: a kind whose entries do not belong to keys, a fold over a log that has
lost its beginning, and a difference at a position before which compaction has removed records.

Concurrency: ``round`` is for one thread at a time; everything else for any.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from mainstem.background import failed
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.clock import Clock
from mainstem.errors import ConfigError, MainstemError
from mainstem.model import Position
from mainstem.views.status import Difference, Sampled
from mainstem.views.stores.store import Bookmark, Bucket, Row, StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from mainstem.views.verification.verify import Replay, differences
from mainstem.views.versions.version import Version

_LOG = logging.getLogger("mainstem.views")
_FETCH_BYTES = 1 << 20
_FOLLOW_SHARE = 0.25
_COMPARE_SHARE = 0.5
_ENTRIES_A_BREATH = 2_000
_BETWEEN_ROUNDS_S = 10.0
SHARE_MAX = 0.5


@dataclass(frozen=True, slots=True)
class Sampling:
    """``share``: of one processor, while a round works. ``buckets``: into how many the keys are divided."""

    share: float = 0.02
    buckets: int = 16

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if not 0 < self.share <= SHARE_MAX:
            raise ConfigError(f"a verify share of {self.share}: it is 0 (off), or over 0 and at most {SHARE_MAX}")


@dataclass(frozen=True, slots=True)
class Subject:
    """The view as a round takes it."""

    version: Version
    client: AbstractContextManager[WireClient]


@dataclass(frozen=True, slots=True)
class _Pace:
    """Work and rest in turn, until something takes precedence."""

    clock: Clock
    giving_way: threading.Event

    def breather(self, share: float) -> Callable[[], None]:
        """A function to call now and then while working: it rests so that the work takes that share of the time.

        It raises _GivenWay.
        """
        since_s = self.clock.monotonic_s()

        def breathe() -> None:
            nonlocal since_s
            worked_s = max(0.0, self.clock.monotonic_s() - since_s)
            if self.giving_way.wait(worked_s * (1 / share - 1)):
                raise _GivenWay
            since_s = self.clock.monotonic_s()

        return breathe


class _GivenWay(Exception):  # noqa: N818  # no error: a round is over
    """Something that takes precedence wants the view."""


class Sampler:
    """The background verification of one view."""

    def __init__(
        self, topic: str, scratch: Path, clock: Clock, sampling: Sampling, subject: Callable[[], Subject | None]
    ) -> None:
        """``subject``: the view as it is now, None while it is not open."""
        self._topic = topic
        self._scratch = scratch
        self._clock = clock
        self._sampling = sampling
        self._subject = subject
        self._working = threading.Lock()
        self._giving_way = threading.Event()
        self._pace = _Pace(clock, self._giving_way)
        self._has_ended = False
        self._next = 0
        self._found: dict[int, tuple[Difference, ...]] = {}
        self._sampled: Sampled | None = None

    @property
    def sampled(self) -> Sampled | None:
        """The result of the last rounds; None before the first, and after the view was rebuilt."""
        return self._sampled

    def forget(self) -> None:
        """Drop all results, because the view was rebuilt. Call it inside ``giving_way``."""
        self._found.clear()
        self._sampled = None

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """No round works inside."""
        self._giving_way.set()
        with self._working:
            try:
                yield
            finally:
                if not self._has_ended:
                    self._giving_way.clear()

    def end(self) -> None:
        """Let no round work any more; returns when none does."""
        self._has_ended = True
        self._giving_way.set()
        with self._working:
            pass

    def round(self) -> Sampled | None:
        """Verify the next bucket; None when there was nothing to tell of it."""
        with self._working:
            if self._giving_way.is_set() or (subject := self._subject()) is None:
                return None
            bucket = Bucket(self._next, self._sampling.buckets)
            try:
                sampled = self._verify(subject, bucket)
            except _GivenWay:
                return None
            except MainstemError as error:  # the log is away, the view was closed: the next round will see
                _LOG.debug("the sampling of %s ended: %s", self._topic, error)
                return None
            finally:
                shutil.rmtree(self._scratch, ignore_errors=True)
            self._next = (bucket.number + 1) % bucket.count
            if sampled is not None:
                self._sampled = sampled
            return sampled

    def _verify(self, subject: Subject, bucket: Bucket) -> Sampled | None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        definition = subject.version.definition
        store = open_store(self._scratch, definition)
        try:
            with subject.version.lease() as view, view.snapshot() as snapshot:
                if snapshot.sample(bucket) is None:
                    return None
            with subject.client as client:
                replay = _BucketReplay(client, self._topic, definition, bucket, store)
                replay.up_to(subject.version.position, self._pace.breather(self._sampling.share))
                replay.up_to(subject.version.position, self._pace.breather(_FOLLOW_SHARE))
                if replay.beginning is not None and definition.kind.needs_every_record:
                    return None
                return self._compare(subject.version, replay, bucket, store)
        finally:
            store.discard()

    def _compare(self, version: Version, replay: _BucketReplay, bucket: Bucket, store: ViewStore) -> Sampled | None:
        with version.lease() as view, view.snapshot() as snapshot:
            replay.up_to(snapshot.position, self._pace.breather(_COMPARE_SHARE))
            with store.snapshot() as scratch:
                expected, actual = scratch.sample(bucket), snapshot.sample(bucket)
                assert expected is not None, "it was asked before"
                assert actual is not None, "both are of one kind"
                breathing = _now_and_then(actual, self._pace.breather(_COMPARE_SHARE))
                prefix = version.definition.kind.entries_without_records
                is_partial = replay.beginning is not None
                found = tuple(differences(expected, breathing, is_partial=is_partial, except_prefix=prefix))
                if found and not _tells(version, scratch.bookmark):
                    return None
            position = snapshot.position
        if found:
            version.mark_unverified()
        self._found[bucket.number] = found
        every = tuple(difference for number in sorted(self._found) for difference in self._found[number])
        share = len(self._found) / bucket.count
        return Sampled(position, self._clock.time_ms(), share, not every, replay.records, replay.beginning, every)


def _tells(version: Version, replayed: Bookmark) -> bool:
    """Whether a difference means that the view is wrong, and not that compaction has removed what it was made of."""
    has_met_gap = bool(replayed.exact_from)
    return replayed.is_exact and not (has_met_gap and version.definition.kind.needs_every_record)


class _BucketReplay:
    """The topic's records of one bucket, replayed into a store in several goes. For one thread."""

    def __init__(
        self, client: WireClient, topic: str, definition: StoreDefinition, bucket: Bucket, store: ViewStore
    ) -> None:
        self.records = 0
        self.beginning: Position | None = None
        self._client = client
        self._topic = topic
        self._definition = definition
        self._bucket = bucket
        self._store = store
        self._is_begun = False

    def up_to(self, position: Position, breathe: Callable[[], None]) -> None:
        """Go on up to ``position``, breathing after each fetch."""
        begin = self._store.bookmark if self._is_begun else Bookmark()
        replay = Replay(
            self._client,
            self._topic,
            position,
            self._definition.reads,
            begin=begin,
            fetch_bytes=_FETCH_BYTES,
            on_damaged=self._definition.on_damaged,
            values=self._definition.values,
        )
        if not self._is_begun:
            self.beginning, self._is_begun = replay.beginning, True
        replay.into(self._store, breathe, self._chosen)
        self.records += replay.records

    def _chosen(self, arrow_batch: pa.RecordBatch) -> pa.RecordBatch:
        has = self._bucket.has
        keys = arrow_batch.column("key").to_pylist()
        return arrow_batch.filter(pa.array([key is not None and has(key) for key in keys], pa.bool_()))


class SamplingThread:
    """Rounds of all views in turn, from ``start`` to ``stop``; one thread."""

    def __init__(self, samplers: list[Sampler]) -> None:
        self._samplers = samplers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view-sampling", daemon=True)

    def start(self) -> None:
        """Begin, where there are views to verify."""
        if self._samplers:
            self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended."""
        self._stopping.set()
        for sampler in self._samplers:
            sampler.end()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            for sampler in self._samplers:
                if self._stopping.wait(_BETWEEN_ROUNDS_S):
                    return
                try:
                    sampler.round()
                except BaseException as error:  # noqa: BLE001 - a panic in a store's library is none of Exception's
                    failed("view sampling", error)


def _now_and_then(entries: Iterator[tuple[str, Row]], breathe: Callable[[], None]) -> Iterator[tuple[str, Row]]:
    for number, entry in enumerate(entries):
        yield entry
        if number % _ENTRIES_A_BREATH == 0:
            breathe()
