"""Ask views over HTTP: ``views("localhost:8080")["delays"].get("UA", at_least=position)``.

Every read takes the words of ``Fresh``: ``at_least``, a position that the answer has to reflect, and ``max_lag_ms`` are
waited for up to ``timeout`` seconds; ``as_of`` asks for a past state. Every answer says what it reflects. An error
behind the gateway is raised here as the same class (``mainstem.problems``): PositionTimeoutError, UnknownViewError,
QueryError …; a gateway that cannot be reached is a LogUnavailableError.

Thread-safe: each thread keeps a connection of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import quote

from mainstem.client.http.http import JsonHttp
from mainstem.model import Position

Row: TypeAlias = dict[str, Any]
Direction: TypeAlias = Literal["out", "in", "both"]

Moment: TypeAlias = Position | datetime.datetime | int | str
"""A position, or a time: a datetime (UTC where it has no zone), its ISO 8601 text, or milliseconds since the epoch."""

_WAIT_S = 30.0
_DOTS = (".", "..")
"""As segments of a path they mean this one and the one above, to whatever passes a request on."""


class Fresh(TypedDict, total=False):
    """How fresh an answer has to be: the keyword arguments of every read."""

    at_least: Position | None
    """The position that the answer has to reflect, of any topic upstream of the view."""
    max_lag_ms: int | None
    """The answer reflects all that was in the log so many milliseconds before the view was asked."""
    as_of: Moment | None
    """Key-value and SQL views: the answer as of a past moment, a position of the view or a time."""
    timeout: float
    """How many seconds to wait for that; default: 30."""
    checkpoints: bool
    """The answer carries the signed checkpoints that cover its position; the view's topic is verifiable."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a view, the position of the view that they reflect, and the source positions which that covers.

    ``next``: the key after which a range of keys goes on (``after=``); None when the answer is complete.
    ``checkpoints``: by ``TOPIC/PARTITION``, the signed checkpoint that covers the position, where it was asked for.
    """

    rows: list[Row]
    position: Position
    covers: Position
    next: str | None = None
    checkpoints: Mapping[str, str] = field(default_factory=dict)

    @property
    def row(self) -> Row | None:
        """The first row; None when there is none."""
        return self.rows[0] if self.rows else None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Change:
    """A row that differs: ``before`` is None where it was added, ``after`` where it was removed."""

    key: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes from the state at ``start`` to that at ``end``; ``next``: the key after which to read on, if any."""

    changes: list[Change]
    start: Position
    end: Position
    next: str | None

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)


class ViewClient:
    """One view by its name. Whether there is such a view, and of what kind, shows at the first question."""

    def __init__(self, http: JsonHttp, name: str) -> None:
        self.name = name
        self._http = http
        self._path = f"/views/{quote(name, safe='')}"

    def get(self, key: str, **fresh: Unpack[Fresh]) -> Answer:
        """Key-value: the row of one key, or no row.

        Args:
            key: The key, as text.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms``, ``as_of`` and ``timeout`` (``Fresh``).

        Raises:
            UnknownViewError: The view does not exist.
            PositionTimeoutError: The view did not get there in time; ``reached`` says how far it is.

        Examples:
            >>> position = log.append("flights", {"carrier": "DL", "delay": 7}, key="DL")
            >>> views["carriers"].get("DL", at_least=position).row["delay"]
            7
        """
        if key in _DOTS:
            return self.range(start=key, end=key + "\0", limit=1, **fresh)
        return self._ask("GET", f"/keys/{quote(key, safe='')}", {}, fresh)

    def range(
        self,
        *,
        prefix: str = "",
        start: str | None = None,
        end: str | None = None,
        limit: int = 1_000,
        after: str | None = None,
        **fresh: Unpack[Fresh],
    ) -> Answer:
        """Key-value: the rows of the keys with a prefix, from ``start`` to before ``end``, in the order of the keys.

        When more rows follow, the answer's ``next`` is the ``after`` to read on; ``scan`` does so.

        Args:
            prefix: What the keys begin with.
            start: The first key.
            end: The key before which the range ends.
            limit: At most so many rows.
            after: Read on after this key.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms``, ``as_of`` and ``timeout`` (``Fresh``).

        Examples:
            >>> [row["carrier"] for row in views["carriers"].range(start="A", end="C")]
            ['AA', 'B6']
        """
        query = {"prefix": prefix, "start": start, "end": end, "limit": limit, "after": after}
        return self._ask("GET", "/keys", query, fresh)

    def scan(
        self,
        *,
        prefix: str = "",
        start: str | None = None,
        end: str | None = None,
        page_size: int = 1_000,
        **fresh: Unpack[Fresh],
    ) -> Iterator[Row]:
        """Key-value: every row that ``range`` has, asked for in pages of ``page_size`` as you take them.

        A later page may reflect a later state, never one before ``at_least``; with ``as_of`` all reflect that state.

        Args:
            prefix: What the keys begin with.
            start: The first key.
            end: The key before which the range ends.
            page_size: How many rows one request gets.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms``, ``as_of`` and ``timeout`` (``Fresh``).

        Examples:
            >>> max(row["delay"] for row in views["carriers"].scan())
            33
        """
        after = None
        while True:
            page = self.range(prefix=prefix, start=start, end=end, limit=page_size, after=after, **fresh)
            yield from page.rows
            after = page.next
            if after is None:
                return

    def sql(
        self,
        query: str,
        *,
        limit: int = 10_000,
        query_timeout: float = 10.0,
        explain: bool = False,
        **fresh: Unpack[Fresh],
    ) -> Answer:
        """SQL: any SELECT over the view, which is a table of its name.

        Args:
            query: The SELECT, in DuckDB's dialect.
            limit: At most so many rows.
            query_timeout: How many seconds the query may run.
            explain: Answer one row, whose ``plan`` is how the query would run, and do not run it.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms``, ``as_of`` and ``timeout`` (``Fresh``).

        Raises:
            QueryError: The query is wrong, or took too long.
            PositionTimeoutError: The view did not get there in time.

        Examples:
            >>> views["delays"].sql("SELECT max(delay) AS worst FROM delays").row
            {'worst': 33}
        """
        body: dict[str, Any] = {"query": query, "limit": limit, "timeout_s": query_timeout}
        if explain:
            body["explain"] = True
        return self._ask("POST", "/sql", {}, fresh, body, extra_s=query_timeout)

    def search(self, q: str, *, limit: int = 20, **fresh: Unpack[Fresh]) -> Answer:
        """Search: the best hits for a query, best first.

        Args:
            q: Words, ``"phrases"``, ``AND``, ``OR`` and ``-`` before a word.
            limit: At most so many hits.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms`` and ``timeout`` (``Fresh``).

        Raises:
            QueryError: The query is wrong.

        Examples:
            >>> views["airports"].search("newark").row["origin"]
            'Newark'
        """
        return self._ask("GET", "/search", {"q": q, "limit": limit}, fresh)

    def neighbors(
        self,
        node: str,
        *,
        hops: int = 1,
        direction: Direction = "out",
        limit: int = 10_000,
        **fresh: Unpack[Fresh],
    ) -> Answer:
        """Graph: the nodes within ``hops`` of a node, with their distances.

        Args:
            node: The node to begin at.
            hops: The greatest distance.
            direction: Along the edges (``"out"``), against them (``"in"``), or ``"both"``.
            limit: At most so many nodes.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms`` and ``timeout`` (``Fresh``).

        Examples:
            >>> [(row["node"], row["hops"]) for row in views["routes"].neighbors("New York", hops=2)]
            [('Chicago', 1), ('Newark', 1), ('Houston', 2)]
        """
        query = {"node": node, "hops": hops, "direction": direction, "limit": limit}
        return self._ask("GET", "/neighbors", query, fresh)

    def path(self, start: str, end: str, *, direction: Direction = "out", **fresh: Unpack[Fresh]) -> Answer:
        """Graph: a shortest path, a row for each node, or no rows.

        Args:
            start: The first node.
            end: The last node.
            direction: Along the edges (``"out"``), against them (``"in"``), or ``"both"``.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms`` and ``timeout`` (``Fresh``).

        Examples:
            >>> [row["node"] for row in views["routes"].path("New York", "Houston")]
            ['New York', 'Newark', 'Houston']
        """
        return self._ask("GET", "/path", {"from": start, "to": end, "direction": direction}, fresh)

    def metrics(
        self,
        *,
        over: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        quantiles: Sequence[float] = (),
        series: bool = False,
        buckets: bool = False,
        **fresh: Unpack[Fresh],
    ) -> Answer:
        """Metrics: figures for each combination of the labels ``over``, of records with ``labels``.

        Rows: ``labels``, ``records``, ``values`` with count, sum, mean, min, max of each.

        Args:
            over: The labels to group by; without it all.
            labels: Only records with these labels.
            quantiles: Estimated quantiles of each value, such as 0.5.
            series: Also the records of each minute.
            buckets: Also the buckets of each value.
            fresh: How fresh the answer has to be: ``at_least``, ``max_lag_ms`` and ``timeout`` (``Fresh``).

        Examples:
            >>> views["figures"].metrics(labels={"carrier": "AA"}).row["values"]["delay"]["max"]
            33.0
        """
        query = {
            "over": None if over is None else list(over) or "",
            "label": [f"{name}={text}" for name, text in (labels or {}).items()],
            "quantile": list(quantiles),
            "series": str(series).lower(),
            "buckets": str(buckets).lower(),
        }
        return self._ask("GET", "/metrics", query, fresh)

    def diff(
        self,
        start: Moment,
        end: Moment | None = None,
        *,
        limit: int = 1_000,
        after: str | None = None,
        timeout: float = _WAIT_S,
    ) -> Diff:
        """Key-value and SQL: the rows that changed between two moments, in the order of their keys.

        To read on after ``limit`` changes: ``diff(d.start, d.end, after=d.next)``, until ``next`` is None.

        Args:
            start: A position of the view, or a time.
            end: The same; without it now.
            limit: At most so many changes.
            after: Read on after this key.
            timeout: How many seconds to wait.

        Examples:
            >>> before = views["carriers"].get("UA").position
            >>> after = log.append("flights", {"carrier": "UA", "delay": 0}, key="UA")
            >>> [(each.key, each.after["delay"]) for each in views["carriers"].diff(before, after)]
            [('UA', 0)]
        """
        moments = {"from": _moment_text(start), "to": None if end is None else _moment_text(end)}
        query = {**moments, "limit": limit, "after": after, "timeout": timeout}
        answer = self._http.call("GET", f"{self._path}/diff", query, timeout_s=2 * timeout + _WAIT_S)
        changes = [Change(row["key"], row["before"], row["after"]) for row in answer["rows"]]
        return Diff(changes, Position.parse(answer["from"]), Position.parse(answer["to"]), answer["next"])

    def status(self) -> dict[str, Any]:
        """The view's kind, position and lag, what it covers and how it is.

        Examples:
            >>> views["carriers"].status()["kind"]
            'key-value'
        """
        return self._http.call("GET", self._path)

    def verify(self, *, full: bool = True, timeout: float = 600.0) -> dict[str, Any]:
        """Compare the view with a replay of its topic: ``equal``, ``records``, ``position``, ``differences``.

        Args:
            full: False: without the replay, if the store's own account shows that no other writer changed it.
            timeout: How many seconds to wait.

        Examples:
            >>> views["carriers"].verify()["equal"]
            True
        """
        return self._http.call("POST", f"{self._path}/verify", {"full": str(full).lower()}, timeout_s=timeout)

    def rebuild(
        self, *, source: Literal["log", "left", "lake", "snapshot"] = "log", timeout: float = 600.0
    ) -> dict[str, Any]:
        """Rebuild the view: from the log, the records that retention left, its topic's lake, or its newest snapshot.

        Args:
            source: ``"log"``, ``"left"``, ``"lake"`` or ``"snapshot"``.
            timeout: How many seconds to wait.

        Raises:
            HistoryRemovedError: The source is ``"log"`` and retention removed records; or it is ``"lake"`` and the
                topic has none.

        Examples:
            >>> views["carriers"].rebuild()["records"] > 0
            True
        """
        return self._http.call("POST", f"{self._path}/rebuild", {"from": source}, timeout_s=timeout)

    def __repr__(self) -> str:
        return f"<view {self.name!r} at {self._http.url}>"

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        fresh: Fresh,
        body: Any = None,
        extra_s: float = 0.0,
    ) -> Answer:
        words = _parameters(fresh)
        timeout_s = _WAIT_S + extra_s + float(words.get("timeout", 0.0))
        answer = self._http.call(method, self._path + path, {**query, **words}, body, timeout_s)
        position, covers = Position.parse(answer["position"]), Position.parse(answer.get("covers") or "")
        return Answer(answer["rows"], position, covers, answer.get("next"), answer.get("checkpoints", {}))


def _parameters(fresh: Fresh) -> dict[str, Any]:
    """The query parameters that ask for it; no ``timeout`` when nothing has to be waited for."""
    at_least, as_of = fresh.get("at_least"), fresh.get("as_of")
    words: dict[str, Any] = {
        "at_least": None if at_least is None else str(at_least),
        "max_lag_ms": fresh.get("max_lag_ms"),
        "as_of": None if as_of is None else _moment_text(as_of),
    }
    asked = {name: value for name, value in words.items() if value is not None}
    asked = {**asked, "timeout": fresh.get("timeout", _WAIT_S)} if asked else {}
    return {**asked, "checkpoints": "true"} if fresh.get("checkpoints") else asked


def _moment_text(moment: Moment) -> str:
    return moment.isoformat() if isinstance(moment, datetime.datetime) else str(moment)


class Views(Mapping[str, ViewClient]):
    """All views behind a gateway, by name. Looking one up asks nothing yet; iterating and ``in`` ask the gateway."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        """Raises ConfigError when ``url`` is no HTTP address, or ``token`` no token."""
        self._http = JsonHttp(url, token=token)

    def status(self) -> list[dict[str, Any]]:
        """The status of every view."""
        views: list[dict[str, Any]] = self._http.call("GET", "/views")["views"]
        return views

    def close(self) -> None:
        """Close this thread's connection."""
        self._http.close()

    def __getitem__(self, name: str) -> ViewClient:
        return ViewClient(self._http, name)

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        return iter([view["name"] for view in self.status()])

    def __len__(self) -> int:
        return len(self.status())


def views(url: str = "http://127.0.0.1:8080", *, token: str | None = None) -> Views:
    """The views behind the gateway at ``url``; ``host:port`` is enough. Connects to nothing yet.

    ``token`` is the bearer token, where the gateway asks for one; the variable ``MAINSTEM_TOKEN`` unless given.
    """
    return Views(url, token=token)
