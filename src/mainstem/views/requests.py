"""The requests to a view: one frozen class for each kind of query, checked when it is made.

A store answers the requests of its own kind and refuses others with a QueryError. Immutable; safe from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from mainstem.errors import QueryError

Direction: TypeAlias = Literal["out", "in", "both"]

LIMIT_MAX = 100_000
HOPS_MAX = 16
TIMEOUT_S_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Get:
    """Key-value: the row of one key; no row when the key is absent."""

    key: str


@dataclass(frozen=True, slots=True)
class Range:
    """Key-value: rows in the order of their keys' UTF-8 bytes, ``start`` included, ``end`` not, all after ``after``.

    An answer holds at most ``limit`` rows. When more follow, its ``next`` is the ``after`` of the question for them.
    """

    prefix: str = ""
    start: str | None = None
    end: str | None = None
    limit: int = 1_000
    after: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class Sql:
    """SQL: one SELECT. More than ``limit`` rows, or more than ``timeout_s`` seconds, is a QueryError."""

    query: str
    limit: int = 10_000
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        if not 0 < self.timeout_s <= TIMEOUT_S_MAX:
            raise QueryError(f"timeout {self.timeout_s} s: it has to be over 0 and at most {TIMEOUT_S_MAX:g} s")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Search: the ``limit`` best hits for ``q``, best first, equal scores among them by key."""

    q: str
    limit: int = 20

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class Neighbors:
    """Graph: every node within ``hops`` of ``node``, with its distance; the node itself is not among them."""

    node: str
    hops: int = 1
    direction: Direction = "out"
    limit: int = 10_000

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        _check_direction(self.direction)
        if not 1 <= self.hops <= HOPS_MAX:
            raise QueryError(f"hops {self.hops}: it has to be from 1 to {HOPS_MAX}")


@dataclass(frozen=True, slots=True)
class Path:
    """Graph: one shortest path, a row for each node from ``start`` to ``end``; no rows when there is none.

    Among paths of the same length it is the one whose nodes sort first.
    """

    start: str
    end: str
    direction: Direction = "out"

    def __post_init__(self) -> None:
        _check_direction(self.direction)


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """Metrics: a row for each combination of the labels ``over``, of all labels when that is None, in their order.

    ``labels``: only records with these. ``quantiles``: estimated for each value. ``series``: the records a minute.
    ``buckets``: the histograms. More than ``limit`` rows is a QueryError.
    """

    labels: tuple[tuple[str, str], ...] = ()
    over: tuple[str, ...] | None = None
    quantiles: tuple[float, ...] = ()
    series: bool = False
    buckets: bool = False
    limit: int = 10_000

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        for quantile in self.quantiles:
            if not 0 <= quantile <= 1:
                raise QueryError(f"quantile {quantile:g}: it has to be from 0 to 1; 0.5 is the median")


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Metrics: one row, whose ``text`` is everything in Prometheus' text format."""


Request: TypeAlias = Get | Range | Sql | SearchQuery | Neighbors | Path | MetricsQuery | MetricsPage


def wrong_kind(request: Request, kind: str) -> QueryError:
    """The error for a request that a view of ``kind`` does not answer."""
    return QueryError(f"a {kind} view does not answer {type(request).__name__} requests")


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LIMIT_MAX:
        raise QueryError(f"limit {limit}: it has to be from 1 to {LIMIT_MAX}")


def _check_direction(direction: str) -> None:
    if direction not in get_args(Direction):
        raise QueryError(f"direction {direction!r}: it is one of {', '.join(get_args(Direction))}")
