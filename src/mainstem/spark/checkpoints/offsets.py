"""How far a stream or a scan reads: offsets of every partition, with the id of each topic that they belong to.

``StreamOffsets`` is what Spark keeps in its checkpoint for the source. Beside the topics that it streams it carries the
end positions of the tables that the query joins, so that a micro-batch that is run again joins the same rows. Its JSON
is stable: the same offsets give the same text, by which Spark knows that there is nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.client.read.time_search import first_records_at
from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.errors import ConfigError, PositionFormatError
from mainstem.model import OnDamaged, Position, TopicPartition
from mainstem.spark.options.read_options import At, Bound, ByOffset, ByTime, ReadOptions

_NOT_OURS = "it was made by another source or a later version; start the query with a checkpoint of its own"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of every partition, and ``topic_ids``: the ids of the topics that the offsets belong to.

    ``starts``: where the micro-batch that ends here begins, in the partitions in which that is not the end of the
    micro-batch before it: new ones, those with lost offsets, and all partitions in a stream's first micro-batch. When
    Spark repeats the first one, it asks for the initial offsets again, and ``latest`` would have moved.
    ``stream`` identifies this stream for as long as it exists; ``is_initial``: no micro-batch has ended here.
    """

    position: Position
    topic_ids: Mapping[str, str]
    tables: Position
    starts: Position = field(default_factory=Position)
    stream: str = ""
    is_initial: bool = False

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"position": self.position.to_json(), "topic_ids": dict(self.topic_ids)}
        if self.tables:
            document["tables"] = self.tables.to_json()
        if self.starts:
            document["starts"] = self.starts.to_json()
        if self.stream:
            document["stream"] = self.stream
        return {**document, "initial": True} if self.is_initial else document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffsets:
        """Raises KeyError, TypeError, AttributeError or PositionFormatError for what is not ``to_json``'s."""
        return cls(
            Position.from_json(document["position"]),
            dict(sorted(document.get("topic_ids", {}).items())),
            Position.from_json(document.get("tables", {})),
            Position.from_json(document.get("starts", {})),
            str(document.get("stream", "")),
            document.get("initial") is True,
        )

    @classmethod
    def from_checkpoint(cls, document: Any) -> StreamOffsets:
        """``from_json`` of what Spark had kept. Raises ConfigError when that is not this source's."""
        try:
            return cls.from_json(document)
        except (KeyError, TypeError, AttributeError, PositionFormatError) as error:
            raise ConfigError(
                f"the checkpoint's offsets {str(document)[:200]} are not this source's: {_NOT_OURS}"
            ) from error

    def start_of(self, tp: TopicPartition, before: StreamOffsets) -> int:
        """The begin of the micro-batch that goes from ``before`` to here."""
        return self.starts.get(tp, before.position.get(tp, 0))

    def begin(self, before: StreamOffsets) -> Position:
        """``start_of`` every partition."""
        return Position({tp: self.start_of(tp, before) for tp in self.position})


def resolve(
    client: WireClient,
    partitions: Iterable[TopicPartition],
    bound: Bound,
    isolation: Isolation = Isolation.READ_COMMITTED,
    *,
    fails_without_match: bool = False,
    on_damaged: OnDamaged = "stop",
) -> Position:
    """The offset of each partition that ``bound`` says. ``on_damaged`` is for the search of a time.

    A partition without a record at or after a time is at its end, or is a ConfigError with ``fails_without_match``.
    A map that leaves partitions out, or names others, is a ConfigError: which end it should then be is a guess.
    """
    asked = list(partitions)
    if isinstance(bound, At):
        return Position(client.list_offsets(asked, bound.symbol, isolation))
    if isinstance(bound, ByTime):
        found, ends = _at_times(client, asked, bound, isolation, on_damaged)
        return _matched(asked, bound, found, ends, fails_without_match=fails_without_match)
    _require_same(asked, bound.offsets, bound.option, "-2 is earliest, -1 is latest")
    found = {tp: offset for tp, offset in bound.offsets.items() if offset >= 0}
    for symbol in (EARLIEST, LATEST):
        tps = [tp for tp, offset in bound.offsets.items() if offset == symbol]
        found.update(client.list_offsets(tps, symbol, isolation) if tps else {})
    return Position(found)


def _at_times(
    client: WireClient, asked: list[TopicPartition], bound: ByTime, isolation: Isolation, on_damaged: OnDamaged
) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, int]]:
    """Where the times are, in the partitions that have records so late; and the end of each partition."""
    if bound.everywhere_ms is None:
        _require_same(asked, bound.times_ms, bound.option, "each needs a time in milliseconds")
    by_time: dict[int, list[TopicPartition]] = {}
    for tp in asked:
        by_time.setdefault(bound.time_ms(tp), []).append(tp)
    found: dict[TopicPartition, int] = {}
    ends = client.list_offsets(asked, LATEST, isolation) if asked else {}
    for time_ms, tps in by_time.items():
        found.update(first_records_at(client, {tp: ends[tp] for tp in tps}, time_ms, isolation, on_damaged))
    return found, ends


def _matched(
    asked: list[TopicPartition],
    bound: ByTime,
    found: dict[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    fails_without_match: bool,
) -> Position:
    unmatched = [tp for tp in asked if tp not in found]
    if unmatched and fails_without_match:
        raise ConfigError(
            f"option {bound.option}: {', '.join(map(str, unmatched))} has no record at or after "
            f"{bound.time_ms(unmatched[0])}; set startingOffsetsByTimestampStrategy=latest to start at the end there"
        )
    if unmatched:
        found.update({tp: ends[tp] for tp in unmatched})
    return Position(found)


def _require_same(partitions: list[TopicPartition], spec: Mapping[TopicPartition, int], option: str, how: str) -> None:
    missing, foreign = set(partitions) - spec.keys(), spec.keys() - set(partitions)
    if missing or foreign:
        said = ", ".join(
            [*(f"{tp} is missing" for tp in sorted(missing)), *(f"{tp} does not exist" for tp in sorted(foreign))]
        )
        raise ConfigError(f"option {option} must name every partition that is read: {said} ({how})")


def initial_position(client: WireClient, partitions: Iterable[TopicPartition], options: ReadOptions) -> Position:
    """Where a stream starts. Raises ConfigError for an offset after the end of its partition."""
    asked = list(partitions)
    bound = options.starting or At("startingOffsets", LATEST)
    start = resolve(
        client,
        asked,
        bound,
        options.isolation,
        fails_without_match=options.fails_without_match,
        on_damaged=options.on_damaged,
    )
    if isinstance(bound, ByOffset):
        require_within(start, Position(client.list_offsets(asked, LATEST, options.isolation)), bound.option)
    return start


def require_within(position: Position, ends: Position, option: str) -> None:
    """Raises ConfigError for an offset after the end of its partition."""
    beyond = [f"{tp} has {offset}, but ends at {ends[tp]}" for tp, offset in position.items() if offset > ends[tp]]
    if beyond:
        raise ConfigError(f"option {option}: {'; '.join(beyond)}; give at most the end, or -1 (latest)")


def require_subscribed(start: StreamOffsets, options: ReadOptions) -> None:
    """Raises ConfigError when the checkpoint's offsets are of topics or partitions that the options do not name."""
    if options.pattern is not None:
        return
    if options.assigned:
        foreign = [str(tp) for tp in start.position if tp not in options.assigned]
    else:
        foreign = sorted(start.position.topics - set(options.topics))
    if foreign:
        option = "assign" if options.assigned else "subscribe"
        raise ConfigError(
            f"the checkpoint holds offsets of {', '.join(foreign)}, which the option {option} does not name: it "
            f"belongs to another query; name them as well, or start the query with a checkpoint of its own"
        )
