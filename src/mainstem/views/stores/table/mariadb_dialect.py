"""MariaDB's SQL for a sink's table: rows go into it by statements of many rows each, of about a megabyte.

That takes two thirds of the time that a temporary table between the two takes. It needs the server to refuse no value
of a row that came through ``faults`` and ``stage``: then an error is about the table, and not about a record.

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
    merging,
)
from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted
from mainstem.views.stores.table.table_rows import DELETED, cell_columns, where

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
KEY_BYTES_MAX: Final = 3_056
"""A little less than an index of InnoDB holds: room for the other columns of a key."""
_STATEMENT_BYTES: Final = 1 << 20
_DELETED_MAX: Final = 500
"""How many keys one statement deletes: with far more of them the optimizer reads the whole table."""
_CELL_BYTES: Final = 60
"""More than a number, a time or a key word has as SQL."""
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
            "SELECT column_name, column_type, is_nullable = 'NO', column_default IS NOT NULL OR extra <> '', "
            "character_set_name, collation_name, column_key = 'PRI' "
            f"FROM information_schema.columns WHERE {_PLACE}",
            *place,
        )
        columns = {
            name: FoundColumn(kind, bool(need), bool(default), _text_fault(*text))
            for name, kind, need, default, *text in cursor.rows()
        }
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

    def stage(self, cursor: Cursor, rows: pa.Table, columns: SinkColumns) -> None:
        bytes_max = _bytes_max(cursor, columns)
        found = {}
        for index in where(pc.greater(_sizes(rows, columns), bytes_max)):
            [text] = _tuples(cell_columns(rows.slice(index, 1), columns))
            if len(text.encode()) > bytes_max:
                found[index] = f"it has {len(text.encode())} bytes, more than the server's max_allowed_packet takes"
        if found:
            raise ValueRefusedError(found)

    def merge(self, cursor: Cursor, table: TablePlace, rows: pa.Table, columns: SinkColumns) -> None:
        bytes_max = _bytes_max(cursor, columns)
        deleted = rows.column(DELETED)
        gone, kept = rows.filter(deleted), rows.filter(pc.invert(deleted))
        if len(gone):
            cells = cell_columns(gone, columns)
            keys = _tuples([cells[number] for number in columns.key_numbers])
            for some in _batches(keys, bytes_max, _DELETED_MAX):
                condition = Sql(f"({listed(map(quoted, columns.key))}) IN ({some})")
                cursor.raw.execute(f"DELETE FROM {table.sql} WHERE {condition}")
        if len(kept):
            names, updates = listed(map(quoted, columns.names)), _updates(columns)
            for some in _batches(_tuples(cell_columns(kept, columns)), bytes_max):
                cursor.raw.execute(f"INSERT INTO {table.sql} ({names}) VALUES {some} ON DUPLICATE KEY UPDATE {updates}")

    def digest(self, cursor: Cursor, table: TablePlace, columns: SinkColumns) -> Digest:
        parts = listed(f"coalesce(concat(octet_length({n}), ':', {n}), '-')" for n in map(quoted, columns.names))
        hashed = Sql(f"CAST(conv(left(md5(concat({parts})), 16), 16, 10) AS decimal(20))")
        cursor.run("SELECT count(*), coalesce(sum({}), 0) FROM {}", hashed, table.sql)
        entries, checksum = cursor.row()
        return Digest(entries, int(checksum))


def _text_fault(character_set: str | None, collation: str | None, is_key: bool) -> str | None:
    if character_set not in (None, "utf8mb4"):
        return f"has the character set {character_set}, which lacks characters: make it utf8mb4"
    if not is_key or collation in (None, MariaDBDialect.collation):
        return None
    return merging(str(collation), MariaDBDialect.collation)


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


def _bytes_max(cursor: Cursor, columns: SinkColumns) -> int:
    """The most bytes of rows that one statement takes: names stand in it three times, and a little beside them."""
    cursor.run("SELECT @@max_allowed_packet")
    [packet] = cursor.row()
    return int(packet) - 3 * sum(len(name.encode()) + 20 for name in columns.names) - 1_000


def _sizes(rows: pa.Table, columns: SinkColumns) -> pa.ChunkedArray:
    """An upper bound of each row's bytes as SQL: text may be all quotes, bytes are two digits each."""
    sizes = pa.scalar(0, pa.int64())
    for column in cell_columns(rows, columns):
        is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
        size = pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) if is_text else pa.scalar(0, pa.int64())
        sizes = pc.add(sizes, pc.add(pc.multiply(size, 2), _CELL_BYTES))
    return sizes


def _tuples(columns: Sequence[pa.ChunkedArray]) -> list[str]:
    """Rows as SQL, each in brackets."""
    joined = pc.binary_join_element_wise(*map(_literals, columns), ",")
    found: list[str] = pc.binary_join_element_wise("(", joined, ")", "").to_pylist()
    return found


def _batches(texts: Sequence[str], bytes_max: int, count_max: int | None = None) -> Iterator[str]:
    """Texts joined by commas, each batch of about a megabyte at most."""
    bytes_max = min(bytes_max, _STATEMENT_BYTES)
    gathered: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode()) + 1
        if gathered and (size + length > bytes_max or len(gathered) == count_max):
            yield ",".join(gathered)
            gathered, size = [], 0
        gathered.append(text)
        size += length
    yield ",".join(gathered)


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
