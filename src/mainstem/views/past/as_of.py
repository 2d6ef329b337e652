"""The position of a past moment: a given position, which is checked, or a time, which is looked up in the log.

* A position has to name every partition of the topic, and nothing else, as the position of every answer does: a state
  is that of all partitions. One beyond the committed records is refused.
* A time means, in each partition, everything before the first record whose timestamp is that time or later. A later
  record with an earlier timestamp does not count; one before it with a later timestamp cannot exist. Transaction
  markers and aborted records are ignored (`client.read.time_search`). If the log has removed records, and has none
  left from before the time, it is unknown which removed records were before it: that is refused.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

import datetime
from typing import TypeAlias

from mainstem.client.read.start import end_offsets, partitions_of
from mainstem.client.read.time_search import first_records, first_records_at
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.errors import HistoryRemovedError, InputError, PositionError
from mainstem.model import OnDamaged, Position, TopicPartition

AsOf: TypeAlias = Position | int
"""A position, or a time in milliseconds since the epoch."""

_MS_DIGITS_MAX = 15


def read_moment(text: str) -> AsOf:
    """Read a position, milliseconds since the epoch, or a time in ISO 8601 (UTC where it names no zone).

    Raises PositionFormatError, InputError.
    """
    if "/" in text:
        return Position.parse(text)
    if text.isascii() and text.isdecimal() and len(text) <= _MS_DIGITS_MAX:
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text)
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return max(0, -((-int(zoned.timestamp() * 1_000_000)) // 1_000))
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"invalid moment {text[:100]!r}: give a position such as flights/0:17, milliseconds since the epoch, or a "
            "time such as 2013-01-01T10:00:00Z"
        ) from error


def position_at(client: WireClient, topic: str, moment: AsOf, on_damaged: OnDamaged = "stop") -> Position:
    """The position of ``topic``, with every partition in it, that ``moment`` is.

    Raises PositionError, HistoryRemovedError, UnknownTopicError, LogUnavailableError.
    """
    tps = partitions_of(client, [topic])
    ends = end_offsets(client, tps, read_committed=True)
    if isinstance(moment, int):
        return _at_time(client, ends, moment, on_damaged)
    for tp in moment:
        if tp not in ends:
            raise PositionError(f"the position names {tp}, but topic {topic} of the view has no such partition")
    for tp, end in ends.items():
        if tp not in moment:
            raise PositionError(
                f"the position does not name {tp}: use a position with every partition of {topic}, as in every "
                f"answer; {tp}:0 means none of its records"
            )
        if moment[tp] > end:
            raise PositionError(f"the position {tp}:{moment[tp]} is beyond the committed records, {tp}:{end}")
    return moment


def _at_time(client: WireClient, ends: dict[TopicPartition, int], time_ms: int, on_damaged: OnDamaged) -> Position:
    found = first_records_at(client, ends, time_ms, on_damaged=on_damaged)
    offsets = {tp: found.get(tp, end) for tp, end in ends.items()}
    starts = {tp: start for tp, start in client.list_offsets(ends, EARLIEST).items() if start > 0}
    older = first_records(client, starts, offsets, on_damaged=on_damaged)
    for tp, offset in offsets.items():
        if tp in starts and tp not in older:
            raise HistoryRemovedError(
                f"the log has removed what {tp} held before offset {offset}, and nothing that is left of it is older "
                "than that time: ask for a later time, or by a position"
            )
    return Position(offsets)
