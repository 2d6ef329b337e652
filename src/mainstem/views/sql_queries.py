"""One user's SELECT over a DuckDB cursor, bounded: what every view that answers SQL shares.

Anything but one SELECT statement is refused with a clear word; a watchdog interrupts it after its time; more rows than
its limit are an error, never a cut. What the statement may see and touch is the database's own part: see `views.sql`.

But a SELECT that the database holds read-only may still do something by a function: write a checkpoint into the file
that is being copied, turn on logging for everybody, read memory by an address, or hide such a call in a text. So of
table functions only those are let through that make rows out of their arguments or tell what is in the view.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import duckdb

from mainstem.errors import QueryError
from mainstem.views.requests import Sql
from mainstem.views.rows import plain
from mainstem.views.store import Row

FETCH_ROWS = 2_048

TABLE_FUNCTIONS: Final = frozenset(
    [
        "generate_series",
        "histogram",
        "histogram_values",
        "icu_calendar_names",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "range",
        "repeat",
        "repeat_row",
        "summary",
        "test_all_types",
        "unnest",
        "duckdb_columns",
        "duckdb_constraints",
        "duckdb_databases",
        "duckdb_functions",
        "duckdb_indexes",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_settings",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "pragma_database_size",
        "pragma_show",
        "pragma_storage_info",
        "pragma_table_info",
        "pragma_version",
    ]
)
"""The table functions that a query may use; none of them does anything."""
REFUSED_FUNCTIONS: Final = frozenset({"nextval", "setseed", "setval", "write_log"})
"""The functions of values that do something."""

_CALLS = """
SELECT json_extract_string(tree, '$.error_message'), json_extract_string(tree, '$..function.function_name'),
       json_extract_string(tree, '$..function_name')
FROM (SELECT json_serialize_sql(?::VARCHAR) AS tree)"""


def answer(cursor: duckdb.DuckDBPyConnection, request: Sql) -> list[Row]:
    """The rows of ``request``, on a cursor that is this thread's. Raises QueryError."""
    _refuse_all_but_one_select(cursor, request.query)
    _refuse_what_does_something(cursor, request.query)
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
        query.encode()
        statements = cursor.extract_statements(query)
    except (duckdb.Error, UnicodeEncodeError) as error:
        raise QueryError(_one_line(error)) from error
    if len(statements) != 1:
        raise QueryError(f"a query is one SELECT statement; this has {len(statements)}")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        raise QueryError(f"a view is read-only: a query is one SELECT statement, not {kind.name}")


def _refuse_what_does_something(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    if "(" not in query:
        return
    try:
        row = cursor.execute(_CALLS, [query]).fetchone()
    except duckdb.Error as error:
        raise QueryError(_one_line(error)) from error
    assert row is not None
    error_message, of_tables, every = row
    if error_message is not None:
        raise QueryError(error_message)
    refused = {name.lower() for name in of_tables} - TABLE_FUNCTIONS | {n.lower() for n in every} & REFUSED_FUNCTIONS
    if refused:
        raise QueryError(
            f"a query of a view may not use {', '.join(sorted(refused))}(): it reads the view's rows and nothing else"
        )


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
