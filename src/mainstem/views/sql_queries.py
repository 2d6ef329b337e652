"""One user's SELECT over a DuckDB cursor, bounded: what every view that answers SQL shares.

Anything but one SELECT statement is refused with a clear word; a watchdog interrupts it after its time; more rows than
its limit are an error, never a cut. What the statement may see and touch is the database's own part: see `views.sql`.
"""

from __future__ import annotations

import threading
from typing import Any

import duckdb

from mainstem.errors import QueryError
from mainstem.views.requests import Sql
from mainstem.views.rows import plain
from mainstem.views.store import Row

FETCH_ROWS = 2_048


def answer(cursor: duckdb.DuckDBPyConnection, request: Sql) -> list[Row]:
    """The rows of ``request``, on a cursor that is this thread's. Raises QueryError."""
    _refuse_all_but_one_select(cursor, request.query)
    with Watchdog(cursor, request.timeout_s) as watchdog:
        try:
            result = cursor.execute(request.query)
            names = _distinct([entry[0] for entry in result.description])
            rows = _fetch(result, request.limit)
        except duckdb.InterruptException as error:
            raise watchdog.explain(error) from error
        except (duckdb.Error, OverflowError) as error:
            raise QueryError(_one_line(error)) from error
    return [dict(zip(names, map(plain, row), strict=True)) for row in rows]


class Watchdog:
    """Interrupts a cursor's query after its time. A context manager around it."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._timer = threading.Timer(timeout_s, cursor.interrupt)
        self._timer.daemon = True

    def explain(self, error: duckdb.Error) -> QueryError:
        """The error for a query that was interrupted."""
        if not self._timer.finished.is_set():
            return QueryError(_one_line(error))
        return QueryError(f"the query ran over its time limit of {self._timeout_s:g} s: narrow it, or raise `timeout`")

    def __enter__(self) -> Watchdog:
        self._timer.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._timer.cancel()
        self._timer.join()


def _refuse_all_but_one_select(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    try:
        statements = cursor.extract_statements(query)
    except duckdb.Error as error:
        raise QueryError(_one_line(error)) from error
    if len(statements) != 1:
        raise QueryError(f"a query is one SELECT statement; this has {len(statements)}")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        raise QueryError(f"a view is read-only: a query is one SELECT statement, not {kind.name}")


def _fetch(result: duckdb.DuckDBPyConnection, limit: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while chunk := result.fetchmany(min(FETCH_ROWS, limit + 1 - len(rows))):
        rows += chunk
        if len(rows) > limit:
            raise QueryError(f"the query answers more than {limit} rows: add a LIMIT to it, or raise `limit`")
    return rows


def _distinct(names: list[str]) -> list[str]:
    """Column names as keys of a row: a name that stands twice gets a number."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _one_line(error: BaseException) -> str:
    """DuckDB's message without the picture of the statement below it."""
    return str(error).split("\n\n", 1)[0].replace("\n", " ").strip()
