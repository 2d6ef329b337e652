"""A journey in words: the document that the gateway answers, as lines for people. Pure; commands and console use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from mainstem.pipelines.journey.waits import time_text

Document = Mapping[str, Any]
Mark = Literal["record", "origin", "pipeline", "topic", "view", "waits", "note"]
_RANGES_SHOWN: Final = 5
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``depth`` is how far it is indented; ``mark`` what it speaks of, ``name`` the name of that."""

    depth: int
    mark: Mark
    text: str
    name: str = ""
    link: str = ""
    """Of a record: its place, ``topic/partition:offset``."""


def journey_lines(journey: Document) -> list[Line]:
    """The journey, line by line: the record, where it came from, where it went."""
    return [*_record(journey), *_origins(journey["origins"]), *_onwards(journey)]


def _record(journey: Document) -> Iterator[Line]:
    place, record = f"{journey['topic']}/{journey['partition']}:{journey['offset']}", journey["record"]
    if record is not None:
        yield Line(0, "record", f"{place} {_key(record)}, of {time_text(record['timestamp_ms'])}", link=place)
    else:
        yield Line(0, "record", f"{place} is {_STATES[journey['state']]}: {journey['detail']}")
    for each in journey["transactions"]:
        whose = each["transactional_id"] or f"of producer {each['producer_id']}"
        since, first = time_text(each["since_ms"]), f"{each['topic']}/{each['partition']}:{each['first_offset']}"
        text = f"waits: transaction {whose} (producer {each['producer_id']}) is open since {since}, from {first} on"
        yield Line(1, "waits", text, whose)


_STATES: Final = {
    "no record": "no record",
    "removed": "removed",
    "behind an open transaction": "behind an open transaction",
    "not written": "not written yet",
}


def _origins(origins: Sequence[Document]) -> Iterator[Line]:
    for origin in origins:
        depth, name = 1 + origin["depth"], origin["pipeline"]
        batch = origin["micro_batch"]
        if batch is not None and batch["exact"]:
            yield Line(depth, "origin", f"{origin['topic']} was derived by pipeline {name} in {_batch(batch)}", name)
        else:
            yield Line(depth, "origin", f"{origin['topic']} was derived by pipeline {name}", name)
        if origin["note"]:
            yield Line(depth + 1, "note", origin["note"])
        for each in origin["inputs"]:
            yield from _range(depth + 1, each, "read")
        if origin["covers"]:
            yield Line(depth + 1, "note", f"it reflects its inputs up to {origin['covers']} at most")


def _onwards(journey: Document) -> Iterator[Line]:
    steps = [*journey["pipelines"]]
    views = [*journey.get("views", [])]
    topics = dict.fromkeys([journey["topic"], *(each["topic"] for each in (*steps, *views))])
    for topic in topics:
        for view in views:
            if view["topic"] == topic:
                yield from _view(view)
        for step in steps:
            if step["topic"] == topic:
                yield from _step(step)
    if not steps and not views:
        yield Line(1, "note", "no pipeline has reported that it reads this topic, and no view of it is served")
    if journey.get("views_note"):
        yield Line(1, "note", journey["views_note"])
    if not journey["complete"]:
        yield Line(1, "note", "the journey goes on: only its first steps are shown")
    if journey["hidden"]:
        yield Line(1, "note", f"{journey['hidden']} steps lead to topics that this token may not read")


def _step(step: Document) -> Iterator[Line]:
    depth, name, batch = 1 + min(step["depth"], _DEEPEST), step["pipeline"], step["micro_batch"]
    if step["state"] == "table":
        yield Line(depth, "pipeline", f"pipeline {name} reads {step['topic']} as a table", name)
    elif step["state"] == "waiting":
        yield Line(depth, "pipeline", f"pipeline {name} has not read it from {step['topic']}", name)
    elif batch is not None and batch["exact"]:
        yield Line(depth, "pipeline", f"pipeline {name} read it from {step['topic']} in {_batch(batch)}", name)
    else:
        yield Line(depth, "pipeline", f"pipeline {name} has read it from {step['topic']}", name)
    for each in step["outputs"]:
        yield from _range(depth + 1, each, "wrote")
    if step["waits_for"]:
        yield Line(depth + 1, "waits", f"waits: {step['waits_for']}", name)
    if step["note"]:
        yield Line(depth + 1, "note", step["note"])


def _view(view: Document) -> Iterator[Line]:
    depth, name = 1 + min(view["depth"], _DEEPEST), view["view"]
    if view["state"] == "applied":
        by = time_text(view["applied_ms"])
        when = f"before {by}" if view["before"] else f"by {by}"
        yield Line(
            depth,
            "view",
            f"view {name} has applied {view['until']}" + (f", {when}" if view["applied_ms"] else ""),
            name,
        )
    else:
        yield Line(depth, "view", f"view {name} of {view['topic']} has not applied it", name)
    if view["waits_for"]:
        yield Line(depth + 1, "waits", f"waits: {view['waits_for']}", name)
    if view.get("waited"):
        yield Line(depth + 1, "note", _waited(view["waited"]))
    if view.get("note"):
        yield Line(depth + 1, "note", view["note"])


def _waited(waited: Document) -> str:
    reads, waiting = waited["reads"], waited["waiting"]
    whose = f" ({', '.join(waited['readers'])})" if waited["readers"] else ""
    text = f"{reads} {'read' if reads == 1 else 'reads'} waited for it{whose}, {waited['longest_ms']} ms at most"
    return f"{text}; {waiting} of them still {'waits' if waiting == 1 else 'wait'}" if waiting else text


def _range(depth: int, found: Document, verb: str) -> Iterator[Line]:
    topic, ranges = found["topic"], found["ranges"]
    if not ranges:
        yield Line(
            depth, "topic", f"{verb} nothing of {topic}" if verb == "read" else f"wrote nothing to {topic}", topic
        )
        return
    shown = ", ".join(
        f"{topic}/{each['partition']}:{each['first']}-{each['end'] - 1}" for each in ranges[:_RANGES_SHOWN]
    )
    more = f" and {len(ranges) - _RANGES_SHOWN} more partitions" if len(ranges) > _RANGES_SHOWN else ""
    yield Line(depth, "topic", f"{verb} {shown}{more}", topic)
    for record in found["records"]:
        place = f"{record['topic']}/{record['partition']}:{record['offset']}"
        yield Line(depth + 1, "record", f"{place} {_key(record)}, of {time_text(record['timestamp_ms'])}", link=place)
    if found["not_searched"]:
        yield Line(depth + 1, "note", f"not searched for the record's key: {found['not_searched']}")


def _batch(batch: Document) -> str:
    first, last = batch["first_batch_id"], batch["batch_id"]
    which = f"micro-batch {last}" if first == last else f"micro-batches {first} to {last}"
    return f"{which}, which ended at {time_text(batch['ended_ms'])}"


def _key(record: Document) -> str:
    if "key_bytes" in record:
        return f"with a key of {record['key_bytes']} bytes"
    if "key_base64" in record:
        return f"with a key of bytes (base64 {record['key_base64'][:40]})"
    return "without a key" if record["key"] is None else f"with key {record['key'][:100]!r}"
