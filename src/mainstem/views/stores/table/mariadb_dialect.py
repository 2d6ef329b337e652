"""MariaDB's SQL for a sink's table: rows go as one statement into a temporary table, and from there into the table.

MariaDB commits at each statement of DDL. So a table says in its comment of which generation it is, and one ``RENAME``
of two tables, which a crash cannot tear, decides which one serves.

A time is a ``datetime(6)`` in UTC: a ``timestamp`` ends in 2038. A ``FLOAT`` is a ``double``: the client would read six
digits of a ``float``. NaN and infinity, which MariaDB lacks, are null.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import StorageError
from mainstem.views.stores.rows import value_of
from mainstem.views.stores.store import Digest, StoreUnavailableError
from mainstem.views.stores.table.dialect import (
    SWAP_LOCK_S,
    Dialect,
    FoundColumn,
    FoundTable,
    TablePlace,
    ValueRefusedError,
)
from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted
from mainstem.views.stores.table.table_rows import DELETED, cell, cell_columns, where

if TYPE_CHECKING:
    from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns

_TYPES: Final = {
    "BOOLEAN": "tinyint(1)",
    "TINYINT": "tinyint(4)",
    "SMALLINT": "smallint(6)",
    "INT": "int(11)",
    "BIGINT": "bigint(20)",
    "FLOAT": "double",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP": "datetime(6)",
    "TIMESTAMP_NTZ": "datetime(6)",
    "BINARY": "longblob",
}
_STAGED: Final = "mainstem_batch"
KEY_BYTES_MAX: Final = 3_056
"""A little less than an index of InnoDB holds: room for the other columns of a key."""
_STATEMENT_BYTES: Final = 1 << 22
_PACKET_ROOM: Final = 1 << 16
_ESCAPES: Final = tuple(
    (f"_utf8mb4 x'{ord(character):02x}'", json.dumps(character)[1:-1])
    for character in ("\\", '"', *map(chr, range(0x20)))
)
"""The characters that JSON escapes, as SQL, and their escapes; the backslash first."""
_MARK: Final = re.compile(r" ?mainstem:([0-9a-f]{32})$")
_PLACE: Final = "table_schema = coalesce({}, database()) AND table_name = {}"


class MariaDBDialect(Dialect):
    """The SQL of MariaDB 10.6 and newer."""

    product = "MariaDB"
    name_bytes_max = 64
    key_bytes_max = KEY_BYTES_MAX
    collation = "utf8mb4_nopad_bin"
    table_options = " ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin"
    registry_columns = (
        "generation varchar(32) PRIMARY KEY, name varchar(64) NOT NULL, "
        "table_name varchar(64) NOT NULL UNIQUE, is_serving boolean NOT NULL, sink varchar(255) NOT NULL, "
        "topic varchar(255) NOT NULL, topic_id longtext NOT NULL DEFAULT '', position longtext NOT NULL DEFAULT '', "
        "bookmark longtext NOT NULL, definition longtext NOT NULL, owner varchar(64) NOT NULL DEFAULT '', "
        "written timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"
    )

    # ---- columns and cells

    def sql_type(self, spark_type: str, key_width: int = 0) -> str:
        if spark_type.startswith("DECIMAL("):
            return spark_type.lower()
        if spark_type == "STRING" and key_width:
            return f"varchar({_key_characters(key_width)})"
        return _TYPES.get(spark_type, "longtext")

    def key_text(self, column: SinkColumn, *, in_json: bool) -> str:
        name = quoted(column.name)
        if column.type == "BOOLEAN":
            return f"CASE WHEN {name} THEN 'true' ELSE 'false' END"
        text = name if column.type == "STRING" else f"CAST({name} AS char)"
        return _in_json(text) if in_json and column.type in ("STRING", "DATE") else text

    def faults(self, columns: SinkColumns, cells: Sequence[pa.Array]) -> dict[int, str]:
        found: dict[int, str] = {}
        characters = _key_characters(len(columns.key))
        for column, made in zip(columns.columns, cells, strict=True):
            if column.name in columns.key and column.type == "STRING":
                why = f"the key column {column.name} is longer than {characters} characters, which its type holds"
                found |= dict.fromkeys(where(pc.greater(pc.utf8_length(made), characters)), why)
            elif column.is_required and pa.types.is_floating(made.type):
                why = f"{column.name} is NaN or infinite, which MariaDB cannot hold"
                found |= dict.fromkeys(where(pc.invert(pc.fill_null(pc.is_finite(made), True))), why)
        return found

    def read(self, column: SinkColumn, value: Any) -> Any:
        if column.type == "BOOLEAN" and value in (0, 1):
            return bool(value)
        if column.type == "TIMESTAMP" and isinstance(value, datetime.datetime):
            return value.replace(tzinfo=datetime.UTC)
        return _document(value) if column.is_json and isinstance(value, str) else value

    # ---- the catalog

    def exclude(self, cursor: Cursor, table: TablePlace) -> None:
        cursor.run("SELECT coalesce({}, database())", table.schema or None)
        [schema] = cursor.row()
        cursor.run("SELECT 1 FROM information_schema.schemata WHERE schema_name = {}", schema)
        if not cursor.rows():
            raise StorageError(f"the database {schema} does not exist on the server: make it, or name another one")
        # The connection's end, which follows, gives the lock back.
        cursor.run("SELECT get_lock(concat('mainstem sinks ', md5({})), 10)", schema)
        if cursor.row() != (1,):
            raise StoreUnavailableError(f"another process changes the tables of the sinks in {schema}")

    def exists(self, cursor: Cursor, table: TablePlace) -> bool:
        cursor.run(f"SELECT 1 FROM information_schema.tables WHERE {_PLACE}", table.schema or None, table.name)
        return bool(cursor.rows())

    def describe(self, cursor: Cursor, table: TablePlace) -> FoundTable:
        place = (table.schema or None, table.name)
        cursor.run(
            "SELECT column_name, column_type, is_nullable = 'NO', column_default IS NOT NULL OR extra <> '' "
            f"FROM information_schema.columns WHERE {_PLACE}",
            *place,
        )
        columns = {name: FoundColumn(kind, bool(need), bool(default)) for name, kind, need, default in cursor.rows()}
        query = f"SELECT column_name FROM information_schema.statistics WHERE {_PLACE} AND index_name = 'PRIMARY'"
        cursor.run(query, *place)
        key = sorted(name for (name,) in cursor.rows())
        cursor.run(f"SELECT engine FROM information_schema.tables WHERE {_PLACE}", *place)
        [engine] = cursor.row()
        faults = () if engine == "InnoDB" else (f"its engine is {engine}, not InnoDB, which has transactions",)
        return FoundTable(columns, key, faults)

    def pin(self, cursor: Cursor, table: TablePlace) -> str | None:
        cursor.run("SELECT 1 FROM {} LIMIT 1", table.sql)
        cursor.rows()
        found = _MARK.search(_comment(cursor, table))
        return found[1] if found else None

    def refuse_dependents(self, cursor: Cursor, table: TablePlace) -> None:
        cursor.run(
            "SELECT concat('constraint ', constraint_name, ' of ', table_name) "
            "FROM information_schema.referential_constraints WHERE referenced_table_name = {} "
            "AND unique_constraint_schema = coalesce({}, database()) AND table_name <> referenced_table_name",
            table.name,
            table.schema or None,
        )
        if found := [each for (each,) in cursor.rows()]:
            raise StorageError(
                f"the table {table.name} cannot be replaced while other objects depend on it: "
                f"{', '.join(sorted(found))}; drop these, rebuild the sink, and make them again"
            )

    # ---- DDL

    def mark(self, cursor: Cursor, table: TablePlace, generation: str) -> None:
        users = _MARK.sub("", _comment(cursor, table))
        cursor.run("ALTER TABLE {} COMMENT = {}", table.sql, f"{users} mainstem:{generation}".strip())

    def replace(self, cursor: Cursor, table: TablePlace, shadow: TablePlace, old: TablePlace) -> None:
        cursor.run("SET lock_wait_timeout = {}", SWAP_LOCK_S)
        if self.exists(cursor, table):
            cursor.run("RENAME TABLE {} TO {}, {} TO {}", table.sql, old.sql, shadow.sql, table.sql)
        else:
            cursor.run("RENAME TABLE {} TO {}", shadow.sql, table.sql)

    # ---- rows

    def prepare(self, cursor: Cursor, columns: SinkColumns) -> None:
        typed = [f"{cell(number)} {column.sql_type}" for number, column in enumerate(columns.columns)]
        parts = listed([f"{DELETED} boolean", *typed])
        cursor.run("CREATE TEMPORARY TABLE {} ({}){}", Sql(_STAGED), parts, Sql(self.table_options))

    def stage(self, cursor: Cursor, rows: pa.Table, columns: SinkColumns) -> None:
        cursor.run("DELETE FROM {}", Sql(_STAGED))
        cursor.run("SELECT @@max_allowed_packet")
        [packet] = cursor.row()
        for statement in _inserts(rows, columns, packet - _PACKET_ROOM):
            cursor.raw.execute(statement)

    def merge(self, cursor: Cursor, table: TablePlace, rows: pa.Table, columns: SinkColumns) -> None:
        deleted = rows.column(DELETED)
        numbers = [cell(number) for number in range(len(columns.names))]
        if pc.any(deleted).as_py():
            same = [
                f"t.{quoted(name)} = b.{numbers[place]}"
                for name, place in zip(columns.key, columns.key_numbers, strict=True)
            ]
            condition = Sql(f"{listed(same, ' AND ')} WHERE b.{DELETED}")
            # The batch is small and read first, in the order of its keys; each of its rows finds one by the key.
            cursor.run("DELETE t FROM {} b STRAIGHT_JOIN {} t ON {}", Sql(_STAGED), table.sql, condition)
        if not pc.all(deleted).as_py():
            cursor.run(
                "INSERT INTO {} ({}) SELECT {} FROM {} b WHERE NOT {} ON DUPLICATE KEY UPDATE {}",
                table.sql,
                listed(map(quoted, columns.names)),
                listed(numbers),
                Sql(_STAGED),
                Sql(DELETED),
                _updates(columns),
            )

    def digest(self, cursor: Cursor, table: TablePlace, columns: SinkColumns) -> Digest:
        parts = listed(f"coalesce(concat(octet_length({n}), ':', {n}), '-')" for n in map(quoted, columns.names))
        hashed = Sql(f"CAST(conv(left(md5(concat({parts})), 16), 16, 10) AS decimal(20))")
        cursor.run("SELECT count(*), coalesce(sum({}), 0) FROM {}", hashed, table.sql)
        entries, checksum = cursor.row()
        return Digest(entries, int(checksum))


def _key_characters(key_width: int) -> int:
    """How many characters, of up to four bytes, each text of a key may have: an index holds all of the key."""
    return KEY_BYTES_MAX // (4 * key_width)


def _comment(cursor: Cursor, table: TablePlace) -> str:
    query = f"SELECT table_comment FROM information_schema.tables WHERE {_PLACE}"
    cursor.run(query, table.schema or None, table.name)
    row = cursor.row()
    return str(row[0]) if row else ""


def _in_json(text: str) -> str:
    r"""Text as `mainstem.schema.encoding` writes it in JSON.

    MariaDB's ``json_quote`` has capital letters in ``\u001F``: a text with a rare control character is escaped here.
    """
    escaped = text
    for character, escape in _ESCAPES:
        escaped = f"replace({escaped}, {character}, '{escape}')"
    quoted_text = f"json_quote({text}) COLLATE {MariaDBDialect.collation}"
    return f"if(instr({quoted_text}, '\\u00') = 0, {quoted_text}, concat('\"', {escaped}, '\"'))"


def _updates(columns: SinkColumns) -> Sql:
    """The assignments that replace a row.

    MariaDB takes a row for the same by any unique index, also by one of the user's. The key would then be null, which
    the server refuses.
    """
    same = listed((f"{name} = VALUES({name})" for name in map(quoted, columns.key)), " AND ")
    first = quoted(columns.key[0])
    guard = f"{first} = if({same}, {first}, NULL)"
    others = [f"{name} = VALUES({name})" for name in map(quoted, columns.names) if name not in columns.key]
    return listed([guard, *others])


def _inserts(rows: pa.Table, columns: SinkColumns, bytes_max: int) -> Iterator[str]:
    """Statements that put the rows into the temporary table, each of some megabytes at most."""
    literals = [_literals(column) for column in (rows.column(DELETED), *cell_columns(rows, columns))]
    begin = f"INSERT INTO {_STAGED} VALUES "
    gathered: list[str] = []
    size = 0
    for text in pc.binary_join_element_wise(*literals, ",").to_pylist():
        length = len(text.encode()) + 3
        if length > bytes_max:
            raise ValueRefusedError(f"it has {length} bytes, more than the server's max_allowed_packet takes")
        if gathered and size + length > min(_STATEMENT_BYTES, bytes_max):
            yield begin + ",".join(gathered)
            gathered, size = [], 0
        gathered.append(f"({text})")
        size += length
    if gathered:
        yield begin + ",".join(gathered)


def _literals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column as SQL. Text is quoted as a server without escapes reads it (``NO_BACKSLASH_ESCAPES``)."""
    kind = column.type
    if pa.types.is_boolean(kind):
        made = pc.if_else(column, "1", "0")
    elif pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(column), column.cast(pa.float64()), None)
        made = pc.replace_substring_regex(finite.cast(pa.string()), "^([^e]*)$", "\\1e0")
    elif pa.types.is_binary(kind):
        texts = [None if value is None else f"x'{value.hex()}'" for value in column.to_pylist()]
        made = pa.chunked_array([pa.array(texts, pa.string())])
    elif pa.types.is_timestamp(kind):
        made = _in_quotes(column.cast(pa.timestamp("us")).cast(pa.string()))
    elif pa.types.is_string(kind) or pa.types.is_date(kind):
        made = _in_quotes(column.cast(pa.string()))
    else:
        made = column.cast(pa.string())
    return pc.fill_null(made, "NULL")


def _in_quotes(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    doubled = pc.replace_substring(texts, "'", "''")
    return pc.binary_join_element_wise("'", doubled, "'", "")


def _document(text: str) -> Any:
    try:
        return value_of(text)
    except ValueError:
        return text  # written by hand
