"""Opens the target of a mirror to writers, at a position that both logs have in common, and writes that down.

Planned, in this order, so that a kill between any two steps can be repeated:

1. A Mainstem source is closed: its topics become the mirrors of the target's. Apache Kafka cannot be closed: its
   writers must be stopped before.
2. The rest is copied, until every partition ends where the source ends, and no transaction is open.
3. Committed offsets are carried over, and the position is written down.
4. The target's topics are opened. The source is then a copy of the target, for a mirror the other way round.

If 2 does not succeed in time, the source is opened again, and nothing has changed. Unplanned, the source is not asked:
the position is where the copy ends, and transactions that are open there are aborted, because their ends are lost.
They are written down with the position, so that another run aborts what a killed one has left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.client.wire.cluster.topics import set_topic_configs
from mainstem.errors import MirrorRefusedError
from mainstem.mirror.link import Link, is_mainstem, mirror_of, mirror_text, require_mainstem
from mainstem.mirror.mirror import Mirror, MirrorOptions
from mainstem.mirror.promotion_record import (
    AbortedAtPromotion,
    Promotion,
    earlier_promotion,
    promotions,
    write_promotion,
)
from mainstem.model import MIRROR_OF, Position, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from mainstem.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_QUIET_S: Final = 1.0
"""A source that cannot be closed must not grow for so long."""


class Promoted(NamedTuple):
    """The topics that were opened, and their promotion. No topics: an earlier run had opened them."""

    promotion: Promotion
    topics: tuple[str, ...]


class PromotionLoss(NamedTuple):
    """Offsets ``first`` to ``last`` are at the former source only: they were written there, and never copied.

    With a ``producer_id``: they were copied, but those of this producer belong to a transaction that was aborted.
    """

    topic_partition: TopicPartition
    first: int
    last: int
    producer_id: int | None = None

    @property
    def text(self) -> str:
        """The offsets, as ``topic/partition:first-last``."""
        offsets = f"{self.topic_partition}:{self.first}-{self.last}"
        return offsets if self.producer_id is None else f"{offsets} of producer {self.producer_id}, aborted"


def promote(link: Link, note: Callable[[str], None], timeout_s: float) -> Promoted:
    """The planned promotion. Raises MirrorRefusedError: then the target is a mirror as before."""
    link.require_logs()
    topics = _require_mirrors(link, _mirrors(link))
    link.restrict(topics)
    source_topics = link.source_topics()
    missing = sorted(set(topics).difference(source_topics))
    if missing:
        raise MirrorRefusedError(
            f"topic {missing[0]!r} is not at {link.source.bootstrap}: leave it out with --topics, or promote it with "
            "--source-is-lost"
        )
    earlier = earlier_promotion(link.target, link.source_id)  # before anything is closed: it may be refused
    closes = is_mainstem(link.source)
    never_s = 2 * timeout_s
    options = MirrorOptions(None, never_s, never_s, never_s, source_is_closed=True)
    mirror = Mirror(link, options, note)
    closed: list[str] = []
    try:
        mirror.begin()
        for name in topics if closes else ():
            closed.append(name)
            set_topic_configs(link.source, name, {MIRROR_OF: mirror_text(link.target_id, source_topics[name])})
        quiet_s = 0.0 if closes else _QUIET_S
        position = _level(link, mirror, [source_topics[name] for name in topics], timeout_s, quiet_s)
        mirror.carry_groups(require_stable=True)
    except BaseException:
        for name in closed:
            set_topic_configs(link.source, name, {}, reset=[MIRROR_OF])
        raise
    finally:
        mirror.close()
    promotion = write_promotion(link.target, link.source_id, position, earlier, is_planned=True)
    _open(link.target, topics)
    return Promoted(promotion, tuple(topics))


def promote_alone(link: Link) -> Promoted:
    """The unplanned promotion; the source is not asked. Raises MirrorRefusedError when the target has no mirrors."""
    target = link.target
    require_mainstem(target)
    known, topics = promotions(target), _mirrors(link)
    left = _left_open(link, known.values(), topics)
    if not topics and left:
        return _finish(link, known.values(), left)
    _require_mirrors(link, topics)
    tps = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
    position = Position(target.list_offsets(tps, LATEST))
    hanging = [*left, *((tp, producer) for tp in tps for producer in _open_transactions(target, tp))]
    aborted = [_aborted(tp, producer) for tp, producer in hanging]
    for source_id in sorted({mirror_of(target, name).partition("/")[0] for name in topics}):
        earlier = earlier_promotion(target, source_id)
        promotion = write_promotion(target, source_id, position, earlier, is_planned=False, aborted=aborted)
    _open(target, topics)
    for tp, producer in hanging:
        _abort(target, tp, producer)
    return Promoted(promotion, tuple(topics))


def _left_open(
    link: Link, known: Iterable[Promotion], mirrors: Container[str]
) -> list[tuple[TopicPartition, ProducerState]]:
    """The transactions that a promotion wrote down, and did not come to abort: its topics are open already."""
    there = {
        TopicPartition(name, number)
        for name, topic in link.target_topics().items()
        if name not in mirrors
        for number in topic.partitions
    }
    written = {each for promotion in known for each in promotion.aborted if each.topic_partition in there}
    return [
        (tp, producer)
        for tp in sorted({each.topic_partition for each in written})
        for producer in _open_transactions(link.target, tp)
        if _aborted(tp, producer) in written
    ]


def _finish(link: Link, known: Iterable[Promotion], left: list[tuple[TopicPartition, ProducerState]]) -> Promoted:
    """Abort what an unplanned promotion has left open; returns what that promotion says of these topics."""
    aborted = tuple(_aborted(tp, producer) for tp, producer in left)
    for tp, producer in left:
        _abort(link.target, tp, producer)
    promotion = max((each for each in known if aborted[0] in each.aborted), key=lambda each: each.time_ms)
    topics = {tp.topic for tp, _ in left}
    earlier_ms = {name: time_ms for name, time_ms in promotion.earlier_ms.items() if name in topics}
    position = promotion.position.restrict(topics)
    return Promoted(replace(promotion, position=position, aborted=aborted, earlier_ms=earlier_ms), ())


def _aborted(tp: TopicPartition, producer: ProducerState) -> AbortedAtPromotion:
    return AbortedAtPromotion(tp, producer.producer_id, producer.current_txn_start_offset)


def losses(link: Link) -> list[PromotionLoss]:
    """The records that the source holds after the position of its promotion, while it was the source.

    Raises MirrorRefusedError when the target was never promoted from this source.
    """
    link.require_logs()
    known = promotions(link.target).get(link.source_id)
    if known is None:
        raise MirrorRefusedError(
            f"{link.target.bootstrap} was not promoted from {link.source.bootstrap}: there is nothing to compare with"
        )
    there = link.source.metadata({tp.topic for tp in known.position})
    tps = [tp for tp in known.position if tp.topic in there and not mirror_of(link.source, tp.topic)]
    ends = link.source.list_offsets(tps, LATEST)
    found = [PromotionLoss(tp, known.position[tp], ends[tp] - 1) for tp in tps if ends[tp] > known.position[tp]]
    for tp, producer_id, first in known.aborted:
        if tp in tps:
            found.append(PromotionLoss(tp, first, known.position[tp] - 1, producer_id))
    return sorted(found)


def _mirrors(link: Link) -> dict[str, TopicMetadata]:
    """The target's topics that are mirrors."""
    return {name: topic for name, topic in link.target_topics().items() if mirror_of(link.target, name)}


def _require_mirrors(link: Link, topics: dict[str, TopicMetadata]) -> dict[str, TopicMetadata]:
    if not topics:
        raise MirrorRefusedError(
            f"{link.target.bootstrap} has no mirror among these topics: it was promoted already, or mainstem mirror "
            "has not made them"
        )
    return topics


def _level(link: Link, mirror: Mirror, topics: Iterable[TopicMetadata], timeout_s: float, quiet_s: float) -> Position:
    """Copy until both logs end alike, with no transaction open, and the source does not grow for ``quiet_s``.

    Raises MirrorRefusedError after ``timeout_s``.
    """
    tps = [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]
    until_s = time.monotonic() + timeout_s
    since_s, before = time.monotonic(), None
    while True:
        mirror.round()
        ends = link.source.list_offsets(tps, LATEST)
        if ends != before:
            since_s, before = time.monotonic(), ends
        stable = link.source.list_offsets(tps, LATEST, Isolation.READ_COMMITTED)
        copied = link.target.list_offsets(tps, LATEST)
        behind = [tp for tp in tps if not stable[tp] == ends[tp] == copied[tp]]
        if not behind and time.monotonic() - since_s >= quiet_s:
            return Position(copied)
        if time.monotonic() >= until_s:
            raise MirrorRefusedError(_why_not_level(behind, ends, stable, copied, timeout_s))


def _why_not_level(
    behind: list[TopicPartition],
    ends: Mapping[TopicPartition, int],
    stable: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, int],
    timeout_s: float,
) -> str:
    if not behind:
        return f"the source still grows after {timeout_s:g} s: stop its writers first; nothing was changed"
    tp = behind[0]
    if stable[tp] != ends[tp] and copied[tp] == ends[tp]:
        what = f"a transaction is open in {tp} from offset {stable[tp]}: end it, or wait for its time-out"
    else:
        what = f"{tp} ends at {ends[tp]}, its copy at {copied[tp]}: stop the writers, or give more --timeout"
    return f"the logs are not level after {timeout_s:g} s: {what}; nothing was changed"


def _open(target: WireClient, topics: Iterable[str]) -> None:
    for name in topics:
        set_topic_configs(target, name, {}, reset=[MIRROR_OF])


def _open_transactions(client: WireClient, tp: TopicPartition) -> list[ProducerState]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=tp.topic, partition_indexes=[tp.partition])])
    [partition] = client.request(request, resends=True).topics[0].partitions
    if partition.error_code != ErrorCode.NONE:
        raise error_of(partition.error_code, f"the producers of {tp} cannot be listed", partition.error_message)
    return [each for each in partition.active_producers if each.current_txn_start_offset >= 0]


def _abort(client: WireClient, tp: TopicPartition, producer: ProducerState) -> None:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    answer: Any = client.request(WriteTxnMarkersRequest(markers=[marker]), resends=True)
    for result in answer.markers[0].topics[0].partitions:
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"the transaction of producer {producer.producer_id} in {tp} stays open")
