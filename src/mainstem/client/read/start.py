"""Where a reader begins and ends: words, offsets, positions and times, turned into an offset for each partition.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from mainstem.client.read.time_search import first_records_at
from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.metadata import recreated_topic
from mainstem.errors import InputError, OffsetOutOfRangeError, UnknownTopicError
from mainstem.model import OnDamaged, Position, TopicPartition, topic_was_recreated

Moment: TypeAlias = str | int | Position | datetime.datetime
"""``"earliest"``, ``"latest"``, an offset (of every partition), a position (also in its text form), or a time."""
Offsets: TypeAlias = dict[TopicPartition, int]
TopicIds: TypeAlias = Mapping[str, UUID]


def partitions_of(client: WireClient, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of the topics, in order. Raises UnknownTopicError."""
    names = list(dict.fromkeys(topics))
    found = client.metadata(names)
    for name in names:
        if name not in found:
            raise UnknownTopicError(f"there is no topic {name!r}; mainstem topics list shows the topics")
    return [TopicPartition(name, partition) for name in names for partition in found[name].partitions]


def topic_ids_of(client: WireClient, topics: Iterable[str]) -> TopicIds:
    """The ids of topics whose partitions were just asked for."""
    return {name: client.topics[name].topic_id for name in topics}


def require_topics(client: WireClient, topic_ids: TopicIds) -> None:
    """See that offsets of these topics mean something to ``client``, which may know a topic from before or after.

    Raises UnknownTopicError for a topic that was deleted or recreated.
    """
    for name, topic_id in topic_ids.items():
        known = client.topics.get(name)
        if known is None or not topic_was_recreated(topic_id, known.topic_id):
            continue
        now = client.metadata([name]).get(name)
        if now is None or topic_was_recreated(topic_id, now.topic_id):
            raise recreated_topic(name)


def end_offsets(client: WireClient, partitions: Iterable[TopicPartition], *, read_committed: bool) -> Offsets:
    """The end of each partition: the last stable offset, or the high watermark."""
    isolation = Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED
    return client.list_offsets(partitions, LATEST, isolation)


def start_offsets(
    client: WireClient,
    ends: Mapping[TopicPartition, int],
    start: Moment,
    *,
    existing: Iterable[TopicPartition] = (),
    on_damaged: OnDamaged = "stop",
) -> Offsets:
    """The offset in each partition of ``ends`` where ``start`` is; a position may name other ``existing`` ones, too.

    ``on_damaged`` says whether the search for a time steps over records that cannot be read.

    Raises OffsetOutOfRangeError for an offset or a position beyond the end; a partition that a position does not name
    starts at its beginning.
    """
    if isinstance(start, str) and start not in ("earliest", "latest"):
        start = Position.parse(start)
    if start == "latest":
        return dict(ends)
    if isinstance(start, datetime.datetime):
        return offsets_at_time(client, ends, start, on_damaged)
    if isinstance(start, int) and not isinstance(start, bool):
        return _from_offset(ends, start)
    beginnings = client.list_offsets(ends, EARLIEST)
    if isinstance(start, Position):
        return _from_position(ends, beginnings, start, frozenset(existing))
    if start == "earliest":
        return beginnings
    raise InputError(f"start={start!r}: give 'earliest', 'latest', an offset, a position or a datetime")


def bounds(
    client: WireClient, ends: Mapping[TopicPartition, int], end: Moment | None, on_damaged: OnDamaged = "stop"
) -> Offsets:
    """Where a bounded reader ends in each partition: at ``end``, but never past the log's."""
    if end is None or end == "latest":
        return dict(ends)
    if end == "earliest":
        return client.list_offsets(ends, EARLIEST)
    if isinstance(end, str):
        end = Position.parse(end)
    if isinstance(end, Position):
        return {tp: min(offset, end.get(tp, 0)) for tp, offset in ends.items()}
    if isinstance(end, datetime.datetime):
        return offsets_at_time(client, ends, end, on_damaged)
    return {tp: min(offset, end) for tp, offset in ends.items()}


def offsets_at_time(
    client: WireClient,
    ends: Mapping[TopicPartition, int],
    time: datetime.datetime,
    on_damaged: OnDamaged = "stop",
) -> Offsets:
    """The offset of each partition's first record (``time_search``) at or after ``time``; its end when there is none.

    A datetime without a zone is taken as UTC.
    """
    moment = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    timestamp_ms = -((-int(moment.timestamp() * 1_000_000)) // 1000)
    if timestamp_ms < 0:
        return client.list_offsets(ends, EARLIEST)
    stable = end_offsets(client, ends, read_committed=True)  # an open transaction's records are none yet
    committed = {tp: min(end, stable[tp]) for tp, end in ends.items()}
    found = first_records_at(client, committed, timestamp_ms, on_damaged=on_damaged)
    return {tp: found.get(tp, end) for tp, end in committed.items()}


def _from_offset(ends: Mapping[TopicPartition, int], offset: int) -> Offsets:
    if offset < 0 or (ends and all(offset > end for end in ends.values())):
        raise OffsetOutOfRangeError(f"offset {offset} is not in the log, which ends at {Position(ends)}")
    return {tp: min(offset, end) for tp, end in ends.items()}


def _from_position(
    ends: Mapping[TopicPartition, int], beginnings: Offsets, position: Position, existing: frozenset[TopicPartition]
) -> Offsets:
    topics = {tp.topic for tp in ends}
    for tp, offset in position.items():
        if tp.topic in topics and tp not in ends and tp not in existing:
            raise UnknownTopicError(f"there is no partition {tp}")
        if tp in ends and offset > ends[tp]:
            raise OffsetOutOfRangeError(f"{tp}:{offset} is beyond the end of the log, {tp}:{ends[tp]}")
    return {tp: position.get(tp, beginnings[tp]) for tp in ends}
