"""SQLite's SQL for a sink's table. Rows go into the table at once, one prepared statement for each.

SQLite has few types, and a column takes any value. Decimals are text, so that no digit is lost. Dates and times are
text that SQLite's date functions read, times in UTC with six digits of a second, so that their order is that of time.
NaN is null, as in SQLite itself.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.views.stores.hashing import digest_of
from mainstem.views.stores.rows import value_of
from mainstem.views.stores.table.dialect import Dialect, FoundColumn, FoundTable, TablePlace, merging
from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted
from mainstem.views.stores.table.table_rows import DELETED, cell_columns, where

if TYPE_CHECKING:
    from mainstem.views.stores.store import Digest
    from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns

_TYPES: Final = {
    "BOOLEAN": "integer",
    "TINYINT": "integer",
    "SMALLINT": "integer",
    "INT": "integer",
    "BIGINT": "integer",
    "FLOAT": "real",
    "DOUBLE": "real",
    "BINARY": "blob",
}
KEY_BYTES_MAX: Final = 60_000
_AFFINITIES: Final = (
    ("integer", ("INT",)),
    ("text", ("CHAR", "CLOB", "TEXT")),
    ("blob", ("BLOB",)),
    ("real", ("REAL", "FLOA", "DOUB")),
)
_TABLE_NAME: Final = re.compile(
    r"""CREATE TABLE\s*(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|'(?:[^']|'')*'|\[[^\]]*\]|[^\s("]+)"""
)
"""How the stored text of a table begins: SQLite writes these words so, whatever the user's statement was."""


class SQLiteDialect(Dialect):
    """The SQL of SQLite."""

    product = "SQLite"
    name_bytes_max = 255
    key_bytes_max = KEY_BYTES_MAX
    collation = "BINARY"
    registry_columns = (
        "generation text PRIMARY KEY, name text NOT NULL COLLATE NOCASE, "
        "table_name text NOT NULL UNIQUE COLLATE NOCASE, is_serving boolean NOT NULL, sink text NOT NULL, "
        "topic text NOT NULL, topic_id text NOT NULL DEFAULT '', position text NOT NULL DEFAULT '', "
        "bookmark text NOT NULL, definition text NOT NULL, owner text NOT NULL DEFAULT '', "
        "written text NOT NULL DEFAULT CURRENT_TIMESTAMP"
    )

    # ---- columns and cells

    def sql_type(self, spark_type: str, key_width: int = 0) -> str:
        return _TYPES.get(spark_type, "text")

    def key_text(self, column: SinkColumn, *, in_json: bool) -> str:
        name = quoted(column.name)
        if column.type == "BOOLEAN":
            return f"CASE WHEN {name} THEN 'true' ELSE 'false' END"
        return f"json_quote({name})" if in_json and column.sql_type == "text" else f"CAST({name} AS text)"

    def faults(self, columns: SinkColumns, cells: Sequence[pa.Array]) -> dict[int, str]:
        found: dict[int, str] = {}
        for column, made in zip(columns.columns, cells, strict=True):
            if column.type == "STRING":
                why = f"{column.name} has the character U+0000, at which SQLite's functions end a text"
                found |= dict.fromkeys(where(pc.match_substring(made, "\0")), why)
            elif column.is_required and pa.types.is_floating(made.type):
                why = f"{column.name} is NaN, which SQLite takes for null"
                found |= dict.fromkeys(where(pc.fill_null(pc.is_nan(made), False)), why)
        return found

    def read(self, column: SinkColumn, value: Any) -> Any:
        if value is None:
            return None
        if column.type == "BOOLEAN" and value in (0, 1):
            return bool(value)
        if not isinstance(value, str):
            return value
        if column.type.startswith("TIMESTAMP"):
            return _time(value)
        return _document(value) if column.is_json else value

    # ---- the catalog

    def exclude(self, cursor: Cursor, table: TablePlace) -> None:
        """Nothing: a transaction that writes excludes every other one."""

    def exists(self, cursor: Cursor, table: TablePlace) -> bool:
        cursor.run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND lower(name) = lower({})", table.name)
        return bool(cursor.rows())

    def describe(self, cursor: Cursor, table: TablePlace) -> FoundTable:
        cursor.run(
            'SELECT name, type, "notnull", dflt_value IS NOT NULL, pk > 0 FROM pragma_table_info({})', table.name
        )
        found = cursor.rows()
        cursor.run(
            "SELECT of.name, of.coll FROM pragma_index_list({}) AS i, pragma_index_xinfo(i.name) AS of "
            "WHERE i.origin = 'pk' AND of.key AND of.coll <> 'BINARY'",
            table.name,
        )
        faults = {name: merging(collation, "BINARY") for name, collation in cursor.rows()}
        # SQLite forgives null in a primary key; the sink writes none.
        columns = {
            name: FoundColumn(_affinity(kind), bool(required or in_key), bool(default or in_key), faults.get(name))
            for name, kind, required, default, in_key in found
        }
        return FoundTable(columns, sorted(name for name, *_, in_key in found if in_key))

    # ---- DDL

    def create_like(self, cursor: Cursor, table: TablePlace, model: TablePlace) -> None:
        cursor.run("SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) = lower({})", model.name)
        [text] = cursor.row()
        cursor.run("{}", Sql(_TABLE_NAME.sub(lambda _: f"CREATE TABLE {table.sql}", text, count=1)))

    def replace(self, cursor: Cursor, table: TablePlace, shadow: TablePlace, old: TablePlace) -> None:
        query = "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND lower(tbl_name) = lower({})"
        cursor.run(query + " AND sql IS NOT NULL ORDER BY type", table.name)
        belongings = [text for (text,) in cursor.rows()]
        cursor.run("DROP TABLE IF EXISTS {}", table.sql)
        cursor.run("ALTER TABLE {} RENAME TO {}", shadow.sql, table.sql)
        for text in belongings:
            cursor.run("{}", Sql(text))

    # ---- rows

    def merge(self, cursor: Cursor, table: TablePlace, rows: pa.Table, columns: SinkColumns) -> None:
        cells = [_written(column).to_pylist() for column in cell_columns(rows, columns)]
        deleted = rows.column(DELETED).to_pylist()
        keys = [(number, quoted(columns.names[number])) for number in columns.key_numbers]
        same = listed((f"{name} = ?" for _, name in keys), " AND ")
        gone = [tuple(cells[number][row] for number, _ in keys) for row, is_gone in enumerate(deleted) if is_gone]
        cursor.run_many(Sql(f"DELETE FROM {table.sql} WHERE {same}"), gone)
        kept = [row for row, is_gone in zip(zip(*cells, strict=True), deleted, strict=True) if not is_gone]
        cursor.run_many(_upsert(table, columns), kept)

    def digest(self, cursor: Cursor, table: TablePlace, columns: SinkColumns) -> Digest:
        cursor.run("SELECT {} FROM {}", listed(map(quoted, columns.names)), table.sql)
        return digest_of((repr(row).encode(errors="surrogatepass"),) for row in cursor.raw)


def _upsert(table: TablePlace, columns: SinkColumns) -> Sql:
    names = listed(map(quoted, columns.names))
    marks = listed(["?"] * len(columns.names))
    others = [quoted(name) for name in columns.names if name not in columns.key]
    sets = listed(f"{name} = excluded.{name}" for name in others)
    what = f"UPDATE SET {sets}" if others else "NOTHING"
    key = listed(map(quoted, columns.key))
    return Sql(f"INSERT INTO {table.sql} ({names}) VALUES ({marks}) ON CONFLICT ({key}) DO {what}")


def _affinity(declared: str) -> str:
    """The type that SQLite takes a declared one for, by SQLite's own rules (``Datatypes In SQLite``, 3.1)."""
    for kind, words in _AFFINITIES:
        if any(word in declared.upper() for word in words):
            return kind
    return "numeric" if declared else "blob"


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return column.cast(pa.string()) if pa.types.is_date(column.type) else column


def _time(text: str) -> Any:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return text  # beyond Python's years, or written by hand


def _document(text: str) -> Any:
    try:
        return value_of(text)
    except ValueError:
        return text  # written by hand
