"""The requests to a view: one frozen class for each kind of query, checked when it is made.

A store answers the requests of its own kind and refuses others with a QueryError. A request with ``HTTP`` has a route,
whose parameters are its fields: a field's ``metadata`` holds the parameter's ``alias`` and ``description``.
The view host, not a store, answers a ``WatchRequest``. Immutable; safe from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

from mainstem.errors import QueryError
from mainstem.model import Position

Direction: TypeAlias = Literal["out", "in", "both"]

LIMIT_MAX = 100_000
HOPS_MAX = 16
TIMEOUT_S_MAX = 300.0


class HttpQuery(NamedTuple):
    """The route of a request: ``/views/NAME/{path}``. With POST its fields are a JSON body, else query parameters.

    ``pages``: the answer has ``next``, where the next page begins.
    """

    path: str
    summary: str
    method: Literal["GET", "POST"] = "GET"
    pages: bool = False


@dataclass(frozen=True, slots=True)
class GetQuery:
    """Key-value: the row of one key; no row when the key is absent."""

    key: str


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """Key-value: rows in the order of their keys' UTF-8 bytes, ``start`` included, ``end`` not, all after ``after``.

    An answer holds at most ``limit`` rows. When more follow, its ``next`` is the ``after`` of the question for them.
    """

    HTTP: ClassVar = HttpQuery("keys", "Key-value: the rows of a range or prefix of keys", pages=True)

    prefix: str = ""
    start: str | None = field(default=None, metadata={"description": "the first key, included"})
    end: str | None = field(default=None, metadata={"description": "where to stop; not included"})
    limit: int = field(
        default=1_000, metadata={"description": "at most so many rows; where more follow, the answer's `next` says so"}
    )
    after: str | None = field(
        default=None, metadata={"description": "only keys after this one: the `next` of the answer before"}
    )

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """SQL: one SELECT; the table has the view's name. More than `limit` rows or `timeout_s` seconds is an error.

    With ``explain`` the answer is one row, whose ``plan`` is how the query would run; it does not run.
    """

    HTTP: ClassVar = HttpQuery("sql", "SQL: one SELECT", "POST")

    query: str = field(metadata={"examples": ["SELECT origin, count(*) FROM flights GROUP BY origin"]})
    limit: int = field(default=10_000, metadata={"description": "more rows than this are an error, not a cut"})
    timeout_s: float = field(default=10.0, metadata={"description": "how long the query may run"})
    explain: bool = field(
        default=False, metadata={"description": "answer the query's plan, as text in one row, and do not run it"}
    )

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        if not 0 < self.timeout_s <= TIMEOUT_S_MAX:
            raise QueryError(f"timeout {self.timeout_s} s: it has to be over 0 and at most {TIMEOUT_S_MAX:g} s")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Search: the ``limit`` best hits for ``q``, best first, equal scores among them by key."""

    HTTP: ClassVar = HttpQuery("search", "Search: the best hits for a query")

    q: str
    limit: int = 20

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class NeighborsQuery:
    """Graph: every node within ``hops`` of ``node``, with its distance; the node itself is not among them."""

    HTTP: ClassVar = HttpQuery("neighbors", "Graph: the nodes around one")

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
class PathQuery:
    """Graph: one shortest path, a row for each node from ``start`` to ``end``; no rows when there is none.

    Among paths of the same length it is the one whose nodes sort first.
    """

    HTTP: ClassVar = HttpQuery("path", "Graph: a shortest path")

    start: str = field(metadata={"alias": "from"})
    end: str = field(metadata={"alias": "to"})
    direction: Direction = "out"

    def __post_init__(self) -> None:
        _check_direction(self.direction)


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """Metrics: a row for each combination of the labels ``over``, of all labels when that is None, in their order.

    ``labels``: only records with these, each as ``NAME=TEXT``. More than ``limit`` rows is a QueryError.
    """

    HTTP: ClassVar = HttpQuery("metrics", "Metrics: figures by label")

    labels: tuple[str, ...] = field(
        default=(),
        metadata={"alias": "label", "description": "only records with this label: `NAME=TEXT`; several: all of them"},
    )
    over: tuple[str, ...] | None = field(
        default=None,
        metadata={"description": "the labels to group by, the others are summed over; default: all; none when empty"},
    )
    quantiles: tuple[float, ...] = field(
        default=(),
        metadata={"alias": "quantile", "description": "estimated from the histograms: 0.5 is the median"},
    )
    series: bool = field(default=False, metadata={"description": "also how many records each minute had"})
    buckets: bool = field(default=False, metadata={"description": "also the histograms"})
    limit: int = 10_000

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        for text in self.labels:
            if "=" not in text:
                raise QueryError(f"label {text!r}: it is NAME=TEXT")
        for quantile in self.quantiles:
            if not 0 <= quantile <= 1:
                raise QueryError(f"quantile {quantile:g}: it has to be from 0 to 1; 0.5 is the median")


@dataclass(frozen=True, slots=True)
class MetricsPageQuery:
    """Metrics: one row, whose ``text`` is everything in Prometheus' text format."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The keys to watch: one key, the keys with a prefix, or all; ``since`` is the client's position."""

    key: str | None = None
    prefix: str | None = None
    since: Position | None = None

    def __post_init__(self) -> None:
        """Raises QueryError."""
        if self.key is not None and self.prefix is not None:
            raise QueryError("give a key or a prefix, not both")


Request: TypeAlias = (
    GetQuery | RangeQuery | SqlQuery | SearchQuery | NeighborsQuery | PathQuery | MetricsQuery | MetricsPageQuery
)


def wrong_kind(request: Request, kind: str) -> QueryError:
    """The error for a request that a view of ``kind`` does not answer."""
    name = type(request).__name__.removesuffix("Query")
    return QueryError(f"a {kind} view does not answer {name.lower()} requests")


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LIMIT_MAX:
        raise QueryError(f"limit {limit}: it has to be from 1 to {LIMIT_MAX}")


def _check_direction(direction: str) -> None:
    if direction not in get_args(Direction):
        raise QueryError(f"direction {direction!r}: it is one of {', '.join(get_args(Direction))}")
