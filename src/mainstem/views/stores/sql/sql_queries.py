"""One user's SELECT over a DuckDB cursor, bounded: for every view that answers SQL.

A text that is too long or nests too much is refused before it is parsed (`views.stores.sql.query_bounds`). Anything
but one SELECT statement is refused with a clear word; a watch interrupts it after its time
(`views.stores.sql.query_watch`); more rows or bytes than its limits are an error, never a cut. What the statement may
see and touch is the database's own part: `views.stores.sql.sql`.

But a SELECT that the database holds read-only may still do something by a function: write a checkpoint into the file
that is being copied, turn on logging for everybody, read memory by an address, or hide such a call in a text. So of
table functions only those are let through that make rows out of their arguments or tell what is in the view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from mainstem.errors import QueryError
from mainstem.views.requests import Request, SqlQuery, wrong_kind
from mainstem.views.stores.rows import plain
from mainstem.views.stores.sql.query_bounds import AnswerSize, check_sql
from mainstem.views.stores.sql.query_watch import WATCH
from mainstem.views.stores.store import Digest, Row, Snapshot

FETCH_ROWS = 2_048
_FIRST_ROWS = 16
_PIECE_BYTES = 4 << 20
_EXPLAIN: Final = "EXPLAIN\n"  # a line of its own, so that columns of an error's place stay
PLAN_CHARS_MAX: Final = 1 << 20

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
UNSAFE_FUNCTIONS: Final = frozenset(
    [
        # quadratic in their arguments, and not interruptible meanwhile
        "damerau_levenshtein",
        "editdist3",
        "jaro_similarity",
        "jaro_winkler_similarity",
        "levenshtein",
        # overflow the stack over deeply nested JSON
        "json_contains",
        "json_deserialize_sql",
        "json_group_structure",
        "json_serialize_plan",
        "json_serialize_sql",
        "json_structure",
    ]
)
"""Functions that could stop or crash the process (seen with DuckDB 2.0.0; docs/decisions/0027)."""
_UNSAFE_TYPE: Final = "VARIANT"  # casting deeply nested JSON to it overflows the stack

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS: Final = "SELECT lower(keyword_name) FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
_NAMES: Final = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"

_CALLS = """
SELECT json_extract_string(tree, '$.error_message'), json_extract_string(tree, '$..function.function_name'),
       json_extract_string(tree, '$..function_name'), json_extract_string(tree, '$..type_name')
FROM (SELECT json_serialize_sql(?::VARCHAR) AS tree)"""


class CursorSnapshot(Snapshot):
    """One state of a table that answers SQL: a read-only transaction on a cursor of its own."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, table: str, kind: str) -> None:
        """``table``: its quoted name; ``kind``: of the view, for errors."""
        self._cursor = cursor
        self._table = table
        self._kind = kind

    def query(self, request: Request) -> list[Row]:
        if not isinstance(request, SqlQuery):
            raise wrong_kind(request, self._kind)
        return answer(self._cursor, request)

    def is_at(self, cursor: object) -> bool:
        """Whether its queries run on ``cursor``."""
        return self._cursor is cursor

    def digest(self) -> Digest:
        return digest_of(self._cursor, self._table)

    def close(self) -> None:
        self._cursor.close()


def digest_of(cursor: duckdb.DuckDBPyConnection, table: str) -> Digest:
    """DuckDB's own hash of each row, summed: the same in any process of one version of DuckDB."""
    row = cursor.execute(f"SELECT count(*), coalesce(sum(hash(entry)), 0) FROM {table} AS entry").fetchone()
    assert row is not None
    return Digest(int(row[0]), int(row[1]))


def answer(cursor: duckdb.DuckDBPyConnection, request: SqlQuery) -> list[Row]:
    """The rows of ``request``, on a cursor that is this thread's. Raises QueryError."""
    check_sql(request.query)
    with watched(cursor, request.query, request.timeout_s):
        _refuse_all_but_one_select(cursor, request.query)
        _refuse_what_does_something(cursor, request.query)
        try:
            if request.explain:
                return [{"plan": _plan(cursor, request.query)}]
            result = cursor.execute(request.query)
            names = _distinct([entry[0] for entry in result.description])
            rows = _fetch(result, request.limit)
        except duckdb.InterruptException:
            raise
        except duckdb.OutOfMemoryException as error:
            reason = str(error).split("\n", 1)[0].rstrip(".")  # the other lines advise to change settings
            raise QueryError(
                f"the query needs more memory or disk than a view's queries may use: narrow it ({reason})"
            ) from error
        except (duckdb.Error, OverflowError) as error:
            raise QueryError(_one_line(error, int(request.explain))) from error
    return [dict(zip(names, map(plain, row), strict=True)) for row in rows]


def _plan(cursor: duckdb.DuckDBPyConnection, query: str) -> str:
    """The plan of a query that passed all checks. DuckDB plans it, and does not run it."""
    rows = cursor.execute(_EXPLAIN + query).fetchall()
    plan = "\n".join(str(row[1]) for row in rows)
    if len(plan) > PLAN_CHARS_MAX:
        raise QueryError(f"the plan has {len(plan)} characters, more than {PLAN_CHARS_MAX}: explain parts of the query")
    return plan


@contextmanager
def watched(cursor: duckdb.DuckDBPyConnection, text: str, timeout_s: float) -> Iterator[None]:
    """Inside, ``cursor`` is interrupted after its time, or when memory is short. Raises QueryError then."""
    query = WATCH.begin(cursor, text, timeout_s)
    try:
        yield
    except duckdb.InterruptException as error:
        if query.ended_by == "memory":
            raise QueryError("the query was ended because this process was short of memory: narrow it") from error
        if query.ended_by == "time":
            limit = f"the query ran over its time limit of {timeout_s:g} s: narrow it, or raise `timeout`"
            raise QueryError(limit) from error
        raise QueryError(_one_line(error)) from error
    finally:
        WATCH.end(query)


def _refuse_all_but_one_select(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    try:
        query.encode()
        statements = cursor.extract_statements(query)
    except duckdb.InterruptException:
        raise
    except duckdb.ParserException as error:
        raise QueryError(_one_line(error) + _quotes_hint(cursor, query)) from error
    except (duckdb.Error, UnicodeEncodeError) as error:
        raise QueryError(_one_line(error)) from error
    if len(statements) != 1:
        raise QueryError(f"a query is one SELECT statement; this has {len(statements)}")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        raise QueryError(f"a view is read-only: a query is one SELECT statement, not {kind.name}")


def _refuse_what_does_something(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    if "(" not in query and _UNSAFE_TYPE not in query.upper():
        return
    try:
        row = cursor.execute(_CALLS, [query]).fetchone()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise QueryError(_one_line(error)) from error
    assert row is not None
    error_message, of_tables, every, types = row
    if error_message is not None:
        raise QueryError(error_message)
    called = {name.lower() for name in every}
    unsafe = sorted(called & UNSAFE_FUNCTIONS) or [name for name in types if name.upper() == _UNSAFE_TYPE]
    if unsafe:
        raise QueryError(f"a query of a view may not use {', '.join(unsafe)}: it could stop the process that answers")
    refused = {name.lower() for name in of_tables} - TABLE_FUNCTIONS | called & REFUSED_FUNCTIONS
    if refused:
        raise QueryError(
            f"a query of a view may not use {', '.join(sorted(refused))}(): it reads the view's rows and nothing else"
        )


def _fetch(result: duckdb.DuckDBPyConnection, limit: int) -> list[tuple[Any, ...]]:
    """The rows, in pieces that are as small as the rows are large: none is much over ``_PIECE_BYTES`` in Python."""
    rows: list[tuple[Any, ...]] = []
    size, piece_rows = AnswerSize(), _FIRST_ROWS
    while chunk := result.fetchmany(min(piece_rows, limit + 1 - len(rows))):
        largest = max(size.add_row(row) for row in chunk)
        piece_rows = max(1, min(FETCH_ROWS, 2 * piece_rows, _PIECE_BYTES // largest))
        rows += chunk
        if len(rows) > limit:
            raise QueryError(f"the query answers more than {limit} rows: add a LIMIT to it, or raise `limit`")
    return rows


def _distinct(names: list[str]) -> list[str]:
    """Column names as keys of a row: a name that occurs twice gets a number."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _quotes_hint(cursor: duckdb.DuckDBPyConnection, query: str) -> str:
    """For a text that is no SQL: which names of the view and its columns stand in it and lack the quotes they need."""
    keywords = {word for (word,) in cursor.execute(_KEYWORDS).fetchall()}
    names = {name for row in cursor.execute(_NAMES).fetchall() for name in row}
    lacking = [
        f'"{name}"'
        for name in sorted(names)
        if (not _PLAIN_NAME.fullmatch(name) or name.lower() in keywords)
        and re.search(rf'(?<!["\w]){re.escape(name)}(?!["\w])', query, re.IGNORECASE)
    ]
    return f"; write in double quotes: {', '.join(lacking)}" if lacking else ""


def _one_line(error: BaseException, lines_before: int = 0) -> str:
    """DuckDB's message, with the place in the statement in numbers instead of the picture below it.

    ``lines_before``: how many lines stood before the statement.
    """
    message, _, picture = str(error).partition("\n\n")
    text = message.replace("\n", " ").strip() + _place(picture, lines_before)
    # DuckDB would offer a table of its own, e.g. pg_sequences.
    return re.sub(r"(Table with name .* does not exist)!.*", r"\1; the view's table has the view's name", text)


def _place(picture: str, lines_before: int) -> str:
    """`` (line 1, column 8)`` of DuckDB's ``LINE 1: SELECT nope`` with a caret below; a cut line has no column."""
    found = re.match(r"LINE (\d+): (?!\.\.\.)(.*)\n( *)\^", picture)
    if found is None:
        return ""
    return f" (line {int(found[1]) - lines_before}, column {len(found[3]) - len(f'LINE {found[1]}: ') + 1})"
