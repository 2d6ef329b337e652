"""Coverage: which source positions a view's position covers, over any number of pipelines. Pure; no input or output.

A pipeline's **progress** says: a reader that has applied its output past ``sink`` covers ``source`` of its streaming
inputs. Progress never goes back, so a pipeline's progress records are a rising line; a bounded history of it is kept. A
record that goes back means that the pipeline was started afresh, and the history before it is dropped.

* Waiting goes forward, from the source to the view: each hop's target is fixed at the first progress record that covers
  what is asked of it, so that later load cannot move it away. Where several paths lead to the view, all have to cover.
* ``covers`` goes backward, from the view to the sources: along each path the newest progress whose ``sink`` is reached;
  where several paths come from one topic, the lowest of them counts.

Both follow streaming inputs only. Positions of topics that a pipeline reads as a table are not covered, and asking for
one is an error.

A test compares the two: a position that a wait has reached is covered. Thread-safe: one lock, held for pure work only.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mainstem.errors import PositionError
from mainstem.model import DATABASE_TOPIC_PREFIX, Position, TopicPartition
from mainstem.pipelines.progress import Progress

_HISTORY_MAX = 2_048

# Topic → partition → offset; a topic that is absent is not constrained, a partition that is absent is at 0.
_Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Hop:
    """A pipeline as coverage sees it: the topics that it streams, reads as tables, and derives."""

    pipeline: str
    streams: frozenset[str]
    tables: frozenset[str]
    outputs: frozenset[str]


@dataclass(slots=True)
class _Known:
    """A pipeline, with its progress, oldest first."""

    hop: Hop
    history: list[Progress] = field(default_factory=list)

    def add(self, progress: Progress) -> None:
        last = self.history[-1] if self.history else None
        if last is not None and not (progress.source.covers(last.source) and progress.sink.covers(last.sink)):
            self.history.clear()
        self.history.append(progress)
        if len(self.history) > _HISTORY_MAX:
            middle = len(self.history) // 2
            self.history[:middle] = self.history[:middle:2]

    def first_covering(self, wanted: Position) -> Position | None:
        """The ``sink`` of the first progress known that covers ``wanted`` of the inputs.

        Where no record of the inputs is wanted, that is the start of the outputs, also before the first progress: a
        pipeline whose input stays empty may never report any.
        """
        if Position().covers(wanted):
            return Position()
        index = bisect_left(self.history, True, key=lambda progress: progress.source.covers(wanted))
        return self.history[index].sink if index < len(self.history) else None

    def last_within(self, topic: str, position: Position) -> Progress | None:
        """The newest progress whose output of ``topic`` lies before ``position``."""
        index = bisect_left(
            self.history, True, key=lambda progress: not position.covers(progress.sink.restrict([topic]))
        )
        return self.history[index - 1] if index > 0 else None


class Coverage:
    """The progress of the pipelines, and the positions that it covers."""

    def __init__(self, hops: Iterable[Hop] = ()) -> None:
        """``hops``: the pipelines that are declared, so that they are known before their first progress."""
        self._lock = threading.RLock()
        self._declared = {hop.pipeline: hop for hop in hops}
        self._pipelines = {name: _Known(hop) for name, hop in self._declared.items()}

    def add(self, progress: Progress) -> None:
        """Take note of a progress record."""
        outputs = frozenset(progress.outputs)
        reported = Hop(progress.pipeline, frozenset(progress.inputs), progress.tables.topics, outputs)
        cut = replace(progress, source=progress.source.restrict(progress.inputs), sink=progress.sink.restrict(outputs))
        with self._lock:
            known = self._pipelines.get(progress.pipeline)
            if known is None or known.hop.outputs != outputs:
                known = self._pipelines[progress.pipeline] = _Known(reported)
            known.hop = _either(reported, self._declared.get(progress.pipeline))
            known.add(cut)

    def drop(self, pipeline: str) -> None:
        """Forget a pipeline whose progress was deleted; one that is declared is known without progress."""
        with self._lock:
            declared = self._declared.get(pipeline)
            if declared is None:
                self._pipelines.pop(pipeline, None)
            else:
                self._pipelines[pipeline] = _Known(declared)

    def covers(self, topic: str, position: Position) -> Position:
        """The positions of ``topic`` and of all upstream of it that a view of it covers at ``position``."""
        with self._lock:
            offsets = self._upstream(topic, position, frozenset())
        entries = {TopicPartition(name, n): offset for name, part in offsets.items() for n, offset in part.items()}
        return Position(entries) | position

    def wait(self, topic: str, at_least: Position) -> Wait:
        """A wait of a view of ``topic`` for ``at_least``.

        Raises PositionError when the view can never cover it: for a topic that is not upstream, or upstream only as a
        table of a pipeline.
        """
        with self._lock:
            streamed = self._ancestors(topic)
            at_least = _with_database_named(at_least, streamed, topic)
            for name in sorted(at_least.topics):
                if name != topic and name not in streamed:
                    raise self._never(name, topic)
        return Wait(self, topic, at_least)

    def upstream(self, topic: str) -> frozenset[str]:
        """The topics of the log that stream into ``topic``, over any number of pipelines."""
        with self._lock:
            return frozenset(name for name in self._ancestors(topic) if not name.startswith(DATABASE_TOPIC_PREFIX))

    # ---- forward, for Wait

    def target(self, wait: Wait, topic: str, visiting: frozenset[str] = frozenset()) -> Position | None:
        """The position that a reader of ``topic`` has to apply; None while a hop before it has not covered its part."""
        with self._lock:
            target = wait.at_least.restrict([topic])
            for known in self._writers(topic):
                name = known.hop.pipeline
                if name in visiting or not self._leads(wait.at_least.topics, known.hop):
                    continue
                if name not in wait.fixed:
                    covering = self._first_covering(wait, known, visiting | {name})
                    if covering is None:
                        return None
                    wait.fixed[name] = covering
                target = target | wait.fixed[name].restrict([topic])
            return target

    def _first_covering(self, wait: Wait, known: _Known, visiting: frozenset[str]) -> Position | None:
        wanted = Position()
        for name in known.hop.streams:
            part = self.target(wait, name, visiting)
            if part is None:
                return None
            wanted = wanted | part
        return known.first_covering(wanted)

    def unfinished(self, wait: Wait, topic: str) -> frozenset[str]:
        """The pipelines between what is asked and ``topic`` that have not reported progress for it."""
        with self._lock:
            between = {
                known.hop.pipeline
                for name in {topic, *self._ancestors(topic)}
                for known in self._writers(name)
                if self._leads(wait.at_least.topics, known.hop)
            }
            return frozenset(between - wait.fixed.keys())

    # ---- backward

    def _upstream(self, topic: str, position: Position, visiting: frozenset[str]) -> _Offsets:
        """The positions of all upstream topics, and of the topic itself, that ``position`` of ``topic`` covers."""
        covered: _Offsets = {topic: {tp.partition: offset for tp, offset in position.items() if tp.topic == topic}}
        for known in self._writers(topic):
            if known.hop.pipeline in visiting:
                continue
            progress = known.last_within(topic, position)
            source = progress.source if progress is not None else Position()
            for name in known.hop.streams:
                part = self._upstream(name, source.restrict([name]), visiting | {known.hop.pipeline})
                covered = _lower(covered, part)
        return covered

    # ---- the graph

    def _writers(self, topic: str) -> list[_Known]:
        return [known for known in self._pipelines.values() if topic in known.hop.outputs]

    def _leads(self, topics: Iterable[str], hop: Hop) -> bool:
        """Whether any of ``topics`` reaches the pipeline as a stream."""
        wanted = frozenset(topics)
        return any(name in wanted or not wanted.isdisjoint(self._ancestors(name)) for name in hop.streams)

    def _ancestors(self, topic: str, *, tables: bool = False) -> set[str]:
        """The topics upstream of ``topic``, over streaming inputs (and over tables too)."""
        found: set[str] = set()
        todo = [topic]
        while todo:
            for known in self._writers(todo.pop()):
                new = (known.hop.streams | (known.hop.tables if tables else frozenset())) - found
                found |= new
                todo += new
        return found

    def _never(self, name: str, topic: str) -> PositionError:
        readers = sorted(
            known.hop.pipeline for known in self._pipelines.values() if self._is_between(name, known.hop, topic)
        )
        if readers:
            return PositionError(
                f"the position names {name}, which reaches {topic} only as a table of pipeline {', '.join(readers)}; "
                "how fresh a table is cannot be waited for"
            )
        return PositionError(f"the position names {name}, which is not upstream of {topic}")

    def _is_between(self, name: str, hop: Hop, topic: str) -> bool:
        """Whether ``name`` comes into ``hop`` by a table, and ``hop`` leads to ``topic``."""
        leads_on = not hop.outputs.isdisjoint({topic, *self._ancestors(topic, tables=True)})
        by_table = any(name == table or name in self._ancestors(table, tables=True) for table in hop.tables)
        return leads_on and by_table


class Wait:
    """One reader's wait for a position. Its targets, once fixed, stay. For one thread at a time."""

    def __init__(self, coverage: Coverage, topic: str, at_least: Position) -> None:
        self.at_least = at_least
        self.fixed: dict[str, Position] = {}
        """Pipeline → what has to be applied of its output."""
        self._coverage = coverage
        self._topic = topic
        self._target: Position | None = None

    def is_reached(self, position: Position) -> bool:
        """Whether a view at ``position`` covers what is asked."""
        if self._target is None:
            self._target = self._coverage.target(self, self._topic)
        return self._target is not None and position.covers(self._target)

    def waits_for(self) -> frozenset[str]:
        """The pipelines whose progress is waited for, as of the last ``is_reached``."""
        return self._coverage.unfinished(self, self._topic)


def _with_database_named(at_least: Position, upstream: Iterable[str], topic: str) -> Position:
    """The position with the name of the database in the place of ``pg:LSN``, which names none."""
    unnamed = TopicPartition(DATABASE_TOPIC_PREFIX, 0)
    if unnamed not in at_least:
        return at_least
    databases = sorted(name for name in upstream if name.startswith(DATABASE_TOPIC_PREFIX))
    if len(databases) != 1:
        names = ", ".join(f"pg:{name.removeprefix(DATABASE_TOPIC_PREFIX)}:LSN" for name in databases)
        raise PositionError(
            f"{topic} derives from several databases: name one, {names}"
            if databases
            else f"the position names a PostgreSQL database, and {topic} derives from none that is captured"
        )
    named = Position({TopicPartition(databases[0], 0): at_least[unnamed]})
    return named | Position({tp: offset for tp, offset in at_least.items() if tp != unnamed})


def _either(reported: Hop, declared: Hop | None) -> Hop:
    """A pipeline as it runs and as it is declared, which may be newer: what is in either counts."""
    if declared is None or declared.outputs != reported.outputs:
        return reported
    streams = reported.streams | declared.streams
    return Hop(reported.pipeline, streams, (reported.tables | declared.tables) - streams, reported.outputs)


def _lower(one: _Offsets, other: _Offsets) -> _Offsets:
    """The greatest lower bound of what two paths cover."""
    merged = dict(one)
    for topic, offsets in other.items():
        merged[topic] = _lower_of_topic(one[topic], offsets) if topic in one else offsets
    return merged


def _lower_of_topic(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {partition: min(one[partition], other[partition]) for partition in one.keys() & other.keys()}
