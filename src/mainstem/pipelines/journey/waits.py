"""The waits of pipelines, views and readers, in words. Pure, over the documents of ``Overview`` and of views."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from mainstem.client.admin.open_transactions import OpenTransaction
from mainstem.model import Position
from mainstem.pipelines.overview import NOT_SEEN
from mainstem.pipelines.state import Status

Document = Mapping[str, Any]


def time_text(time_ms: int | None) -> str:
    """A time as commands write it: ``2026-01-31T12:00:00Z``."""
    if time_ms is None:
        return "an unknown time"
    try:
        at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def pipeline_wait(pipeline: Document, until: Position, *, with_errors: bool) -> str:
    """The wait of a pipeline that has not read up to ``until``.

    ``with_errors``: with the text of its failure, which may quote records of any topic.
    """
    name, status = pipeline["name"], pipeline["status"]
    said = _failure(pipeline, with_errors=with_errors)
    if status == NOT_SEEN and pipeline.get("seen_ms") is None:
        return f"pipeline {name} has never published a state: start its App with mainstem run APP.py"
    if status == NOT_SEEN:
        since = time_text(pipeline["seen_ms"])
        return (
            f"pipeline {name} is down: no heartbeat since {since}, when it was {pipeline['last_status']}{said}; "
            "start its App with mainstem run APP.py"
        )
    if status == Status.RESTARTING:
        next_ms = (pipeline.get("failure") or {}).get("next_try_ms")
        again = "" if next_ms is None else f"; next try at {time_text(next_ms)}"
        return f"pipeline {name} failed and starts again{said}{again}"
    if status == Status.FAILED:
        return f"pipeline {name} has failed and does not start again by itself{said}"
    if status == Status.PAUSED:
        return f"pipeline {name} is paused: mainstem pipelines resume {name} lets it go on"
    if Status(status).is_over:
        since = time_text(pipeline["seen_ms"])
        return f"pipeline {name} is {status} since {since}: start its App with mainstem run APP.py"
    if status == Status.STARTING:
        return f"pipeline {name} is starting"
    source = Position.parse(pipeline["source"])
    behind = [(tp, source.get(tp, 0), offset) for tp, offset in until.items() if source.get(tp, 0) < offset]
    where = ", ".join(f"{tp}:{read}, {offset - read} offsets before what is asked" for tp, read, offset in behind[:3])
    failed = f"; its last failure{said}" if said else ""
    return f"pipeline {name} runs and is behind: it has read up to {where}{failed}"


def watermark_wait(pipeline: Document, *, with_held_by: bool) -> str:
    """The wait of rows that a pipeline holds for a watermark; empty for a pipeline without one.

    ``with_held_by``: with the name of the input that holds it back.
    """
    if not pipeline.get("watermark"):
        return ""
    held_by = pipeline.get("watermark_held_by") if with_held_by else None
    held = f", held back by {held_by}" if held_by else ""
    return (
        f"the watermark of pipeline {pipeline['name']}: it is {pipeline['watermark']}{held}; a row of a window comes "
        "when the watermark has passed the window's end"
    )


def transactions_wait(transactions: Iterable[OpenTransaction]) -> str:
    """The open transactions that hold a reader back; empty without any."""
    named = [
        f"transaction {each.owner} (producer {each.producer_id}) is open since {time_text(each.since_ms)}, from "
        f"{each.topic_partition}:{each.first_offset} on: readers stop there until it is committed or aborted"
        for each in transactions
    ]
    return "; ".join(named[:5])


def view_wait(view: Document, until: Position) -> str:
    """The wait of a view that has not applied all before ``until``."""
    name, state, detail = view["name"], view["state"], view.get("detail") or ""
    if state not in ("live", "catching up"):
        return f"view {name} is {state}{f': {detail}' if detail else ''}"
    position = Position.parse(view["position"])
    behind = [(tp, position.get(tp, 0)) for tp, offset in until.items() if position.get(tp, 0) < offset]
    where = ", ".join(f"{tp}:{offset}" for tp, offset in behind[:3])
    rebuilt = "; it is being rebuilt, and its old version answers" if view.get("is_rebuilding") else ""
    return f"view {name} is {state} and behind: it has applied up to {where}{rebuilt}"


def _failure(pipeline: Document, *, with_errors: bool) -> str:
    """The last failure, if no micro-batch ended since."""
    failure = pipeline.get("failure")
    if failure is None:
        return ""
    recent = pipeline.get("recent") or []
    if pipeline["status"] != Status.RESTARTING and recent and recent[-1]["at_ms"] > failure["at_ms"]:
        return ""
    return f": {failure['text']}" if with_errors else " (mainstem pipelines list shows its error)"
