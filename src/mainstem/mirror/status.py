"""How far a copy is behind its source, asked of both logs: no mirror needs to run."""

from __future__ import annotations

import time
from typing import NamedTuple

from mainstem.client.wire.cluster.cluster import LATEST
from mainstem.errors import MainstemError
from mainstem.mirror.lineage import batch_at
from mainstem.mirror.link import Link, mirror_of, mirror_text
from mainstem.mirror.topics import divergences
from mainstem.model import TopicPartition


class CopyStatus(NamedTuple):
    """One partition. ``lag_s`` is the age of the oldest record that is not copied; None where it has no time."""

    topic_partition: TopicPartition
    state: str
    source_end: int
    copied: int | None
    lag_records: int | None
    lag_s: float | None


def copy_status(link: Link) -> list[CopyStatus]:
    """All partitions of the source's topics that are meant. Raises AuthorizationError, LogUnavailableError."""
    link.require_logs()
    source, target = link.source_topics(), link.target_topics()
    tps = [TopicPartition(name, number) for name, topic in source.items() for number in topic.partitions]
    ends = link.source.list_offsets(tps, LATEST)
    there = [tp for tp in tps if tp.topic in target and tp.partition in target[tp.topic].partitions]
    copied = link.target.list_offsets(there, LATEST)
    states = {name: _state(link, name) for name in source}
    return [
        CopyStatus(
            tp,
            states[tp.topic],
            ends[tp],
            copied.get(tp),
            ends[tp] - copied[tp] if tp in copied else None,
            _lag_s(link, tp, copied.get(tp, 0), ends[tp]),
        )
        for tp in tps
    ]


def _state(link: Link, name: str) -> str:
    """Whether the target's topic is a mirror of the source's, and holds nothing else."""
    topic = link.source.topics[name]
    if name not in link.target.topics:
        return "missing"
    of = mirror_of(link.target, name)
    if of != mirror_text(link.source_id, topic):
        return "another mirror" if of else "not a mirror"
    different = divergences(link, topic)
    return f"differs at {different[0].text}" if different else "mirror"


def _lag_s(link: Link, tp: TopicPartition, copied: int, end: int) -> float | None:
    if copied >= end:
        return 0.0
    try:
        header = batch_at(link.source, tp, copied)
    except MainstemError:  # the source has removed it: what comes next has another time
        return None
    if header is None or header.base_timestamp < 0:
        return None
    return max(time.time() - header.base_timestamp / 1000, 0.0)
