"""A topic's records for a view: fetched raw, decoded natively into Arrow, with the bookmark after them.

The bookmark advances with the fetch: past transaction markers, aborted records and compacted gaps, not only past the
records that came out. When the view is behind, one step takes up to 16 MiB of records; when it has caught up, a step
waits at the log (a long poll) and takes what arrives at once. Records of one partition come in the log's order; the
partitions take turns. Committed records only.

A compacted topic keeps a tombstone for ``delete.retention.ms``. A store that goes on from an older bookmark may miss a
deletion, because the tombstone is gone. A gap in the offsets does not show whether compaction removed a tombstone or a
value that a later record replaces; the time decides. At ``caught_up_ms`` of the bookmark the log had no record after
the position. A gap that the feed meets ``delete.retention.ms`` or more after that time stops the view; an earlier one
hides no deletion. A store's first reading of the topic is not stopped: a rebuilt store would begin in the same way.

Raises ViewStoppedError when the position cannot be read on from (`views.feed.topic_identity`, retention, compaction,
damage). For one thread; ``lag`` may be read and ``close`` called from any, which ends a step that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.damage import damage_at
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.client.wire.cluster.topics import topic_configs
from mainstem.clock import Clock, SystemClock
from mainstem.errors import (
    AuthorizationError,
    CorruptBatchError,
    DamagedRecordsError,
    OffsetOutOfRangeError,
    RemoteError,
    UnknownTopicError,
    ViewStoppedError,
)
from mainstem.model import Headers, OnDamaged, Position, TopicPartition
from mainstem.record.arrow_columns import schema_of
from mainstem.record.arrow_decode import decode
from mainstem.tracing.spans import header_names
from mainstem.views.feed.batch_scan import scan_batches
from mainstem.views.feed.topic_identity import advanced, check_epochs, check_topic_id
from mainstem.views.feed.trace_headers import trace_headers
from mainstem.views.stores.store import APPLY_COLUMNS, Bookmark, ValuesAsJson

FETCH_BYTES = 16 << 20
_LOOK_AT_TOPIC_S = 30.0
_DELETE_RETENTION = "delete.retention.ms"
_DELETE_RETENTION_MS = 86_400_000  # Kafka's own, where the log does not tell


@dataclass(frozen=True, slots=True)
class FeedStep:
    """The result of one step: the records, in order, and the bookmark after them.

    ``damaged``: the offsets before the bookmark that could not be read and were skipped.
    """

    arrow_batch: pa.RecordBatch
    bookmark: Bookmark
    damaged: tuple[DamagedRecordsError, ...] = ()
    offsets: int = 0
    """How many offsets of the log the step covers."""
    trace_headers: tuple[Headers, ...] = ()
    """Headers that name the traces of records of the step, of some of them where there are many."""


@dataclass(frozen=True, slots=True)
class LossPolicy:
    """``fail_on_missed_tombstones``: stop where a deletion may have been removed unread.

    ``on_damaged``: stop at records that are in the log and cannot be read, or skip them.
    """

    fail_on_missed_tombstones: bool = False
    on_damaged: OnDamaged = "stop"


class Feed:
    """The records of a topic. ``until``: where to end, in every partition; without it the feed never ends."""

    def __init__(
        self,
        client: WireClient,
        topic: str,
        bookmark: Bookmark,
        until: Position | None = None,
        clock: Clock | None = None,
        *,
        columns: frozenset[str] = APPLY_COLUMNS,
        fetch_bytes: int = FETCH_BYTES,
        losses: LossPolicy = LossPolicy(),  # immutable
    ) -> None:
        """Learns the topic's id and ends; records come with ``columns``, about ``fetch_bytes`` of them at a time.

        ``losses``: where it stops. Skipped offsets are named in the step.
        Raises UnknownTopicError, ViewStoppedError, LogUnavailableError.
        """
        self._client = client
        self._topic = topic
        self._until = until
        self._columns = columns
        self._values: ValuesAsJson | None = None
        self._trace_names: frozenset[str] = frozenset()
        self._fetch_bytes = fetch_bytes
        self._losses = losses
        self._damaged: list[DamagedRecordsError] = []
        self._read: FeedStep | None = None
        self._bookmark = bookmark
        self._clock = clock or SystemClock()
        self._is_first_reading = not bookmark.position
        self._noted_ends: tuple[int, Mapping[TopicPartition, int]] | None = None
        self._delete_retention_ms: int | None = None
        self.lag = 0
        """The number of offsets between the last step and the end of committed records, as last known."""
        self.has_met_gap = False
        """Whether records were missing from what was read: compaction had removed them."""
        self._ends: dict[TopicPartition, int] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._beginning: dict[TopicPartition, int] = {}
        self._look_at_topic()

    def reading(self, values: ValuesAsJson | None) -> Feed:
        """This feed, reading encoded values so; before its first step."""
        self._values = values
        return self

    def with_traces(self) -> Feed:
        """This feed, telling the traces of its records if this process traces; before its first step."""
        self._trace_names = header_names()
        return self

    @property
    def bookmark(self) -> Bookmark:
        """The bookmark after the last step."""
        return self._bookmark

    @property
    def kept_offsets(self) -> int:
        """How many offsets are kept for the next step, because their schemas could not be looked up."""
        read = self._read
        return 0 if read is None else read.offsets

    @property
    def end(self) -> Position:
        """The end of committed records, as last known."""
        return Position(self._ends)

    @property
    def beginning(self) -> Position:
        """Where the feed began: later than 0 where the log has removed older records."""
        return Position(self._beginning)

    @property
    def is_at_end(self) -> bool:
        """Whether ``until`` is reached."""
        return self._until is not None and not self._unread()

    def step(self, max_wait_ms: int) -> FeedStep | None:
        """The next records, or None when none came in time and nothing moved. Raises as the module says.

        Records whose schema cannot be looked up now are kept for the next step.
        """
        self._read = read = self._read or self._next(max_wait_ms)
        if read is None:
            return None
        step = replace(read, arrow_batch=self._for_store(read.arrow_batch))
        self._read = None
        return step

    def _next(self, max_wait_ms: int) -> FeedStep | None:
        if self._clock.monotonic_s() - self._looked_s >= _LOOK_AT_TOPIC_S:
            self._look_at_topic()
        wanted = self._unread()
        if not wanted:
            return None
        asked_ms, before = self._clock.time_ms(), dict(self._offsets)
        fetched = self._client.fetch(
            wanted, max_wait_ms=max_wait_ms, max_bytes=self._fetch_bytes, partition_max_bytes=self._fetch_bytes
        )
        self._require_same_topic_id()
        self._take_ends_and_errors(fetched)
        scans = {tp: scan_batches(part.records, self._offsets[tp], self._end_in(tp)) for tp, part in fetched.items()}
        epochs = {tp: scan.last_epoch for tp, scan in scans.items() if scan.last_epoch is not None}
        if advanced(self._bookmark.leader_epochs, epochs):
            self._look_at_topic()
        gaps = [tp for tp, scan in scans.items() if scan.has_gap]
        if gaps and self._losses.fail_on_missed_tombstones:
            self._refuse_lost_deletions(gaps)
        found = [self._decode(tp, part) for tp, part in fetched.items() if len(part.records)]
        arrow_batches = [arrow_batch for arrow_batch in found if arrow_batch is not None]
        self._take_turns(fetched)
        self.lag = self._lag()
        self._update_caught_up(asked_ms, fetched)
        self.has_met_gap = self.has_met_gap or bool(gaps)
        bookmark = self._bookmark_after(epochs, gaps)
        if bookmark.position == self._bookmark.position:
            return None
        self._bookmark = bookmark
        damaged, self._damaged = tuple(self._damaged), []
        offsets = sum(self._offsets[tp] - offset for tp, offset in before.items())
        decoded = _concat(arrow_batches, self._decoded_columns)
        traces = trace_headers(decoded, self._trace_names) if self._trace_names else ()
        return FeedStep(decoded, bookmark, damaged, offsets, traces)

    def _for_store(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        read = decoded if self._values is None else self._values.as_json(decoded)
        return read if self._decoded_columns == self._columns else read.drop_columns(["headers"])

    @property
    def _decoded_columns(self) -> frozenset[str]:
        """A schema's id may be in a header, and a trace."""
        needs_headers = self._values is not None or self._trace_names
        return self._columns | {"headers"} if needs_headers else self._columns

    def look_at_end(self) -> None:
        """Learn where the log ends, without a step. Raises LogUnavailableError."""
        self._ends |= self._client.list_offsets(list(self._offsets), LATEST, Isolation.READ_COMMITTED)
        self.lag = self._lag()

    def close(self) -> None:
        """Disconnect; a step that waits ends with LogUnavailableError. From any thread."""
        self._client.close()

    def _look_at_topic(self) -> None:
        """Check that the topic is still the same, and add partitions that are new."""
        self._looked_s = self._clock.monotonic_s()
        topic = self._metadata()
        check_topic_id(topic, self._bookmark)
        check_epochs(self._client, topic, self._bookmark)
        self._delete_retention_ms = None
        asked_ms = self._clock.time_ms()
        tps = [TopicPartition(self._topic, number) for number in topic.partitions]
        new = [tp for tp in tps if tp not in self._offsets]
        is_opening = not self._offsets
        caught_up_ms = self._bookmark.caught_up_ms
        if new:
            earliest = self._client.list_offsets(new, EARLIEST)
            ends = self._client.list_offsets(new, LATEST, Isolation.READ_COMMITTED)
            position = self._bookmark.position
            self._refuse_unknown_beginnings(position, earliest)
            self._beginning |= {tp: position.get(tp, earliest[tp]) for tp in new}
            self._offsets |= {tp: self._beginning[tp] for tp in new}
            self._ends |= ends
            self.lag = self._lag()
        if is_opening and (caught_up_ms is None or self._is_first_reading or not self.lag):
            caught_up_ms = asked_ms  # a store made before this field existed counts as caught up
        ids = {**self._bookmark.topic_ids, self._topic: str(topic.topic_id)}
        self._bookmark = replace(self._bookmark, topic_ids=ids, dead_letters=0, caught_up_ms=caught_up_ms)

    def _metadata(self) -> TopicMetadata:
        topic = self._client.metadata([self._topic]).get(self._topic)
        if topic is None and self._topic in self._bookmark.topic_ids:
            raise ViewStoppedError(
                f"topic {self._topic} was deleted: create it again and rebuild the view, or delete the view"
            )
        if topic is None:
            raise UnknownTopicError(f"there is no topic {self._topic!r}")
        return topic

    def _unread(self) -> dict[TopicPartition, int]:
        if self._until is None:
            return self._offsets
        return {tp: offset for tp, offset in self._offsets.items() if offset < self._until.get(tp, 0)}

    def _end_in(self, tp: TopicPartition) -> int | None:
        return None if self._until is None else self._until.get(tp, 0)

    def _decode(self, tp: TopicPartition, part: FetchedPartition) -> pa.RecordBatch | None:
        """The records up to the first damaged batch; None where that is the first."""
        try:
            decoded = decode(
                part.records,
                topic=tp.topic,
                partition=tp.partition,
                start_offset=self._offsets[tp],
                end_offset=self._end_in(tp),
                columns=self._decoded_columns,
                aborted=part.aborted_transactions,
            )
        except CorruptBatchError as error:
            self._step_over(damage_at(tp, part, self._offsets[tp], error))
            return None
        self._offsets[tp] = decoded.next_offset
        return decoded.arrow_batch

    def _step_over(self, damage: DamagedRecordsError) -> None:
        """Go on after damaged offsets. Raises ViewStoppedError unless the view skips them, and they have an end."""
        if self._losses.on_damaged == "stop" or damage.last_offset is None:
            raise ViewStoppedError(
                f'{damage}; a view does so where its App declares it with on_damaged="skip", when it starts again'
            ) from damage
        tp, after = damage.topic_partition, damage.last_offset + 1
        end = self._end_in(tp)
        self._offsets[tp] = after if end is None else min(after, end)
        self._damaged.append(DamagedRecordsError(tp, damage.first_offset, self._offsets[tp] - 1, damage.reason))

    def _require_same_topic_id(self) -> None:
        """Check the topic id: the client fetches by its cached id, which changes when it has refreshed its metadata."""
        topic = self._client.topics.get(self._topic)
        if topic is None:
            self._look_at_topic()
        else:
            check_topic_id(topic, self._bookmark)

    def _refuse_unknown_beginnings(self, position: Position, earliest: Mapping[TopicPartition, int]) -> None:
        """A partition that the bookmark does not know has to begin at 0, or the view lacks what was removed."""
        for tp, start in earliest.items():
            if position and tp not in position and start > 0 and (self._until is None or self._until.get(tp, 0) > 0):
                raise self._removed_unread(tp, 0, start)

    def _refuse_lost_deletions(self, gaps: Sequence[TopicPartition]) -> None:
        caught_up_ms = self._bookmark.caught_up_ms
        if self._is_first_reading or caught_up_ms is None:
            return
        if self._delete_retention_ms is None:
            self._delete_retention_ms = self._topic_delete_retention_ms()
        behind_ms = self._clock.time_ms() - caught_up_ms
        if behind_ms >= self._delete_retention_ms:
            raise ViewStoppedError(
                f"compaction has removed records of {gaps[0]} from offset {self._offsets[gaps[0]]} on before the view "
                f"had read them, among them, perhaps, deletions: it has been behind for {behind_ms // 1000} s, and the "
                f"topic keeps deletions for {self._delete_retention_ms // 1000} s ({_DELETE_RETENTION}): rebuild the "
                "view"
            )

    def _topic_delete_retention_ms(self) -> int:
        try:
            value = topic_configs(self._client, self._topic, [_DELETE_RETENTION]).get(_DELETE_RETENTION)
        except (AuthorizationError, RemoteError):
            return _DELETE_RETENTION_MS
        return _DELETE_RETENTION_MS if value is None else int(value)

    def _update_caught_up(self, asked_ms: int, fetched: Mapping[TopicPartition, FetchedPartition]) -> None:
        """Note where the log ended at ``asked_ms``: once the feed is past that, it had caught up at that time."""
        if self._until is not None:
            return
        if self._noted_ends is None and all(part.error is None for part in fetched.values()):
            self._noted_ends = asked_ms, dict(self._ends)
        if self._noted_ends is not None and all(self._offsets[tp] >= end for tp, end in self._noted_ends[1].items()):
            self._bookmark = replace(self._bookmark, caught_up_ms=self._noted_ends[0])
            self._noted_ends, self._is_first_reading = None, False

    def _take_ends_and_errors(self, fetched: Mapping[TopicPartition, FetchedPartition]) -> None:
        """Note the ends of the partitions; step over damage, and raise every other error that does not heal."""
        for tp, part in fetched.items():
            match part.error:
                case None:
                    self._ends[tp] = part.last_stable_offset
                case OffsetOutOfRangeError():
                    raise self._out_of_range(tp)
                case UnknownTopicError():
                    raise ViewStoppedError(f"topic {self._topic} was deleted since the view read it: rebuild the view")
                case DamagedRecordsError():
                    self._step_over(part.error)
                case error if not part.heals:
                    raise error

    def _out_of_range(self, tp: TopicPartition) -> ViewStoppedError:
        offset = self._offsets[tp]
        earliest = self._client.list_offsets([tp], EARLIEST)[tp]
        if offset < earliest:
            return self._removed_unread(tp, offset, earliest)
        end = self._client.list_offsets([tp], LATEST)[tp]
        return ViewStoppedError(
            f"the log lost the end of {tp}: it goes to {end}, but the view had read up to {offset}: rebuild the view"
        )

    def _removed_unread(self, tp: TopicPartition, offset: int, earliest: int) -> ViewStoppedError:
        return ViewStoppedError(
            f"the log removed offsets {offset} to {earliest - 1} of {tp} before the view had read them: "
            "rebuild the view from what is left (mainstem views rebuild VIEW --from left), or leave it stopped"
        )

    def _lag(self) -> int:
        return sum(max(0, self._ends[tp] - offset) for tp, offset in self._offsets.items())

    def _take_turns(self, fetched: Mapping[TopicPartition, FetchedPartition]) -> None:
        """Next time, ask last for the partitions that had records now: a log fills an answer in the request's order."""
        for tp in [tp for tp, part in fetched.items() if len(part.records)]:
            self._offsets[tp] = self._offsets.pop(tp)

    def _bookmark_after(self, epochs: Mapping[TopicPartition, int], gaps: Iterable[TopicPartition]) -> Bookmark:
        """``gaps``: partitions in which records are gone. Those that replaced them are before the log's current end."""
        known = self._bookmark
        return replace(
            known,
            position=known.position | Position(self._offsets),
            leader_epochs={**known.leader_epochs, **epochs},
            exact_from=known.exact_from | Position({tp: self._ends[tp] for tp in gaps}),
            damaged_offsets=known.damaged_offsets + sum(map(len, self._damaged)),
        )


def end_of(client: WireClient, topic: str) -> Position:
    """The end of a topic's committed records. Raises UnknownTopicError, LogUnavailableError."""
    found = client.metadata([topic]).get(topic)
    if found is None:
        raise UnknownTopicError(f"there is no topic {topic!r}")
    tps = [TopicPartition(topic, number) for number in found.partitions]
    return Position(client.list_offsets(tps, LATEST, Isolation.READ_COMMITTED))


def _concat(arrow_batches: list[pa.RecordBatch], columns: frozenset[str]) -> pa.RecordBatch:
    if not arrow_batches:
        return pa.RecordBatch.from_pylist([], schema_of(columns))
    return arrow_batches[0] if len(arrow_batches) == 1 else pa.concat_batches(arrow_batches)
