"""``JourneyFinder``: where a record went, pipeline by pipeline, and where it came from.

It reads positions only: the progress of pipelines, their finished micro-batches, and the topics themselves. So it works
for every record, of any writer, on Mainstem and on Apache Kafka.

Forward: what a micro-batch derived lies in a range of each output. Where the record's key is in that range, those
records are followed on, and else the whole range. Backward is the same the other way round.

Bounded: at most ``STEPS_MAX`` pipelines, ``DEPTH_MAX`` after each other; no step begins after
``TIME_MAX_S``. Safe from any thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mainstem.client.dead_letter_headers import pipeline_topic
from mainstem.clock import Clock, SystemClock
from mainstem.model import DATABASE_TOPIC_PREFIX, Position, Record, TopicPartition
from mainstem.pipelines.journey.batch_search import At, BatchHistory, FoundBatch
from mainstem.pipelines.journey.key_search import KeyMatches, TopicRange, records_of_key, without_markers_at_end
from mainstem.pipelines.journey.letter_search import letter_note
from mainstem.pipelines.journey.record_place import PlaceState, RecordPlace, blocking_transactions, find_place
from mainstem.pipelines.journey.steps import Arrival, Journey, OriginStep, PipelineStep
from mainstem.pipelines.journey.waits import pipeline_wait, time_text, transactions_wait, watermark_wait

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.pipelines.overview import Overview

STEPS_MAX: Final = 50
DEPTH_MAX: Final = 8
TIME_MAX_S: Final = 20.0
COMMIT_HEADERS: Final = ("mainstem-lsn", "mainstem-xid", "mainstem-commit-ts")
"""The headers of a captured change: its transaction's end in the database's log, its id and its time."""
_HEADER_BYTES_MAX: Final = 40
Document = Mapping[str, Any]
Side = Callable[[Position, Position], Position]
"""Chooses one of two positions: of a micro-batch's source and its sink."""


@dataclass(frozen=True, slots=True)
class Sees:
    """The rights of a caller: the topics that it may see, and whether it may see what pipelines say of themselves.

    The texts of their failures may quote records of any topic; what holds a watermark back names one.
    """

    topic: Callable[[str], bool] = lambda _: True
    errors: bool = True


class JourneyFinder:
    """Finds journeys on one log."""

    def __init__(self, log: Log, overview: Overview, clock: Clock | None = None) -> None:
        self._log = log
        self._overview = overview
        self._clock = clock or SystemClock()

    def find(self, tp: TopicPartition, offset: int, sees: Sees | None = None) -> Journey:
        """The journey of the record at ``offset``. Raises UnknownTopicError, LogUnavailableError."""
        place = find_place(self._log, tp, offset)
        walk = _Walk(self._log, self._overview.latest(), sees or Sees(), self._clock)
        walk.forward(place)
        if place.state.is_settled:
            walk.backward(place)
        return Journey(
            place=place,
            now_ms=self._clock.time_ms(),
            origins=tuple(walk.origins),
            pipelines=tuple(walk.steps),
            arrivals=tuple(walk.arrivals),
            is_complete=walk.is_complete,
            hidden=walk.hidden,
        )


@dataclass(frozen=True, slots=True)
class _Batches:
    """The micro-batches that took a range: the last of them, and the first if that is another one."""

    last: FoundBatch | None
    first: FoundBatch | None
    note: str = ""


class _Walk:
    """One journey while it is put together."""

    def __init__(self, log: Log, pipelines: list[dict[str, Any]], sees: Sees, clock: Clock) -> None:
        self.steps: list[PipelineStep] = []
        self.origins: list[OriginStep] = []
        self.arrivals: list[Arrival] = []
        self.is_complete = True
        self.hidden = 0
        self._log = log
        self._pipelines = pipelines
        self._sees = sees
        self._clock = clock
        self._ends_s = clock.monotonic_s() + TIME_MAX_S

    def _is_at_bound(self, steps: int, depth: int) -> bool:
        return steps >= STEPS_MAX or depth >= DEPTH_MAX or self._clock.monotonic_s() >= self._ends_s

    # ---- forward

    def forward(self, place: RecordPlace) -> None:
        """Follow the record through the pipelines that read its topic, and those that read what they derive."""
        key = None if place.record is None else place.record.key
        near_ms = None if place.record is None else place.record.timestamp_ms
        start = Position({place.tp: place.offset})
        first = Arrival(place.tp.topic, 0, place.after, start, key, transactions=place.transactions)
        if not place.state.is_settled:
            first = replace(first, until=None, waits_for=_place_wait(place))
        queue, seen = deque([(first, near_ms)]), set[tuple[str, str]]()
        while queue:
            arrival, near_ms = queue.popleft()
            self.arrivals.append(arrival)
            for pipeline in self._pipelines:
                step_of = (pipeline["name"], arrival.topic)
                if not _reads(pipeline, arrival.topic) or step_of in seen:
                    continue
                if self._is_at_bound(len(self.steps), arrival.depth):
                    self.is_complete = False
                    continue
                seen.add(step_of)
                step = self._step(pipeline, arrival, near_ms)
                self.steps.append(step)
                ended_ms = None if step.batch is None else step.batch.ended_ms
                queue.extend((each, ended_ms) for each in self._arrivals_after(step, pipeline, arrival))

    def _step(self, pipeline: Document, arrival: Arrival, near_ms: int | None) -> PipelineStep:
        name, topic, until = pipeline["name"], arrival.topic, arrival.until
        if topic not in pipeline["inputs"]:
            return self._table_step(pipeline, arrival)
        step = PipelineStep(name, topic, arrival.depth, "waiting", waits_for=arrival.waits_for)
        if until is None:
            return step
        if not Position.parse(pipeline["source"]).covers(until):
            held = transactions_wait(arrival.transactions)
            own = pipeline_wait(pipeline, until, with_errors=self._sees.errors)
            return replace(step, waits_for=f"{held}; {own}" if held else own)
        batches = self._batches(name, _source_at, arrival.start, until, near_ms)
        step = replace(step, state="read", batch=batches.last, first_batch=batches.first, note=batches.note)
        letters = pipeline_topic(str(pipeline.get("app")), name)
        letter = letter_note(self._log, letters, arrival.start, until, may_read=self._may(letters))
        if letter:
            step = replace(step, note="; ".join(filter(None, (letter, step.note))))
        if batches.last is None or not batches.last.is_exact:
            return step
        sink_from, sink_to = (batches.first or batches.last).batch.sink_from, batches.last.batch.sink_to
        outputs = tuple(
            self._range(each, sink_from, sink_to, arrival.key) for each in batches.last.batch.outputs if self._may(each)
        )
        held = watermark_wait(pipeline, with_held_by=self._sees.errors)
        waits = held if not any(each.offsets for each in outputs) else ""
        note = "" if waits or any(each.matches.records for each in outputs) else held
        note = f"if its row is not among these, it waits for {note}" if note else ""
        return replace(step, outputs=outputs, waits_for=waits, note=step.note or note)

    def _table_step(self, pipeline: Document, arrival: Arrival) -> PipelineStep:
        """The topic is a table of the pipeline: read whole, up to where each micro-batch finds its end."""
        tables = Position.parse(pipeline["tables"])
        step = PipelineStep(pipeline["name"], arrival.topic, arrival.depth, "table", waits_for=arrival.waits_for)
        if arrival.until is None:
            return step
        if tables.covers(arrival.until):
            return replace(
                step, note=f"the last micro-batch has seen the table up to {tables.restrict([arrival.topic])}"
            )
        return replace(
            step, waits_for=f"the next micro-batch of pipeline {pipeline['name']}, which reads the table again"
        )

    def _arrivals_after(self, step: PipelineStep, pipeline: Document, before: Arrival) -> list[Arrival]:
        """The arrivals of a step in each of its outputs."""
        if step.state == "table":
            return []  # which rows have joined it, positions do not say
        depth, visible = before.depth + 1, []
        for topic in pipeline["outputs"]:
            if self._may(topic):
                visible.append(topic)
            else:
                self.hidden += 1
        if step.state == "waiting":
            return [
                Arrival(each, depth, None, key=before.key, waits_for=f"pipeline {step.pipeline} has to read it first")
                for each in visible
            ]
        if step.batch is None or not step.batch.is_exact:
            sink = Position.parse(pipeline["sink"]) if step.batch is None else step.batch.batch.sink_from
            return [self._arrived(each, depth, Position(), sink.restrict([each]), None) for each in visible]
        ranges = [each for each in step.outputs if each.offsets]
        if not ranges and step.waits_for:
            return [Arrival(each, depth, None, key=before.key, waits_for=step.waits_for) for each in visible]
        return [self._arrived(each.topic, depth, *_place_of(each), before.key) for each in ranges]

    def _arrived(self, topic: str, depth: int, start: Position, until: Position, key: bytes | None) -> Arrival:
        transactions = blocking_transactions(self._log, until)
        return Arrival(topic, depth, until, start, key, transactions=transactions)

    # ---- backward

    def backward(self, place: RecordPlace) -> None:
        """Look where the record came from, through the pipelines that derive its topic and its inputs' topics."""
        key, near_ms = (None, None) if place.record is None else (place.record.key, place.record.timestamp_ms)
        record = place.record
        queue = deque([(place.tp.topic, Position({place.tp: place.offset}), place.after, record, near_ms, 0)])
        seen: set[tuple[str, str]] = set()
        while queue:
            topic, start, until, record, near_ms, depth = queue.popleft()
            for pipeline in self._pipelines:
                if topic not in pipeline["outputs"] or (pipeline["name"], topic) in seen:
                    continue
                if self._is_at_bound(len(self.origins), depth):
                    self.is_complete = False
                    continue
                seen.add((pipeline["name"], topic))
                if _database(pipeline) is not None:
                    self.origins.append(_capture(pipeline, topic, depth, record))
                    continue
                origin = self._origin(pipeline, topic, start, until, (key, near_ms, depth))
                self.origins.append(origin)
                ended_ms = None if origin.batch is None else origin.batch.ended_ms
                for each in origin.inputs:
                    if self._is_derived(each.topic) and (trimmed := without_markers_at_end(self._log, each)).offsets:
                        begin, end = _place_of(trimmed)
                        source = each.matches.records[-1] if each.matches.records else None
                        queue.append((each.topic, begin, end, source, ended_ms, depth + 1))

    def _origin(
        self,
        pipeline: Document,
        topic: str,
        start: Position,
        until: Position,
        about: tuple[bytes | None, int | None, int],
    ) -> OriginStep:
        name, (key, near_ms, depth) = pipeline["name"], about
        batches = self._batches(name, _sink_at, start, until, near_ms)
        found = batches.last
        if found is None or not found.is_exact:
            covers = Position() if found is None else found.batch.source_from
            return OriginStep(name, topic, depth, found, covers=self._visible(covers), note=batches.note)
        source_from, source_to = (batches.first or found).batch.source_from, found.batch.source_to
        inputs = tuple(self._range(each, source_from, source_to, key) for each in found.batch.inputs if self._may(each))
        self.hidden += sum(not self._may(each) for each in found.batch.inputs)
        return OriginStep(name, topic, depth, found, inputs, self._visible(source_to), batches.note)

    # ---- both

    def _batches(
        self,
        pipeline: str,
        at: Callable[[Position, Position], Position],
        start: Position,
        until: Position,
        near_ms: Any,
    ) -> _Batches:
        """The micro-batches of a pipeline that took the range, by ``at``: its side of source and sink."""
        history = BatchHistory(self._log, pipeline)
        is_past: At = lambda source, sink: at(source, sink).covers(until)  # noqa: E731
        last = history.find(is_past, near_ms)
        if last is None or not last.is_exact:
            return _Batches(last, None, _unknown(history, last))
        before = at(last.batch.source_from, last.batch.sink_from)
        if all(before.get(tp, 0) <= start.get(tp, 0) for tp in until):
            return _Batches(last, None)
        has_begun: At = lambda source, sink: any(at(source, sink).get(tp, 0) > start.get(tp, 0) for tp in until)  # noqa: E731
        first = history.find(has_begun, near_ms)
        return _Batches(last, first if first is not None and first.is_exact else None)

    def _range(self, topic: str, start: Position, end: Position, key: bytes | None) -> TopicRange:
        low, high = start.restrict([topic]), end.restrict([topic])
        matches = KeyMatches() if key is None else records_of_key(self._log, topic, key, low, high)
        return TopicRange(topic, low, high, matches)

    def _is_derived(self, topic: str) -> bool:
        return any(topic in pipeline["outputs"] for pipeline in self._pipelines)

    def _may(self, topic: str) -> bool:
        return self._sees.topic(topic)

    def _visible(self, position: Position) -> Position:
        return position.restrict(each for each in position.topics if self._may(each))


def _place_of(found: TopicRange) -> tuple[Position, Position]:
    """Where the records of the key begin and end in a range; without any, the range."""
    records = found.matches.records
    if records:
        offsets = {TopicPartition(each.topic, each.partition): each.offset for each in reversed(records)}
        return Position(offsets), Position.join(record.position for record in records)
    moved = {tp: offset for tp, offset in found.end.items() if offset > found.start.get(tp, 0)}
    return Position({tp: found.start.get(tp, 0) for tp in moved}), Position(moved)


def _database(pipeline: Document) -> str | None:
    """The database that a pipeline captures, as a name in positions; None for any other pipeline."""
    return next((each for each in pipeline["inputs"] if each.startswith(DATABASE_TOPIC_PREFIX)), None)


def _capture(pipeline: Document, topic: str, depth: int, record: Record | None) -> OriginStep:
    """The step of a record that a capture wrote, with the transaction that the record's headers name."""
    note = f"capture {pipeline['name']} has read it from a PostgreSQL database"
    headers = {} if record is None else {name: value for name, value in record.headers if value is not None}
    lsn, xid, committed = (
        headers.get(each, b"")[:_HEADER_BYTES_MAX].decode(errors="replace") for each in COMMIT_HEADERS
    )
    if lsn:
        database = (_database(pipeline) or "").removeprefix(DATABASE_TOPIC_PREFIX)
        what = f"transaction {xid}, which committed at {committed}" if xid else "a snapshot of the table"
        note = f"{note}: {what}; it ends at pg:{database}:{lsn}"
    return OriginStep(pipeline["name"], topic, depth, None, note=note)


def _source_at(source: Position, _: Position) -> Position:
    return source


def _sink_at(_: Position, sink: Position) -> Position:
    return sink


def _reads(pipeline: Document, topic: str) -> bool:
    return topic in pipeline["inputs"] or topic in Position.parse(pipeline["tables"]).topics


def _place_wait(place: RecordPlace) -> str:
    """The wait of a record that readers cannot see yet."""
    if place.state is PlaceState.NOT_WRITTEN:
        return f"the record itself: {place.detail}"
    return transactions_wait(place.transactions) or f"the record itself: {place.detail}"


def _unknown(history: BatchHistory, found: FoundBatch | None) -> str:
    """Why the micro-batch is not known exactly."""
    if history.gave_up:
        return "the search for its micro-batch ended at its bound"
    if found is None:
        return "its micro-batch is not known: the log has no record of finished micro-batches from that time"
    if found.is_oldest:
        return (
            f"it was in a micro-batch before {found.batch.batch_id}, the oldest one that the log knows, which ended at "
            f"{time_text(found.ended_ms)}: they are kept for a week"
        )
    return f"it was in micro-batch {found.batch.batch_id} or before: the driver was killed before it recorded that one"
