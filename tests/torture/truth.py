"""Judges what a reader saw in an output topic by what was acknowledged to the input's producer.

=============== =======================================================================================================
lost            acknowledged to the input's producer, and not in the output
duplicate       in the output more than once: written twice, or written, aborted and visible all the same
unexpected      in the output, and never given to the input's producer
reordered       records of one key in an order in which they were not given
open            a transaction is open where all is done: it holds the last stable offset
ahead           a progress record says more than is true: what it covers of the input is not all in what it covers of
                the output
wrong-total     an aggregate's last value of a key is not that of the input
went-back       an aggregate's value of a key was written that is not above the one before: a micro-batch counted twice
repeated        a rebuild has appended a key's value though it was the last one already
torn            of a batch write some records are visible, and others are not
=============== =======================================================================================================

A record is a key and a number that grows by one within the key. Pure: values in, faults out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class Given(NamedTuple):
    """A record of the input; ``partition`` and ``offset`` are None when nobody acknowledged it."""

    key: str
    number: int
    partition: int | None = None
    offset: int | None = None


class Seen(NamedTuple):
    """A record of the output, as a reader saw it."""

    partition: int
    offset: int
    key: str
    number: int


class Fault(NamedTuple):
    """Something that must not be, and where."""

    kind: str
    what: str


@dataclass(frozen=True)
class Verdict:
    """What a check found; ``str`` is the line that is kept as evidence."""

    given: int
    seen: int
    distinct: int
    faults: tuple[Fault, ...] = field(default=())

    def with_faults(self, more: Iterable[Fault]) -> Verdict:
        """The same, and what else was found."""
        return replace(self, faults=(*self.faults, *more))

    def __str__(self) -> str:
        kinds = Counter(fault.kind for fault in self.faults)
        told = ", ".join(f"{kinds[kind]} {kind}" for kind in ("duplicate", "lost", *sorted(kinds - _ALWAYS_TOLD)))
        return f"{self.given} records given, {self.seen} seen, {self.distinct} distinct: {told}"


_ALWAYS_TOLD = Counter({"duplicate": 1 << 60, "lost": 1 << 60})


def check(given: Iterable[Given], seen: Collection[Seen], *, is_ordered: bool = True) -> Verdict:
    """Each acknowledged record once, nothing else but what was given, and (``is_ordered``) each key in its order."""
    known = {(record.key, record.number): record for record in given}
    acknowledged = {name for name, record in known.items() if record.offset is not None}
    count = Counter((record.key, record.number) for record in seen)
    faults = [Fault("lost", _name(*name)) for name in sorted(acknowledged - count.keys())]
    faults += [Fault("duplicate", f"{_name(*name)}, {times} times") for name, times in count.items() if times > 1]
    faults += [Fault("unexpected", _name(*name)) for name in sorted(count.keys() - known.keys())]
    if is_ordered:
        faults += _reordered(seen)
    return Verdict(len(acknowledged), len(seen), len(count), tuple(faults))


def check_totals(given: Iterable[Given], seen: Collection[Seen]) -> Verdict:
    """An aggregation in update mode that counts each key's records: ``number`` is the count."""
    totals = Counter(record.key for record in given if record.offset is not None)
    last: dict[str, int] = {}
    faults = []
    for record in sorted(seen):
        if record.number <= last.get(record.key, 0):
            faults.append(Fault("went-back", f"{record} after {last[record.key]}"))
        last[record.key] = record.number
    faults += [
        Fault("wrong-total", f"{key}: {last.get(key)}, not {totals.get(key)}")
        for key in sorted(totals.keys() | last.keys())
        if totals.get(key) != last.get(key)
    ]
    return Verdict(
        sum(totals.values()), len(seen), len({(record.key, record.number) for record in seen}), tuple(faults)
    )


def check_rebuilt(given: Iterable[Given], seen: Collection[Seen], factor: int) -> Verdict:
    """An aggregation that counts each key's records ``factor`` times, after rebuilds with other factors."""
    counts = Counter(record.key for record in given if record.offset is not None)
    last: dict[str, int] = {}
    faults = []
    for record in sorted(seen):
        if record.number == last.get(record.key):
            faults.append(Fault("repeated", str(record)))
        last[record.key] = record.number
    faults += [
        Fault("wrong-total", f"{key}: {last.get(key)}, not {factor * counts[key]}")
        for key in sorted(counts.keys() | last.keys())
        if last.get(key) != factor * counts[key]
    ]
    distinct = len({(record.key, record.number) for record in seen})
    return Verdict(sum(counts.values()), len(seen), distinct, tuple(faults))


def check_whole(writes: Mapping[str, Collection[str]], seen: Collection[Seen]) -> Verdict:
    """Batch writes, each given as its name and the names of its records: of each all is there once, or nothing."""
    count = Counter(_name(record.key, record.number) for record in seen)
    faults = [Fault("duplicate", f"{name}, {times} times") for name, times in count.items() if times > 1]
    for write, names in writes.items():
        there = sum(name in count for name in names)
        if there not in (0, len(names)):
            faults.append(Fault("torn", f"of write {write} there are {there} of {len(names)} records"))
    known = {name for names in writes.values() for name in names}
    faults += [Fault("unexpected", name) for name in sorted(count.keys() - known)]
    return Verdict(len(known), len(seen), len(count), tuple(faults))


class Covered(NamedTuple):
    """A progress record's two positions, by partition: next offsets of the input and of the output."""

    source: Mapping[int, int]
    sink: Mapping[int, int]


def check_progress(given: Iterable[Given], seen: Collection[Seen], progress: Iterable[Covered]) -> Iterator[Fault]:
    """Whatever a progress record covers of the input is in what it covers of the output."""
    place = {(record.key, record.number): (record.partition, record.offset) for record in seen}
    by_partition: dict[int, list[Given]] = defaultdict(list)
    for record in given:
        if record.partition is not None:
            by_partition[record.partition].append(record)
    for said in progress:
        for partition, end in said.source.items():
            for record in by_partition[partition]:
                assert record.offset is not None
                there = place.get((record.key, record.number))
                if record.offset < end and (there is None or there[1] >= said.sink.get(there[0], 0)):
                    yield Fault(
                        "ahead", f"{_name(*record[:2])} at {partition}:{record.offset} is not before {said.sink}"
                    )


def to_value(key: str, number: int) -> bytes:
    """A record's value, in the input and in the output."""
    return json.dumps({"id": key, "number": number}).encode()


def from_value(value: bytes) -> tuple[str, int]:
    """The key and the number of a value. Raises ValueError, KeyError, TypeError."""
    document = json.loads(value)
    return document["id"], int(document["number"])


def _reordered(seen: Collection[Seen]) -> Iterator[Fault]:
    last: dict[str, Seen] = {}
    for record in sorted(seen):
        before = last.get(record.key)
        if before is not None and record.number < before.number and record.partition == before.partition:
            yield Fault("reordered", f"{record} after {before}")
        last[record.key] = record


def _name(key: str, number: int) -> str:
    return f"{key}#{number}"
