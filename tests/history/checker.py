"""Judges a history: what a log that is fit to be trusted never does, by the names that Jepsen's Kafka workload gave it.

===================== =================================================================================================
lost-write            acknowledged or committed, but not there when everything was read at the end
duplicate             one value at two offsets
inconsistent-offsets  one offset with two values
aborted-read          a value was read that is certainly not in the log, or whose transaction was aborted (G1a)
precommitted-read     a transaction has read what it wrote itself
torn-transaction      of a transaction whose end nobody knows, one part is there and another is not
unexpected-read       a value that nobody sent
poll-skip             between two polls of an assigned partition lies a record that was passed over
nonmonotonic-poll     a poll of an assigned partition went back
nonmonotonic-send     a client's own records of one partition were acknowledged out of order
circular-flow         transactions that have read each other's writes in a circle (G1c, by what was read alone)
===================== =================================================================================================

What is there is what the final operations read: every partition from its beginning, when all is over. A group may move
a partition to another member at any time, so that polls are compared only within one assignment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import rustworkx

from tests.history.operations import FAIL, INFO, OK, Operation, Poll


class Anomaly(NamedTuple):
    """Something that must not be, and where."""

    kind: str
    what: str


def check(history: Sequence[Operation]) -> list[Anomaly]:
    """All anomalies of a history; it needs final operations that have read everything."""
    assert any(operation.is_final for operation in history), "nothing was read at the end"
    log = _Log(history)
    found: list[Anomaly] = []
    for judge in (_lost, _twice, _read_wrongly, _torn, _polls, _sends, _circles):
        found += judge(history, log)
    return found


class _Log:
    """What is known of the log: by the final reads, and by everything that anybody saw."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.final: dict[str, dict[int, str]] = defaultdict(dict)
        self.seen: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.places: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.writer: dict[tuple[str, str], Operation] = {}
        for operation in history:
            for send in operation.sends:
                self.writer[send.partition, send.value] = operation
                if send.offset is not None and operation.status == OK:
                    self._saw(send.partition, send.offset, send.value)
            for poll in operation.polls:
                for partition, records in poll.records.items():
                    for offset, value in records:
                        self._saw(partition, offset, value)
                        if operation.is_final:
                            self.final[partition][offset] = value
        self.final_values = {
            (partition, value) for partition, records in self.final.items() for value in records.values()
        }

    def _saw(self, partition: str, offset: int, value: str) -> None:
        self.seen[partition][offset].add(value)
        self.places[partition, value].add(offset)


def _lost(history: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    for operation in history:
        if operation.status != OK:
            continue
        for send in operation.sends:
            if (send.partition, send.value) not in log.final_values:
                yield Anomaly("lost-write", f"{send} of {_name(operation)} is not there")
            elif send.offset is not None and log.final[send.partition].get(send.offset) != send.value:
                yield Anomaly("inconsistent-offsets", f"{send} of {_name(operation)} lies at another offset")


def _twice(_: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    for partition, offsets in log.seen.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{partition} at {offset}: {sorted(values)}")
    for (partition, value), places in log.places.items():
        if len(places) > 1:
            yield Anomaly("duplicate", f"{value} in {partition} at {sorted(places)}")


def _read_wrongly(history: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    for operation in history:
        for partition, _offset, value in _reads(operation.polls):
            writer = log.writer.get((partition, value))
            if writer is None:
                yield Anomaly("unexpected-read", f"{_name(operation)} read {value} in {partition}; nobody sent it")
            elif writer.status == FAIL:
                yield Anomaly("aborted-read", f"{_name(operation)} read {value} of {_name(writer)}, which failed")
            elif writer is operation and operation.is_transaction:
                yield Anomaly("precommitted-read", f"{_name(operation)} read {value}, which it wrote itself")


def _torn(history: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    for operation in history:
        if not operation.is_transaction or operation.status != INFO:
            continue
        there = {(send.partition, send.value) in log.final_values for send in operation.sends}
        if len(there) > 1:
            yield Anomaly("torn-transaction", f"{_name(operation)}: {operation.sends}")


def _polls(history: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    known = {partition: sorted(records) for partition, records in log.final.items()}
    last: dict[tuple[str, int, str], int] = {}
    for operation in history:
        if not operation.assigned:
            continue
        for poll in operation.polls:
            for partition, records in poll.records.items():
                key = (operation.client, operation.assignment, partition)
                for offset, _value in records:
                    before = last.get(key)
                    if before is not None:
                        yield from _step(operation, partition, before, offset, known.get(partition, []))
                    last[key] = offset


def _step(operation: Operation, partition: str, before: int, offset: int, known: list[int]) -> Iterator[Anomaly]:
    if offset <= before:
        yield Anomaly("nonmonotonic-poll", f"{_name(operation)} in {partition}: {offset} after {before}")
    elif offset > before + 1:
        passed = known[bisect_right(known, before) : bisect_left(known, offset)]
        if passed:
            yield Anomaly("poll-skip", f"{_name(operation)} in {partition}: {before} to {offset}, over {passed[:5]}")


def _sends(history: Sequence[Operation], _: _Log) -> Iterator[Anomaly]:
    last: dict[tuple[str, str], int] = {}
    for operation in history:
        for send in operation.sends:
            if send.offset is None or operation.status != OK:
                continue
            key = (operation.client, send.partition)
            if send.offset <= last.get(key, -1):
                yield Anomaly("nonmonotonic-send", f"{send} of {_name(operation)} after {last[key]}")
            last[key] = send.offset


def _circles(history: Sequence[Operation], log: _Log) -> Iterator[Anomaly]:
    """Who read whose writes, as a graph; in a circle somebody has read from a future that depends on what he wrote."""
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
    nodes = {id(operation): graph.add_node(_name(operation)) for operation in history if operation.is_transaction}
    for operation in history:
        for partition, _offset, value in _reads(operation.polls):
            writer = log.writer.get((partition, value))
            if writer is not None and writer is not operation and {id(writer), id(operation)} <= nodes.keys():
                graph.add_edge(nodes[id(writer)], nodes[id(operation)], None)
    for component in rustworkx.strongly_connected_components(graph):
        if len(component) > 1:
            yield Anomaly("circular-flow", " → ".join(sorted(graph[node] for node in component)))


def _reads(polls: Iterable[Poll]) -> Iterator[tuple[str, int, str]]:
    for poll in polls:
        for partition, records in poll.records.items():
            for offset, value in records:
                yield partition, offset, value


def check_moved(history: Sequence[Operation], source: str, target: str) -> list[Anomaly]:
    """Every value of topic ``source`` was moved into topic ``target`` exactly once, where it is ``VALUE@MOVER``."""
    log = _Log(history)
    given = {value for partition, value in log.final_values if partition.startswith(f"{source}/")}
    moved = Counter(
        value.rpartition("@")[0] for partition, value in log.final_values if partition.startswith(f"{target}/")
    )
    found = [Anomaly("moved-twice", f"{value}, {count} times") for value, count in moved.items() if count > 1]
    found += [Anomaly("not-moved", value) for value in sorted(given - moved.keys())]
    return found + [Anomaly("moved-from-nowhere", value) for value in sorted(moved.keys() - given)]


def _name(operation: Operation) -> str:
    return f"{operation.client}#{operation.place}"
