"""The tables of one sink in the database, and the position of each, in ``mainstem_sinks`` beside them.

A sink's content is a **generation**: a table with a row in ``mainstem_sinks``. One generation serves: it has the name
that the App declares. A rebuild fills another one beside it, a shadow, which then takes its place; a verification fills
one that no reader sees and drops it. The row holds the generation's bookmark, so a transaction that changes rows
changes their position with them. Invariants:

1. *One serves.* Which one is decided by the database alone, in one transaction; a kill leaves the one or the other.
2. *One writes.* ``take`` writes the caller's name into the row; a transaction of anyone who took it before fails.
3. *Not ours, not touched.* A table that no row names is taken only when it is empty and has the columns and the primary
   key of the topic. It may have other columns, indexes and grants.

All functions work in the caller's transaction, on a cursor of it. DDL of one sink excludes other DDL of the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.errors import StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SINKS_TABLE
from mainstem.views.stores.postgres.database import run
from mainstem.views.stores.postgres.table_columns import SinkColumn, SinkColumns, quoted
from mainstem.views.stores.store import Bookmark

try:
    from psycopg2 import sql
except ImportError:  # `database` says so
    sql = None

_SWAP_LOCK_MS: Final = 2_000
_REGISTRY: Final = (
    "CREATE TABLE IF NOT EXISTS {} (generation text PRIMARY KEY, name text NOT NULL, "
    "table_name text NOT NULL UNIQUE, is_serving boolean NOT NULL, sink text NOT NULL, topic text NOT NULL, "
    "topic_id text NOT NULL DEFAULT '', position text NOT NULL DEFAULT '', bookmark text NOT NULL, "
    "definition text NOT NULL, owner text NOT NULL DEFAULT '', written timestamptz NOT NULL DEFAULT now())"
)
_COLUMNS: Final = (
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull, atthasdef OR attidentity <> '' "
    "FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"
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


@dataclass(frozen=True, slots=True)
class Generation:
    """A table of a sink: its row in ``mainstem_sinks``."""

    id: str
    table: str
    is_serving: bool
    topic: str
    definition: str


class SinkTable:
    """The generations of one sink. Stateless but for the names; safe from any thread."""

    def __init__(self, sink: str, topic: str, table: str, columns: SinkColumns) -> None:
        schema, _, name = table.rpartition(".")
        self.schema = schema
        self.name = name
        self.columns = columns
        self._sink = sink
        self._topic = topic

    # ---- names

    def identifier(self, table: str) -> Any:
        """A table of the sink's schema as a quoted name."""
        return sql.Identifier(self.schema, table) if self.schema else sql.Identifier(table)

    @property
    def registry(self) -> Any:
        """``mainstem_sinks`` as a quoted name."""
        return self.identifier(SINKS_TABLE)

    def shadow_name(self, generation: str) -> str:
        """The name of a generation's table before it serves."""
        return f"{self.name}__ms_{generation[:8]}"

    # ---- rows of mainstem_sinks

    def begin(self, cursor: Any) -> None:
        """Exclude other DDL of this schema's sinks until the transaction ends, and make ``mainstem_sinks``.

        Raises StorageError when the schema does not exist.
        """
        if self.schema:
            run(cursor, "SELECT to_regnamespace({})::text", quoted(self.schema))
        else:
            run(cursor, "SELECT current_schema()::text")
        [schema] = cursor.fetchone()
        if schema is None:
            named = f"schema {self.schema}" if self.schema else "the schema of the user's search_path"
            raise StorageError(f"{named} does not exist in the database: make it, or name the table as schema.table")
        run(cursor, "SELECT pg_advisory_xact_lock(hashtext({}))", f"mainstem sinks {schema}")
        if not self._exists(cursor, SINKS_TABLE):
            run(cursor, _REGISTRY, self.registry)

    def generations(self, cursor: Any) -> list[Generation]:
        """Every generation of the table that the App names."""
        query = "SELECT generation, table_name, is_serving, topic, definition FROM {} WHERE name = {}"
        run(cursor, query, self.registry, self.name)
        return [Generation(*row) for row in cursor.fetchall()]

    def take(self, cursor: Any, generation: str, owner: str) -> Bookmark:
        """Become the writer of a generation; its bookmark. Raises ViewStoppedError when it is gone."""
        query = "UPDATE {} SET owner = {} WHERE generation = {} RETURNING bookmark"
        run(cursor, query, self.registry, owner, generation)
        return self._bookmark(cursor)

    def read_table(self, cursor: Any, generation: str) -> tuple[str, Bookmark]:
        """The name of a generation's table, and its bookmark. Raises ViewStoppedError when it is gone."""
        run(cursor, "SELECT table_name, bookmark FROM {} WHERE generation = {}", self.registry, generation)
        name, bookmark = self._row(cursor)
        return str(name), Bookmark.from_text(bookmark)

    def see(self, cursor: Any, generation: str | None) -> tuple[str, Bookmark]:
        """As ``read_table``, in the first statements of a transaction that sees one state; None: what serves.

        The table cannot be replaced from here to the transaction's end, so what is read of it belongs to the bookmark.
        """
        name = self.name if generation is None else self.shadow_name(generation)
        run(cursor, "LOCK TABLE {} IN ACCESS SHARE MODE", self.identifier(name))
        query = "SELECT table_name, bookmark FROM {} WHERE name = {} AND table_name = {}"
        run(cursor, query, self.registry, self.name, name)
        found, bookmark = self._row(cursor)
        return str(found), Bookmark.from_text(bookmark)

    def move(self, cursor: Any, generation: str, owner: str, bookmark: Bookmark) -> str:
        """Write the bookmark of a generation; the name of its table. Locks the row: another writer waits.

        Raises ViewStoppedError when another writer took the generation.
        """
        query = (
            "UPDATE {} SET bookmark = {}, position = {}, topic_id = {}, written = now() "
            "WHERE generation = {} AND owner = {} RETURNING table_name"
        )
        ids = ", ".join(bookmark.topic_ids.values())
        state = (bookmark.to_text(), str(bookmark.position), ids)
        run(cursor, query, self.registry, *state, generation, owner)
        row = cursor.fetchone()
        if row is None:
            raise ViewStoppedError(
                f"another process has taken over the table {self.name}, or its row in {SINKS_TABLE} was deleted: "
                "let one process keep it, and start its host again"
            )
        return str(row[0])

    # ---- generations

    def create_serving(self, cursor: Any, generation: str) -> None:
        """Make the table that serves, or take an empty one of the user's. Raises StorageError for any other."""
        if self._exists(cursor, self.name):
            self._check_users_table(cursor)
        else:
            self._create(cursor, self.name, "TABLE")
        self._insert(cursor, generation, self.name, is_serving=True)

    def create_shadow(self, cursor: Any, generation: str, *, is_scratch: bool) -> None:
        """Make a table beside the one that serves; like that one, if it can hold the topic.

        ``is_scratch``: of a verification; it does not survive a crash of the server. Raises StorageError when the table
        that serves could not be replaced.
        """
        name = self.shadow_name(generation)
        has_served = any(each.is_serving for each in self.generations(cursor)) and self._exists(cursor, self.name)
        if has_served and not is_scratch:
            self._refuse_dependents(cursor)
        if has_served and not is_scratch and not self._faults(cursor):
            run(cursor, "CREATE TABLE {} (LIKE {} INCLUDING ALL)", self.identifier(name), self.identifier(self.name))
        else:
            self._create(cursor, name, "UNLOGGED TABLE" if is_scratch else "TABLE")
        self._insert(cursor, generation, name, is_serving=False)

    def promote(self, cursor: Any, generation: str) -> None:
        """Let a shadow take the place of the table that serves, with that one's grants."""
        run(cursor, "SET LOCAL lock_timeout = {}", _SWAP_LOCK_MS)
        shadow, target = self.identifier(self.shadow_name(generation)), self.identifier(self.name)
        if self._exists(cursor, self.name):
            grants = self._grants(cursor)
            self._keep_sequences(cursor, self.shadow_name(generation))
            run(cursor, "DROP TABLE {}", target)
            for grantee, privilege, suffix in grants:
                run(cursor, "GRANT {} ON {} TO {}{}", sql.SQL(privilege), shadow, grantee, sql.SQL(suffix))
        run(cursor, "DELETE FROM {} WHERE name = {} AND is_serving", self.registry, self.name)
        run(cursor, "ALTER TABLE {} RENAME TO {}", shadow, sql.Identifier(self.name))
        query = "UPDATE {} SET is_serving = true, table_name = {} WHERE generation = {}"
        run(cursor, query, self.registry, self.name, generation)

    def drop(self, cursor: Any, generation: Generation) -> None:
        """Drop a generation that does not serve."""
        run(cursor, "DROP TABLE IF EXISTS {}", self.identifier(generation.table))
        run(cursor, "DELETE FROM {} WHERE generation = {}", self.registry, generation.id)

    def check_serving(self, cursor: Any, serving: Generation) -> None:
        """See that the table that serves is there and is the App's; add the columns that the topic has got since.

        Raises ViewStoppedError, which says what differs.
        """
        if serving.topic != self._topic:
            raise ViewStoppedError(
                f"the table {self.name} is kept in step with topic {serving.topic}, not with {self._topic}: name "
                "another table, or rebuild the sink"
            )
        if not self._exists(cursor, self.name):
            raise ViewStoppedError(f"the table {self.name} was dropped: rebuild the sink")
        if serving.definition != self.columns.to_text():
            self._grow(cursor, serving)
        if faults := self._faults(cursor):
            raise ViewStoppedError(
                f"the table {self.name} was changed by another program: {'; '.join(faults)}: rebuild the sink"
            )

    def _grow(self, cursor: Any, serving: Generation) -> None:
        stored, wanted = json.loads(serving.definition), self.columns.to_json()
        before = stored["columns"]
        added = [column for column in wanted["columns"] if column not in before]
        is_growth = stored["key"] == wanted["key"] and all(column in wanted["columns"] for column in before)
        if not is_growth or any(is_required for *_, is_required in added):
            raise ViewStoppedError(
                f"the columns of the table {self.name} changed since it was made "
                f"({_shown(stored)} → {_shown(wanted)}): rebuild the sink"
            )
        for name, sql_type, _ in added:
            query = "ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}"
            run(cursor, query, self.identifier(self.name), sql.Identifier(name), sql.SQL(sql_type))
        query = "UPDATE {} SET definition = {} WHERE generation = {}"
        run(cursor, query, self.registry, self.columns.to_text(), serving.id)

    # ---- how

    def _text(self, table: str) -> str:
        return f"{quoted(self.schema)}.{quoted(table)}" if self.schema else quoted(table)

    def _bookmark(self, cursor: Any) -> Bookmark:
        return Bookmark.from_text(self._row(cursor)[0])

    def _row(self, cursor: Any) -> Any:
        row = cursor.fetchone()
        if row is None:
            raise ViewStoppedError(
                f"the row of the table {self.name} in {SINKS_TABLE} is gone: start the sink's host again"
            )
        return row

    def _exists(self, cursor: Any, table: str) -> bool:
        run(cursor, "SELECT to_regclass({}) IS NOT NULL", self._text(table))
        return bool(cursor.fetchone()[0])

    def _insert(self, cursor: Any, generation: str, table: str, *, is_serving: bool) -> None:
        query = (
            "INSERT INTO {} (generation, name, table_name, is_serving, sink, topic, bookmark, definition) "
            "VALUES ({}, {}, {}, {}, {}, {}, {}, {})"
        )
        names = (generation, self.name, table, is_serving, self._sink, self._topic)
        run(cursor, query, self.registry, *names, Bookmark().to_text(), self.columns.to_text())

    def _create(self, cursor: Any, name: str, what: str) -> None:
        columns = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(column.name), sql.SQL(column.sql_type), sql.SQL(" NOT NULL" * column.is_required)
            )
            for column in self.columns.columns
        ]
        key = sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, self.columns.key)))
        parts = sql.SQL(", ").join([*columns, key])
        run(cursor, "CREATE {} {} ({})", sql.SQL(what), self.identifier(name), parts)

    def _check_users_table(self, cursor: Any) -> None:
        """Raises StorageError unless the table of the user's is empty and can hold the topic."""
        faults = self._faults(cursor)
        run(cursor, "SELECT EXISTS (SELECT FROM {})", self.identifier(self.name))
        if cursor.fetchone()[0]:
            faults.append("it has rows, which no sink wrote")
        if faults:
            raise StorageError(
                f"the table {self.name} is there and cannot be the sink's: {'; '.join(faults)}; name another table, or "
                "drop this one"
            )

    def _faults(self, cursor: Any) -> list[str]:
        """Why the table of the sink's name cannot hold the topic."""
        run(cursor, _COLUMNS, self._text(self.name))
        found = {name: (kind, required, has_default) for name, kind, required, has_default in cursor.fetchall()}
        faults = [fault for column in self.columns.columns if (fault := _fault(column, found.get(column.name)))]
        for name in sorted(found.keys() - set(self.columns.names)):
            if found[name][1:] == (True, False):
                faults.append(f"its column {name} is NOT NULL without a default")
        run(cursor, _PRIMARY_KEY, self._text(self.name))
        key = cursor.fetchone()[0] or []
        if sorted(key) != sorted(self.columns.key):
            faults.append(f"its primary key is ({', '.join(key)}), not ({', '.join(self.columns.key)})")
        return faults

    def _refuse_dependents(self, cursor: Any) -> None:
        """Raises StorageError when other objects need the very table that serves, or when it is partitioned."""
        run(cursor, "SELECT relkind FROM pg_class WHERE oid = {}::regclass", self._text(self.name))
        if cursor.fetchone()[0] != "r":
            raise StorageError(f"the table {self.name} is partitioned, so it cannot be replaced by another one")
        run(cursor, _DEPENDENTS, self._text(self.name))
        if found := [each for (each,) in cursor.fetchall()]:
            raise StorageError(
                f"the table {self.name} cannot be replaced while other objects depend on it: "
                f"{', '.join(sorted(found))}; drop these, rebuild the sink, and make them again"
            )

    def _keep_sequences(self, cursor: Any, shadow: str) -> None:
        """Give the sequences of the table's own columns (``serial``) to the same columns of the shadow."""
        run(cursor, _SEQUENCES, self._text(self.name), self._text(shadow))
        for sequence, column in cursor.fetchall():
            owner = sql.SQL(".").join([self.identifier(shadow), sql.Identifier(column)])
            run(cursor, "ALTER SEQUENCE {} OWNED BY {}", sql.SQL(sequence), owner)

    def _grants(self, cursor: Any) -> list[tuple[Any, str, str]]:
        """The grants on the table that serves: to whom, what, and what follows."""
        run(cursor, _GRANTS, self._text(self.name))
        return [
            (sql.Identifier(role) if role else sql.SQL("PUBLIC"), privilege, " WITH GRANT OPTION" * is_grantable)
            for role, privilege, is_grantable in cursor.fetchall()
        ]


def _fault(column: SinkColumn, found: Sequence[Any] | None) -> str | None:
    if found is None:
        return f"it has no column {column.name}"
    kind, is_required, _ = found
    if kind != column.sql_type:
        return f"its column {column.name} is {kind}, not {column.sql_type}"
    return f"its column {column.name} is NOT NULL" if is_required and not column.is_required else None


def _shown(definition: dict[str, Any]) -> str:
    columns = ", ".join(f"{name} {kind}{' NOT NULL' * required}" for name, kind, required in definition["columns"])
    return f"{columns}; key {', '.join(definition['key'])}"[:300]
