"""``GET /history``, ``GET /history/marks`` and ``GET /health/problems``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from mainstem.errors import InputError
from mainstem.gateway.access.access_rules import READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery
from mainstem.gateway.monitoring.history import SPAN_MS
from mainstem.gateway.monitoring.marks import MARKS_MAX
from mainstem.gateway.monitoring.monitor import Monitor
from mainstem.gateway.monitoring.problem_watch import PROBLEMS_MAX, CurrentProblem
from mainstem.gateway.monitoring.ring_file import NAME_BYTES_MAX
from mainstem.gateway.monitoring.snapshots import UNITS
from mainstem.views.past.as_of import read_moment

_SERIES_MAX: Final = 300
_PATTERNS_MAX: Final = 20
_POINTS_MAX: Final = 1_440
_POINTS_IN_ALL: Final = 60_000
_AGO: Final = re.compile(r"([0-9]{1,6})([smh])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}


class MarksQuery(NoQuery):
    """Since when."""

    since: str = Field(
        "15m",
        max_length=40,
        description="a time (ISO 8601, or milliseconds since the epoch), or how long ago: `30s`, `15m`, `24h`",
        examples=["15m", "24h", "2013-01-01T10:00:00Z"],
    )


class HistoryQuery(MarksQuery):
    """Which series, and since when."""

    series: list[Annotated[str, Field(max_length=NAME_BYTES_MAX)]] = Field(
        default_factory=list,
        max_length=_PATTERNS_MAX,
        description="names of series; `*` fits any text. Without it: the names that there are",
        examples=["topic/flights/records_in_per_s", "view/*/lag"],
    )
    points: int = Field(180, ge=2, le=_POINTS_MAX, description="the most points of a series; more become means")


def monitoring_router(monitor: Monitor | None) -> Routes:
    """The routes, if this gateway samples."""
    router, workers = Routes("operation"), Workers(2)
    if monitor is None:
        return router

    @router.declare(
        "GET",
        "/history",
        "What the node did in the last hour (every 5 s) and day (every minute)",
        READ_ALL,
        success("The points of each series", "Object"),
    )
    async def read(query: Annotated[HistoryQuery, Query()]) -> Response:
        return json_response(await workers.run(_history, monitor, query))

    @router.declare(
        "GET",
        "/history/marks",
        "Starts of the log, starts and changes of pipelines; oldest first",
        READ_ALL,
        success("The marks", "Object"),
    )
    async def mark(query: Annotated[MarksQuery, Query()]) -> Response:
        return json_response(await workers.run(_marks, monitor, query))

    @router.declare(
        "GET",
        "/health/problems",
        "What is wrong now, since when, and what to do",
        READ_ALL,
        success("The problems", "Object"),
    )
    async def tell(_: Annotated[NoQuery, Query()]) -> Response:
        current = monitor.problems.current
        shown = [_problem(each) for each in current[:PROBLEMS_MAX]]
        return json_response({"problems": shown, "total": len(current), "now_ms": monitor.clock.time_ms()})

    return router


def _history(monitor: Monitor, query: HistoryQuery) -> dict[str, Any]:
    now_ms = monitor.clock.time_ms()
    monitor.history.load(now_ms)
    if not query.series:
        names = monitor.history.names()
        return {"now_ms": now_ms, "names": names, "left_out": monitor.history.left_out}
    since_ms = max(_since_ms(query.since, now_ms), now_ms - SPAN_MS)
    found = monitor.history.read(query.series, since_ms, now_ms, series_max=_SERIES_MAX, points_max=query.points)
    most = _POINTS_IN_ALL // max(1, len(found.series))
    if any(len(points) > most for points in found.series.values()):
        found = monitor.history.read(query.series, since_ms, now_ms, series_max=_SERIES_MAX, points_max=most)
    return {
        "now_ms": now_ms,
        "since_ms": since_ms,
        "step_s": found.step_s,
        "left_out": found.left_out,
        "series": [
            {
                "name": name,
                "unit": UNITS.get(name.rpartition("/")[2], ""),
                "points": [[at, _short(value)] for at, value in points],
            }
            for name, points in sorted(found.series.items())
        ],
    }


def _marks(monitor: Monitor, query: MarksQuery) -> dict[str, Any]:
    now_ms = monitor.clock.time_ms()
    monitor.history.load(now_ms)
    since_ms = max(_since_ms(query.since, now_ms), now_ms - SPAN_MS)
    found = monitor.marks.read(since_ms, now_ms)
    shown = [mark._asdict() for mark in found[-MARKS_MAX:]]
    return {"now_ms": now_ms, "since_ms": since_ms, "marks": shown, "left_out": len(found) - len(shown)}


def _short(value: float) -> float:
    """Six digits: samples are 32-bit floats."""
    return float(f"{value:.6g}")


def _since_ms(text: str, now_ms: int) -> int:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(ago[1]) * _SECONDS[ago[2]] * 1000
    moment = read_moment(text)
    if not isinstance(moment, int):
        raise InputError(f"invalid since {text[:100]!r}: give a time, or how long ago, as 15m or 24h")
    return moment


def _problem(problem: CurrentProblem) -> dict[str, Any]:
    symptom = problem.symptom
    return {
        "rule": symptom.rule,
        "subject": symptom.subject,
        "text": symptom.text,
        "action": symptom.action,
        "link": symptom.link,
        "since_ms": problem.since_ms,
    }
