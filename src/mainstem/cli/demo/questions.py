"""The demo's five questions, each asked over HTTP of the view that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstem.client.http.views import Views
from mainstem.model import Position

Rows = list[dict[str, Any]]
_EVERY_ROW = 10_000
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question: what it asks in words, of which view, and how."""

    name: str
    title: str
    view: str
    ask: Callable[[Views, Position], Rows]


def _worst_carriers(views: Views, at_least: Position) -> Rows:
    rows = views["carriers"].range(limit=_EVERY_ROW, at_least=at_least, timeout=_WAIT_S).rows
    known = [row for row in rows if row["mean_dep_delay"] is not None]
    worst = sorted(known, key=lambda row: (-row["mean_dep_delay"], row["carrier"]))[:10]
    return _only(worst, "carrier", "name", "mean_dep_delay", "departures")


def _delay_by_month_and_origin(views: Views, at_least: Position) -> Rows:
    select = (
        "SELECT month, origin, avg(dep_delay) AS mean_dep_delay FROM flights GROUP BY month, origin "
        "ORDER BY month, origin"
    )
    rows = views["flights"].sql(select, at_least=at_least, timeout=_WAIT_S).rows
    return _only(rows, "month", "origin", "mean_dep_delay")


def _airports_named_kennedy(views: Views, _: Position) -> Rows:
    rows = views["airports"].search("name:kennedy", limit=100).rows
    return _only(sorted(rows, key=lambda row: str(row["faa"])), "faa", "name")


def _one_change_from_bur(views: Views, at_least: Position) -> Rows:
    answer = views["routes"].neighbors("BUR", hops=2, direction="both", at_least=at_least, timeout=_WAIT_S)
    return [{"airport": name} for name in sorted(row["node"] for row in answer.rows if row["hops"] == 2)]


def _manufacturers(views: Views, at_least: Position) -> Rows:
    rows = views["manufacturers"].range(limit=_EVERY_ROW, at_least=at_least, timeout=_WAIT_S).rows
    in_order = sorted(rows, key=lambda row: (-row["departures"], row["manufacturer"]))
    return _only(in_order, "manufacturer", "mean_dep_delay", "departures")


QUESTIONS = (
    DemoQuestion(
        "worst_carriers",
        "The ten carriers with the longest mean departure delay, in minutes",
        "carriers",
        _worst_carriers,
    ),
    DemoQuestion(
        "delay_by_month_and_origin",
        "Mean departure delay by month and airport",
        "flights",
        _delay_by_month_and_origin,
    ),
    DemoQuestion("airports_named_kennedy", "Airports named Kennedy", "airports", _airports_named_kennedy),
    DemoQuestion(
        "one_change_from_BUR",
        "Airports two routes away from Burbank and not one, flown either way",
        "routes",
        _one_change_from_bur,
    ),
    DemoQuestion("manufacturers", "Mean departure delay by manufacturer of the plane", "manufacturers", _manufacturers),
)


def _only(rows: Rows, *columns: str) -> Rows:
    return [{name: row.get(name) for name in columns} for row in rows]
