"""Read limits: how much of a backlog one micro-batch takes. Pure.

Each partition's share is proportional to its backlog, in whole offsets, rounded so that no partition starves. A limit
in bytes is approximate: the bytes of an offset are estimated from a sample (``sizes``), and record batches are never
cut, so a micro-batch may be a little over or under it.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.model import Position, TopicPartition


def backlog(start: Position, ends: Position) -> dict[TopicPartition, int]:
    """How many offsets each partition has to give."""
    return {tp: max(0, end - start.get(tp, 0)) for tp, end in ends.items()}


def limited(start: Position, ends: Position, offsets_max: int) -> Position:
    """``ends``, or less: at most ``offsets_max`` offsets beyond ``start``, by how much each partition has."""
    behind = {tp: count for tp, count in backlog(start, ends).items() if count}
    total = sum(behind.values())
    if total <= offsets_max:
        return ends
    each = 1 if offsets_max >= len(behind) else 0  # the small ones must not starve
    shared, among = offsets_max - each * len(behind), total - each * len(behind)
    shares = {tp: each + (count - each) * shared // among for tp, count in behind.items()}
    left = offsets_max - sum(shares.values())
    for tp in sorted(behind, key=lambda tp: shares[tp] - behind[tp])[:left]:
        shares[tp] += 1
    return _taken(start, ends, shares)


def limited_by_bytes(
    start: Position, ends: Position, bytes_max: int, sizes: Mapping[TopicPartition, float]
) -> Position:
    """``ends``, or less: about ``bytes_max`` bytes beyond ``start``; ``sizes`` are the bytes of one offset,
    where they are known.

    At least one offset of each backlog is taken, however large it is.
    """
    behind = {tp: count for tp, count in backlog(start, ends).items() if count}
    average = sum(sizes.values()) / len(sizes) if sizes else 1.0
    total = sum(count * sizes.get(tp, average) for tp, count in behind.items())
    if total <= bytes_max:
        return ends
    return _taken(start, ends, {tp: max(1, int(count * bytes_max / total)) for tp, count in behind.items()})


def _taken(start: Position, ends: Position, shares: Mapping[TopicPartition, int]) -> Position:
    return Position({tp: min(end, start.get(tp, 0) + shares.get(tp, 0)) for tp, end in ends.items()})
