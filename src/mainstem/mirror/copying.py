"""Copies batches: fetches them from the source as they are, and appends them to the target at their offsets.

The next fetch is under way while the target writes. Where the target ends is where it goes on: after any failure the
target is asked again, so every batch is there once, whatever was killed. Owned by one thread; fetches run in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST
from mainstem.client.wire.cluster.fetching import NO_RECORDS, FetchedPartition
from mainstem.client.wire.cluster.stored_records import is_in_store
from mainstem.errors import MainstemError, MirrorRefusedError, OffsetOutOfRangeError, UnavailableError
from mainstem.mirror.appending import MirrorAppend, MirrorAppended, append
from mainstem.mirror.link import Link
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import HEADER_BYTES
from mainstem.record.header import iter_headers

_FETCH_WAIT_MS: Final = 250
_FETCH_BYTES_MAX: Final = 16 << 20
_FETCH_BYTES_MIN: Final = 64 << 10
_PARTITION_BYTES_MAX: Final = 4 << 20


@dataclass(slots=True)
class CopyProgress:
    """How far one partition is. ``end`` is the end of the target, ``fetch_from`` the next offset to fetch."""

    end: int
    fetch_from: int
    topic_id: UUID | None = None
    """Of the source's topic; None where it has no ids."""
    source_end: int = -1
    start: int = 0
    """Where the target begins at least."""
    failure: MainstemError | None = None
    """Why it does not go on now; None when it does."""


@dataclass(slots=True)
class Copied:
    """The result of a round. ``refused`` are partitions that are not copied any more, each with the reason."""

    size: int = 0
    batches: int = 0
    refused: dict[TopicPartition, MainstemError] = field(default_factory=dict)


class Copying:
    """The partitions that are copied, by name."""

    def __init__(self, link: Link, bytes_per_s: int | None = None) -> None:
        """With a limit of ``bytes_per_s``, a round takes about a second of it at most."""
        self._link = link
        self._bytes_max = min(_FETCH_BYTES_MAX, max(bytes_per_s or _FETCH_BYTES_MAX, _FETCH_BYTES_MIN))
        self.partitions: dict[TopicPartition, CopyProgress] = {}
        self._fetches = ThreadPoolExecutor(1, thread_name_prefix="mirror-fetch")
        self._ahead: tuple[dict[TopicPartition, int], Future[dict[TopicPartition, FetchedPartition]]] | None = None

    def add(self, tps: Iterable[TopicPartition]) -> None:
        """Copy these, too, from where the target ends."""
        new = [tp for tp in tps if tp not in self.partitions]
        for tp, end in self._link.target.list_offsets(new, LATEST).items() if new else ():
            self.partitions[tp] = CopyProgress(end, end, self._topic_id(tp.topic))

    def drop(self, topic: str) -> None:
        """Copy this topic no longer."""
        self.partitions = {tp: each for tp, each in self.partitions.items() if tp.topic != topic}

    def step(self) -> Copied:
        """One round. Raises LogUnavailableError where a log cannot be reached: then the next round begins again."""
        copied = Copied()
        if not self.partitions:
            return copied
        appends: dict[TopicPartition, MirrorAppend] = {}
        for tp, fetched in self._fetched().items():
            progress = self.partitions.get(tp)
            if progress is None:
                continue
            try:
                self._require_same_topic(tp, progress)
                wanted = self._wanted(tp, progress, fetched)
            except MirrorRefusedError as error:
                copied.refused[tp] = error
                continue
            if wanted is not None:
                appends[tp] = wanted
        self._fetch_ahead(appends)
        for tp, appended in append(self._link.target, appends).items() if appends else ():
            self._take(tp, appends[tp], appended, copied)
        return copied

    def close(self) -> None:
        """End the thread; a fetch that is under way ends with its client."""
        self._fetches.shutdown(wait=False, cancel_futures=True)

    # ---- fetching

    def _offsets(self) -> dict[TopicPartition, int]:
        return {tp: each.fetch_from for tp, each in self.partitions.items()}

    def _fetch(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchedPartition]:
        return self._link.source.fetch(
            offsets,
            max_wait_ms=_FETCH_WAIT_MS,
            max_bytes=self._bytes_max,
            partition_max_bytes=min(_PARTITION_BYTES_MAX, self._bytes_max),
            read_committed=False,
        )

    def _fetched(self) -> dict[TopicPartition, FetchedPartition]:
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return self._fetch(self._offsets())
        offsets, future = ahead
        found = future.result()
        return {tp: each for tp, each in found.items() if self._offsets().get(tp) == offsets[tp]}

    def _fetch_ahead(self, appends: Mapping[TopicPartition, MirrorAppend]) -> None:
        """Fetch what follows while the target appends; what does not follow is not used."""
        if not any(len(each.records) for each in appends.values()):
            return
        offsets = {tp: appends[tp].end if tp in appends else at for tp, at in self._offsets().items()}
        self._ahead = offsets, self._fetches.submit(self._fetch, offsets)

    def _topic_id(self, name: str) -> UUID | None:
        topic = self._link.source.topics.get(name)
        return None if topic is None else topic.topic_id

    def _require_same_topic(self, tp: TopicPartition, progress: CopyProgress) -> None:
        """Raises MirrorRefusedError when the fetch may be of a topic that was recreated under the name."""
        found = self._topic_id(tp.topic)
        if None not in (found, progress.topic_id) and found != progress.topic_id:
            raise MirrorRefusedError(
                f"topic {tp.topic!r} was deleted and recreated at {self._link.source.bootstrap}; its copy at "
                f"{self._link.target.bootstrap} stays as it was: delete it there when you need it no longer, and start "
                "the mirror again"
            )

    # ---- what is appended

    def _wanted(self, tp: TopicPartition, progress: CopyProgress, fetched: FetchedPartition) -> MirrorAppend | None:
        """The batches to append after a fetch. Raises MirrorRefusedError."""
        if isinstance(fetched.error, OffsetOutOfRangeError):
            return self._find_start(tp, progress)
        if fetched.error is not None:
            progress.failure = fetched.error
            return None
        progress.failure = None
        progress.source_end = fetched.high_watermark
        records, end = _whole_batches(tp, fetched.records, progress.end)
        fill_to = -1
        if not len(records) and progress.fetch_from < fetched.high_watermark:
            fill_to = self._end_of_gap(tp, progress)
        start = max(fetched.log_start_offset, 0)
        if not len(records) and fill_to <= progress.end and min(start, progress.end) <= progress.start:
            return None
        return MirrorAppend(progress.end, records, fill_to, start, max(end, fill_to))

    def _find_start(self, tp: TopicPartition, progress: CopyProgress) -> MirrorAppend | None:
        """The source has removed what comes next: go on where it begins. Raises MirrorRefusedError."""
        start = self._link.source.list_offsets([tp], EARLIEST)[tp]
        end = self._link.source.list_offsets([tp], LATEST)[tp]
        if progress.fetch_from > end:
            raise MirrorRefusedError(
                f"{tp} ends at {end} at {self._link.source.bootstrap}, but the copy holds {tp}:{end}-{progress.end - 1}"
                ": the source lost them, or others wrote to the copy"
            )
        progress.fetch_from, progress.source_end = max(start, progress.fetch_from), end
        if start == end > progress.end:
            return MirrorAppend(progress.end, NO_RECORDS, end, start, end)
        return None

    def _end_of_gap(self, tp: TopicPartition, progress: CopyProgress) -> int:
        """Where offsets without a batch end, at the end of the source; -1 where there are batches.

        A fetch of several partitions may bring nothing of one that has something. Asked for alone, it brings a batch,
        unless the source has to load it first.
        """
        alone = self._link.source.fetch({tp: progress.fetch_from}, max_wait_ms=0, read_committed=False)[tp]
        if alone.error is not None or len(alone.records) or is_in_store(self._link.source, tp, progress.fetch_from):
            return -1
        return alone.high_watermark

    def _take(self, tp: TopicPartition, asked: MirrorAppend, appended: MirrorAppended, copied: Copied) -> None:
        progress = self.partitions[tp]
        if appended.code == ErrorCode.NONE:
            progress.end = progress.fetch_from = appended.end
            progress.start = min(asked.start, appended.end)
            copied.size += len(asked.records)
            copied.batches += 1
        elif appended.code == ErrorCode.OFFSET_OUT_OF_RANGE and appended.end >= 0:
            progress.end = progress.fetch_from = appended.end  # a request that was sent again, or another mirror
        elif isinstance(appended.error, UnavailableError):
            progress.failure = appended.error
            if appended.end >= 0:
                progress.end = progress.fetch_from = appended.end
        else:
            copied.refused[tp] = appended.error or MirrorRefusedError(f"{tp} is refused")


def _whole_batches(tp: TopicPartition, records: memoryview, end: int) -> tuple[memoryview, int]:
    """The whole batches after ``end``, and where they end. Raises MirrorRefusedError where one lies across ``end``."""
    first = last = 0
    next_offset = end
    if len(records) < HEADER_BYTES:
        return NO_RECORDS, end
    for at, header in iter_headers(records):
        last = at + header.size_bytes
        if header.next_offset <= end:
            first = last
            continue
        if header.base_offset < end:
            raise MirrorRefusedError(
                f"the copy of {tp} ends at {end}, amid the source's batch from {header.base_offset} to "
                f"{header.last_offset}: it was not copied from there; delete the topic at the target"
            )
        next_offset = header.next_offset
    return records[first:last], next_offset
