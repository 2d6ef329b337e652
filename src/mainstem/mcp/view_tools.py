"""The tools of views. A tool's docstring is its description, which the model reads."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from mainstem.mcp.answers import Answered, answered, shortened
from mainstem.mcp.gateway import CALL_S, McpGateway, path_of
from mainstem.mcp.topic_tools import Key, Limit, OptionalText, Tool, key_records

View = Annotated[str, Field(description="the view's name", min_length=1, max_length=249)]
Direction: TypeAlias = Literal["out", "in", "both"]
_VERIFY_S: Final = 600.0
_WAITED_S: Final = 2 * CALL_S
_EXPLAIN_ROW_BYTES: Final = 10_000


class Freshness(BaseModel):
    """Which state of the view answers; by default the state as it is now."""

    model_config = ConfigDict(extra="forbid")

    at_least: str | None = Field(None, description="a position (TOPIC/0:17) that the answer must reflect, or it fails")
    max_lag_ms: int | None = Field(None, ge=0, description="reflect all that was in the log so many milliseconds ago")
    as_of: str | None = Field(None, description="key-value and SQL: a past position of the view, or a time (ISO 8601)")
    timeout: float = Field(10.0, ge=0, le=60, description="the seconds to wait for that")

    def query(self) -> dict[str, Any]:
        """As query parameters; none when nothing is to be waited for."""
        words = self.model_dump(exclude_none=True)
        return words if len(words) > 1 else {}


NOW: Final = Freshness()  # type: ignore[call-arg]  # pydantic's defaults


def asking_tools(gateway: McpGateway) -> list[Tool]:
    """Tools for views of every kind, and for key-value views."""

    def list_views() -> Answered:
        """List the views: kind, topic, position, lag, state, last verification."""
        return gateway.first(gateway.call("GET", "/views"), "views", "describe_view shows one")

    def describe_view(view: View) -> Answered:
        """Describe one view: kind, topic, position, what it covers, lag, state, last verification."""
        return gateway.whole(gateway.call("GET", path_of("views", view)))

    def get_row(view: View, key: Key, fresh: Freshness = NOW) -> Answered:
        """Key-value views: the row of one key, or no row. `position` is what the row reflects."""
        return gateway.first(_row(gateway, view, key, fresh), "rows", "")

    def list_rows(
        view: View,
        prefix: Key = "",
        start: OptionalText = None,
        end: OptionalText = None,
        after: OptionalText = None,
        limit: Limit = 100,
        fresh: Freshness = NOW,
    ) -> Answered:
        """Key-value views: rows in the order of their keys, from `start` to before `end`, or with a prefix."""
        query = {"prefix": prefix, "start": start, "end": end, "after": after, **fresh.query()}
        page = gateway.page(path_of("views", view, "/keys"), query, "rows", limit, timeout_s=_WAITED_S)
        more = page.get("next")
        return answered(page, None if more is None else f"call again with after = {more!r}")

    def list_changes(
        view: View, start: str, end: OptionalText = None, after: OptionalText = None, limit: Limit = 100
    ) -> Answered:
        """Key-value and SQL views: the rows that changed between two moments (positions or times; `end`: now)."""
        query = {"from": start, "to": end, "after": after}
        page = gateway.page(path_of("views", view, "/diff"), query, "rows", limit)
        more = page.get("next")
        on = f"call again with start = {page['from']!r}, end = {page['to']!r}, after = {more!r}"
        return answered(page, None if more is None else on)

    return [list_views, describe_view, get_row, list_rows, list_changes]


def query_tools(gateway: McpGateway) -> list[Tool]:
    """Tools for SQL, search, graph and metrics views."""

    def query_sql(
        view: View,
        query: Annotated[str, Field(description="one SELECT; the table has the view's name", max_length=100_000)],
        limit: Limit = 200,
        fresh: Freshness = NOW,
    ) -> Answered:
        """SQL and lake views: one SELECT. More rows than `limit` are an error: aggregate, or use LIMIT and OFFSET."""
        body = {"query": query, "limit": limit, "timeout_s": 10.0}
        path = path_of("views", view, "/sql")
        answer = gateway.call("POST", path, fresh.query(), body, timeout_s=_WAITED_S)
        return gateway.first(answer, "rows", "select fewer columns, aggregate, or use LIMIT and OFFSET")

    def search(
        view: View, words: Annotated[str, Field(max_length=10_000)], limit: Limit = 10, fresh: Freshness = NOW
    ) -> Answered:
        """Search views: the best hits, best first."""
        query = {"q": words, "limit": limit}
        answer = _ask(gateway, view, "/search", query, fresh)
        return gateway.first(answer, "rows", "search for more words")

    def neighbors(
        view: View,
        node: Key,
        hops: Annotated[int, Field(ge=1, le=16)] = 1,
        direction: Direction = "out",
        limit: Limit = 200,
        fresh: Freshness = NOW,
    ) -> Answered:
        """Graph views: the nodes within `hops` of a node, with their distances."""
        query = {"node": node, "hops": hops, "direction": direction, "limit": limit}
        answer = _ask(gateway, view, "/neighbors", query, fresh)
        return gateway.first(answer, "rows", "use fewer hops")

    def path(view: View, start: Key, end: Key, direction: Direction = "out", fresh: Freshness = NOW) -> Answered:
        """Graph views: a shortest path, a row for each node; no rows when there is none."""
        query = {"from": start, "to": end, "direction": direction}
        answer = _ask(gateway, view, "/path", query, fresh)
        return gateway.first(answer, "rows", "the path is long: ask for the path between nodes of it")

    def metrics(
        view: View,
        over: Annotated[list[str] | None, Field(description="labels to group by; default: all", max_length=20)] = None,
        labels: Annotated[dict[str, str], Field(description="only records with these", max_length=20)] = {},  # noqa: B006
        quantiles: Annotated[list[float], Field(max_length=10)] = [],  # noqa: B006
        fresh: Freshness = NOW,
    ) -> Answered:
        """Metrics views: count, sum, mean, min, max and estimated quantiles by label."""
        query = {
            "over": None if over is None else over or "",
            "label": [f"{name}={text}" for name, text in labels.items()],
            "quantile": quantiles,
        }
        answer = _ask(gateway, view, "/metrics", query, fresh)
        return gateway.first(answer, "rows", "group by fewer labels, or filter by `labels`")

    return [query_sql, search, neighbors, path, metrics]


def proving_tools(gateway: McpGateway) -> list[Tool]:
    """Tools that show where a row comes from."""

    def explain_row(view: View, key: Key, limit: Limit = 20, fresh: Freshness = NOW) -> Answered:
        """Key-value views: why a row is as it is: the row, and the records of its key that it reflects, with offsets.

        The records are those of the view's topic before the row's position. Where a pipeline writes that topic,
        list_pipelines says from what.
        """
        topic = str(gateway.call("GET", path_of("views", view))["topic"])
        row = _row(gateway, view, key, fresh)
        records = key_records(gateway, topic, key, str(row["position"]), limit)
        data = {"view": view, "topic": topic, "row": shortened(row, _EXPLAIN_ROW_BYTES), **records}
        more = f"to read on: read_records with this key and topic, start = {records['position']!r}"
        return answered(data, more if len(records["records"]) == limit else None)

    def verify_view(
        view: View,
        full: Annotated[bool, Field(description="false: replay only where the store's own account needs it")] = True,
    ) -> Answered:
        """Compare a view with a replay of its topic: equal or not, and the differences. Needs `admin` on the view."""
        path = path_of("views", view, "/verify")
        return gateway.whole(gateway.call("POST", path, {"full": str(full).lower()}, timeout_s=_VERIFY_S))

    return [explain_row, verify_view]


def rebuilding_tools(gateway: McpGateway) -> list[Tool]:
    """Tools that change views."""

    def rebuild_view(view: View, source: Literal["log", "left", "lake", "snapshot"] = "log") -> Answered:
        """Build a view again from its topic. Needs `admin` on the view."""
        path = path_of("views", view, "/rebuild")
        return gateway.whole(gateway.call("POST", path, {"from": source}, timeout_s=_VERIFY_S))

    return [rebuild_view]


def _ask(gateway: McpGateway, view: str, what: str, query: dict[str, Any], fresh: Freshness) -> dict[str, Any]:
    return gateway.call("GET", path_of("views", view, what), {**query, **fresh.query()}, timeout_s=_WAITED_S)


def _row(gateway: McpGateway, view: str, key: str, fresh: Freshness) -> dict[str, Any]:
    if key in (".", ".."):
        return _ask(gateway, view, "/keys", {"start": key, "end": key + "\0", "limit": 1}, fresh)
    return _ask(gateway, view, f"/keys/{quote(key, safe='')}", {}, fresh)
