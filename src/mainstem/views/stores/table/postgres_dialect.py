"""PostgreSQL's SQL for a sink's table: rows come by COPY into a temporary table, and from there into the table."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mainstem.errors import StorageError
from mainstem.views.stores.store import Digest
from mainstem.views.stores.table.dialect import SWAP_LOCK_S, Dialect, FoundColumn, FoundTable, TablePlace, merging
from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted
from mainstem.views.stores.table.table_rows import DELETED, cell, cell_columns, where

if TYPE_CHECKING:
    from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns

_TYPES: Final = {
    "STRING": "text",
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp with time zone",
    "TIMESTAMP_NTZ": "timestamp without time zone",
    "BINARY": "bytea",
}
_STAGED: Final = "mainstem_batch"
_TEMPORARY: Final = quoted("pg_temp", _STAGED)
KEY_BYTES_MAX: Final = 2_600
"""A third of an index's page of 8 kB."""
_MODULUS: Final = 1 << 128
_NUL_IN_JSON: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_COLUMNS: Final = (
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull, atthasdef OR attidentity <> '', "
    "CASE WHEN NOT collisdeterministic THEN collname END FROM pg_attribute "
    "LEFT JOIN pg_collation c ON c.oid = attcollation "
    "WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"
)
_PRIMARY_KEY: Final = (
    "SELECT array_agg(attname::text ORDER BY attname) FROM pg_index JOIN pg_attribute "
    "ON attrelid = indrelid AND attnum = ANY(indkey) WHERE indrelid = {}::regclass AND indisprimary"
)
_DEPENDENTS: Final = (
    "SELECT DISTINCT CASE WHEN r.oid IS NOT NULL THEN 'view ' || r.ev_class::regclass::text "
    "ELSE 'constraint ' || c.conname || ' of ' || c.conrelid::regclass::text END FROM pg_depend d "
    "LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid AND r.ev_class <> d.refobjid "
    "LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid "
    "AND c.conrelid <> d.refobjid "
    "WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = {}::regclass AND coalesce(r.oid, c.oid) IS NOT NULL"
)
_SEQUENCES: Final = (
    "SELECT s.oid::regclass::text, a.attname FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' "
    "JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid WHERE d.deptype = 'a' "
    "AND d.classid = 'pg_class'::regclass AND d.refobjid = {}::regclass AND EXISTS (SELECT FROM pg_attribute b "
    "WHERE b.attrelid = {}::regclass AND b.attname = a.attname AND NOT b.attisdropped)"
)
_GRANTS: Final = (
    "SELECT coalesce(r.rolname, ''), a.privilege_type, a.is_grantable FROM pg_class c "
    "CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee "
    "WHERE c.oid = {}::regclass AND a.grantee <> c.relowner"
)


class PostgresDialect(Dialect):
    """The SQL of PostgreSQL 12 and newer."""

    product = "PostgreSQL"
    name_bytes_max = 63
    key_bytes_max = KEY_BYTES_MAX
    collation = '"C"'
    scratch = "UNLOGGED TABLE"
    like = "(LIKE {} INCLUDING ALL)"
    registry_columns = (
        "generation text PRIMARY KEY, name text NOT NULL, "
        "table_name text NOT NULL UNIQUE, is_serving boolean NOT NULL, sink text NOT NULL, topic text NOT NULL, "
        "topic_id text NOT NULL DEFAULT '', position text NOT NULL DEFAULT '', bookmark text NOT NULL, "
        "definition text NOT NULL, owner text NOT NULL DEFAULT '', written timestamptz NOT NULL DEFAULT now()"
    )

    # ---- columns and cells

    def sql_type(self, spark_type: str, key_width: int = 0) -> str:
        if spark_type.startswith("DECIMAL("):
            return f"numeric({spark_type[len('DECIMAL(') : -1]})"
        return _TYPES.get(spark_type, "jsonb")

    def key_text(self, column: SinkColumn, *, in_json: bool) -> str:
        name = quoted(column.name)
        return f"to_json({name})::text" if in_json and column.type in ("STRING", "DATE") else f"{name}::text"

    def faults(self, columns: SinkColumns, cells: Sequence[pa.Array]) -> dict[int, str]:
        return {
            index: f"{column.name} has the character U+0000, which PostgreSQL's text cannot hold"
            for column, made in zip(columns.columns, cells, strict=True)
            for index in _with_nul(made, column)
        }

    # ---- the catalog

    def exclude(self, cursor: Cursor, table: TablePlace) -> None:
        if table.schema:
            cursor.run("SELECT to_regnamespace({})::text", str(quoted(table.schema)))
        else:
            cursor.run("SELECT current_schema()::text")
        [schema] = cursor.row()
        if schema is None:
            named = f"schema {table.schema}" if table.schema else "the schema of the user's search_path"
            raise StorageError(f"{named} does not exist in the database: make it, or name the table as schema.table")
        cursor.run("SELECT pg_advisory_xact_lock(hashtext({}))", f"mainstem sinks {schema}")

    def exists(self, cursor: Cursor, table: TablePlace) -> bool:
        cursor.run("SELECT to_regclass({}) IS NOT NULL", str(table.sql))
        return bool(cursor.row()[0])

    def describe(self, cursor: Cursor, table: TablePlace) -> FoundTable:
        cursor.run(_COLUMNS, str(table.sql))
        found = cursor.rows()
        cursor.run(_PRIMARY_KEY, str(table.sql))
        key = cursor.row()[0] or []
        columns = {}
        for name, kind, is_required, has_default, collation in found:
            fault = merging(collation, "a deterministic one") if collation and name in key else None
            columns[name] = FoundColumn(kind, is_required, has_default, fault)
        return FoundTable(columns, key)

    def pin(self, cursor: Cursor, table: TablePlace) -> str | None:
        cursor.run("LOCK TABLE {} IN ACCESS SHARE MODE", table.sql)  # which takes no snapshot yet, as SELECT would
        return None

    def refuse_dependents(self, cursor: Cursor, table: TablePlace) -> None:
        """Raises StorageError when other objects need the very table, or when it is partitioned."""
        cursor.run("SELECT relkind FROM pg_class WHERE oid = {}::regclass", str(table.sql))
        if cursor.row()[0] != "r":
            raise StorageError(f"the table {table.name} is partitioned, so it cannot be replaced by another one")
        cursor.run(_DEPENDENTS, str(table.sql))
        if found := [each for (each,) in cursor.rows()]:
            raise StorageError(
                f"the table {table.name} cannot be replaced while other objects depend on it: "
                f"{', '.join(sorted(found))}; drop these, rebuild the sink, and make them again"
            )

    # ---- DDL

    def replace(self, cursor: Cursor, table: TablePlace, shadow: TablePlace, old: TablePlace) -> None:
        cursor.run("SET LOCAL lock_timeout = {}", f"{SWAP_LOCK_S}s")
        if self.exists(cursor, table):
            cursor.run(_GRANTS, str(table.sql))
            grants = cursor.rows()
            self._keep_sequences(cursor, table, shadow)
            cursor.run("DROP TABLE {}", table.sql)
            for role, privilege, is_grantable in grants:
                grantee = quoted(role) if role else Sql("PUBLIC")
                suffix = Sql(" WITH GRANT OPTION" * is_grantable)
                cursor.run("GRANT {} ON {} TO {}{}", Sql(privilege), shadow.sql, grantee, suffix)
        cursor.run("ALTER TABLE {} RENAME TO {}", shadow.sql, quoted(table.name))

    def _keep_sequences(self, cursor: Cursor, table: TablePlace, shadow: TablePlace) -> None:
        """Give the sequences of the table's own columns (``serial``) to the same columns of the shadow."""
        cursor.run(_SEQUENCES, str(table.sql), str(shadow.sql))
        for sequence, column in cursor.rows():
            owner = Sql(f"{shadow.sql}.{quoted(column)}")
            cursor.run("ALTER SEQUENCE {} OWNED BY {}", Sql(sequence), owner)

    # ---- rows

    def prepare(self, cursor: Cursor, columns: SinkColumns) -> None:
        typed = [f"{cell(number)} {column.sql_type}" for number, column in enumerate(columns.columns)]
        parts = listed([f"{DELETED} boolean", *typed])
        cursor.run("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DELETE ROWS", Sql(_STAGED), parts)

    def stage(self, cursor: Cursor, rows: pa.Table, columns: SinkColumns) -> None:
        copy = f"COPY pg_temp.{_STAGED} FROM STDIN WITH (FORMAT csv)"
        cursor.raw.copy_expert(copy, io.BytesIO(_as_csv(rows, columns)), 1 << 20)

    def merge(self, cursor: Cursor, table: TablePlace, rows: pa.Table, columns: SinkColumns) -> None:
        deleted = rows.column(DELETED)
        if pc.any(deleted).as_py():
            _delete(cursor, table, columns)
        if not pc.all(deleted).as_py():
            _upsert(cursor, table, columns)

    def digest(self, cursor: Cursor, table: TablePlace, columns: SinkColumns) -> Digest:
        cursor.run("SET LOCAL statement_timeout = 0")  # the whole table is read
        query = "SELECT count(*), coalesce(sum(hashtextextended(ROW({}, {})::text, 0)), 0) FROM {}"
        cursor.run(query, columns.identity_sql(), listed(map(quoted, columns.names)), table.sql)
        entries, checksum = cursor.row()
        return Digest(entries, int(checksum) % _MODULUS)


def _delete(cursor: Cursor, table: TablePlace, columns: SinkColumns) -> None:
    """Lock the rows in order, then delete them: a DELETE alone may take them in another order."""
    numbers = [cell(number) for number in columns.key_numbers]
    same = [f"t.{quoted(name)} = b.{number}" for name, number in zip(columns.key, numbers, strict=True)]
    condition = Sql(f"{listed(same, ' AND ')} AND b.{DELETED}")
    order = listed(f"b.{number}" for number in numbers)
    locking = "SELECT count(*) FROM (SELECT FROM {} t JOIN {} b ON {} ORDER BY {} FOR UPDATE OF t) locked"
    cursor.run(locking, table.sql, _TEMPORARY, condition, order)
    cursor.run("DELETE FROM {} t USING {} b WHERE {}", table.sql, _TEMPORARY, condition)


def _upsert(cursor: Cursor, table: TablePlace, columns: SinkColumns) -> None:
    others = [quoted(name) for name in columns.names if name not in columns.key]
    sets = listed(f"{name} = excluded.{name}" for name in others)
    # The rows were copied in the order of their keys, and a temporary table is read in the order of its rows.
    cursor.run(
        "INSERT INTO {} ({}) SELECT {} FROM {} WHERE NOT {} ON CONFLICT ({}) DO {}",
        table.sql,
        listed(map(quoted, columns.names)),
        listed(cell(number) for number in range(len(columns.names))),
        _TEMPORARY,
        Sql(DELETED),
        listed(map(quoted, columns.key)),
        Sql(f"UPDATE SET {sets}") if others else Sql("NOTHING"),
    )


def _as_csv(rows: pa.Table, columns: SinkColumns) -> pa.Buffer:
    """Rows as COPY reads them: ``deleted``, then the table's columns. Text is quoted, null is not."""
    made = {DELETED: rows.column(DELETED)}
    for number, column in enumerate(cell_columns(rows, columns)):
        made[cell(number)] = _in_csv(column)
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(made), sink, pyarrow.csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _in_csv(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_binary(column.type):
        texts = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    # The session's time zone is UTC.
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _with_nul(cells: pa.Array, column: SinkColumn) -> Sequence[int]:
    if column.sql_type == "text":
        return where(pc.match_substring(cells, "\0"))
    if column.sql_type != "jsonb":
        return ()
    maybe = where(pc.match_substring(cells, "\\u0000"))
    return [index for index in maybe if _NUL_IN_JSON.search(cells[index].as_py())]
