"""The tables of one sink in the database, and the position of each, in ``mainstem_sinks`` beside them.

A sink's content is a **generation**: a table with a row in ``mainstem_sinks``. One generation serves: it has the name
that the App declares. A rebuild fills another one beside it, a shadow, which then takes its place; a verification fills
one that no reader sees and drops it. The row holds the generation's bookmark, so a transaction that changes rows
changes their position with them. Invariants:

1. *One serves.* Which one is decided by the database alone, in one step; a kill leaves the one or the other. Where DDL
   belongs to the transaction, ``mainstem_sinks`` says which. Elsewhere the table itself does
   (``Dialect.pin``), and ``begin`` corrects the rows after a kill.
2. *One writes.* ``take`` writes a new name into the row; a transaction of the writer before fails. ``promote`` takes
   the generation that served away from its writer before the tables are exchanged. Names are numbered, so a writer can
   tell one that came after it from a database that went back to one before it.
3. *Nothing is left out.* ``move`` goes from the very position that the writer knows, or fails.
4. *Not ours, not touched.* A table that no row names is taken only when it is empty and has the columns and the primary
   key of the topic, by a rebuild too. It may have other columns, indexes and grants.

All functions work in the caller's transaction, on a cursor of it. DDL of one sink excludes other DDL of the same.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from mainstem.errors import StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SINKS_TABLE
from mainstem.views.stores.store import Bookmark, StoreRewoundError
from mainstem.views.stores.table.dialect import FoundColumn, TablePlace
from mainstem.views.stores.table.statements import Cursor, Sql, quoted
from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns


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
        self.table = TablePlace(schema, name)
        self.name = name
        self.columns = columns
        self._dialect = columns.dialect
        self._registry = TablePlace(schema, SINKS_TABLE)
        self._sink = sink
        self._topic = topic

    def shadow(self, generation: str) -> TablePlace:
        """The table of a generation that does not serve."""
        return self.table.beside(f"{self.name}__ms_{generation[:8]}")

    # ---- rows of mainstem_sinks

    def begin(self, cursor: Cursor) -> None:
        """Exclude other DDL of this schema's sinks until the transaction ends, and make ``mainstem_sinks``.

        Raises StorageError when the schema does not exist.
        """
        self._dialect.exclude(cursor, self.table)
        if not self._dialect.exists(cursor, self._registry):
            columns = Sql(self._dialect.registry_columns)
            cursor.run("CREATE TABLE {} ({}){}", self._registry.sql, columns, Sql(self._dialect.table_options))
        self._correct_rows(cursor)

    def _correct_rows(self, cursor: Cursor) -> None:
        """Let the rows say which generation serves, where a kill came between the exchange and their change."""
        found = self.generations(cursor)
        if not found or not self._dialect.exists(cursor, self.table):
            return
        serving = self._dialect.pin(cursor, self.table)
        if any(each.id == serving and not each.is_serving for each in found):
            for each in found:
                if each.is_serving:
                    self.drop(cursor, Generation(each.id, self.shadow(each.id).name, False, "", ""))
            self._let_serve(cursor, str(serving))

    def generations(self, cursor: Cursor) -> list[Generation]:
        """Every generation of the table that the App names."""
        query = "SELECT generation, table_name, is_serving, topic, definition FROM {} WHERE name = {}"
        cursor.run(query, self._registry.sql, self.name)
        return [Generation(row[0], row[1], bool(row[2]), *row[3:]) for row in cursor.rows()]

    def has_table(self, cursor: Cursor, generation: Generation) -> bool:
        """Whether a generation's table is there: where DDL commits, a kill may have left its row alone."""
        return self._dialect.exists(cursor, self.table.beside(generation.table))

    def take(self, cursor: Cursor, generation: str) -> tuple[str, Bookmark]:
        """Become the writer of a generation: the name to write under, and the bookmark.

        Raises ViewStoppedError when the generation is gone.
        """
        cursor.run("SELECT bookmark, owner FROM {} WHERE generation = {}", self._registry.sql, generation)
        text, before = self._row(cursor)
        owner = f"{_turn(before) + 1}-{uuid.uuid4().hex}"
        cursor.run("UPDATE {} SET owner = {} WHERE generation = {}", self._registry.sql, owner, generation)
        return owner, Bookmark.from_text(text)

    def read_bookmark(self, cursor: Cursor, generation: str) -> Bookmark:
        """The bookmark of a generation. Raises ViewStoppedError when it is gone."""
        cursor.run("SELECT bookmark FROM {} WHERE generation = {}", self._registry.sql, generation)
        return Bookmark.from_text(self._row(cursor)[0])

    def see(self, cursor: Cursor, generation: str | None) -> tuple[TablePlace, Bookmark]:
        """A generation's table and bookmark, in the first statements of a transaction; None: what serves.

        The table cannot be replaced from here to the transaction's end, so what is read of it belongs to the bookmark.
        """
        table = self.table if generation is None else self.shadow(generation)
        pinned = self._dialect.pin(cursor, table)
        found = generation or pinned
        if found is None:
            query = "SELECT bookmark FROM {} WHERE name = {} AND table_name = {}"
            cursor.run(query, self._registry.sql, self.name, table.name)
            return table, Bookmark.from_text(self._row(cursor)[0])
        return table, self.read_bookmark(cursor, found)

    def move(self, cursor: Cursor, generation: str, owner: str, before: Bookmark, after: Bookmark) -> None:
        """Write the bookmark of a generation in place of ``before``. Locks the row: another writer waits.

        Raises ViewStoppedError when another writer took the generation, StoreRewoundError when the database has another
        position.
        """
        query = (
            "UPDATE {} SET bookmark = {}, position = {}, topic_id = {}, written = CURRENT_TIMESTAMP "
            "WHERE generation = {} AND owner = {} AND position = {} AND topic_id = {}"
        )
        cursor.run(query, self._registry.sql, after.to_text(), *_place(after), generation, owner, *_place(before))
        if cursor.changed == 1:
            return
        cursor.run("SELECT position, owner FROM {} WHERE generation = {}", self._registry.sql, generation)
        position, found = self._row(cursor)
        if found != owner and _turn(found) >= _turn(owner):
            raise ViewStoppedError(
                f"another process has taken over the table {self.name}: let one process keep it, and start its host "
                "again"
            )
        raise StoreRewoundError(
            f"the database has lost commits: the table {self.name} went back from {before.position} to {position}; the "
            "sink goes on from there"
        )

    # ---- generations

    def create_serving(self, cursor: Cursor, generation: str) -> None:
        """Make the table that serves, or take an empty one of the user's. Raises StorageError for any other."""
        if self._dialect.exists(cursor, self.table):
            self._check_users_table(cursor)
        else:
            self._dialect.create(cursor, self.table, self.columns, "TABLE")
        self._dialect.mark(cursor, self.table, generation)
        self._insert(cursor, generation, self.name, is_serving=True)

    def create_shadow(self, cursor: Cursor, generation: str, *, is_scratch: bool) -> None:
        """Make a table beside the one that serves; like that one, if it can hold the topic.

        ``is_scratch``: of a verification; it does not survive a crash of the server. Raises StorageError when the table
        that serves could not be replaced.
        """
        dialect, shadow = self._dialect, self.shadow(generation)
        has_model = not is_scratch and bool(self._replaceable(cursor)) and dialect.exists(cursor, self.table)
        if has_model:
            dialect.refuse_dependents(cursor, self.table)
        self._insert(cursor, generation, shadow.name, is_serving=False)
        cursor.run("DROP TABLE IF EXISTS {}", shadow.sql)  # a kill may have left one, where DDL commits
        if has_model and not self._faults(cursor):
            dialect.create_like(cursor, shadow, self.table)
        else:
            dialect.create(cursor, shadow, self.columns, dialect.scratch if is_scratch else "TABLE")

    def promote(self, cursor: Cursor, generation: str) -> None:
        """Let a shadow take the place of the table that serves."""
        serving = self._replaceable(cursor)
        for other in serving:
            self.take(cursor, other)
        old = self.shadow(serving[0] if serving else "")
        self._dialect.mark(cursor, self.shadow(generation), generation)
        self._dialect.replace(cursor, self.table, self.shadow(generation), old)
        for other in serving:
            self.drop(cursor, Generation(other, old.name, False, "", ""))
        self._let_serve(cursor, generation)

    def drop(self, cursor: Cursor, generation: Generation) -> None:
        """Drop a generation that does not serve."""
        cursor.run("DROP TABLE IF EXISTS {}", self.table.beside(generation.table).sql)
        cursor.run("DELETE FROM {} WHERE generation = {}", self._registry.sql, generation.id)

    def check_serving(self, cursor: Cursor, serving: Generation) -> None:
        """See that the table that serves is there and is the App's; add the columns that the topic has got since.

        Raises ViewStoppedError, which says what differs.
        """
        if serving.topic != self._topic:
            raise ViewStoppedError(
                f"the table {self.name} is kept in step with topic {serving.topic}, not with {self._topic}: name "
                "another table, or rebuild the sink"
            )
        if not self._dialect.exists(cursor, self.table):
            raise ViewStoppedError(f"the table {self.name} was dropped: rebuild the sink")
        if serving.definition != self.columns.to_text():
            self._grow(cursor, serving)
        if faults := self._faults(cursor):
            raise ViewStoppedError(
                f"the table {self.name} was changed by another program: {'; '.join(faults)}: rebuild the sink"
            )

    def _grow(self, cursor: Cursor, serving: Generation) -> None:
        stored, wanted = json.loads(serving.definition), self.columns.to_json()
        before = stored["columns"]
        added = [column for column in wanted["columns"] if column not in before]
        is_growth = stored["key"] == wanted["key"] and all(column in wanted["columns"] for column in before)
        if not is_growth or any(is_required for *_, is_required in added):
            raise ViewStoppedError(
                f"the columns of the table {self.name} changed since it was made "
                f"({_shown(stored)} → {_shown(wanted)}): rebuild the sink"
            )
        there = self._dialect.describe(cursor, self.table).columns
        for name, sql_type, _ in added:
            if name not in there:
                cursor.run("ALTER TABLE {} ADD COLUMN {} {}", self.table.sql, quoted(name), Sql(sql_type))
        query = "UPDATE {} SET definition = {} WHERE generation = {}"
        cursor.run(query, self._registry.sql, self.columns.to_text(), serving.id)

    # ---- how

    def _replaceable(self, cursor: Cursor) -> list[str]:
        """The generation that serves, in a list. Where none does, an empty table of the user's becomes one.

        Raises StorageError for a table of the user's that has rows or other columns.
        """
        serving = [each.id for each in self.generations(cursor) if each.is_serving]
        if not serving and self._dialect.exists(cursor, self.table):
            serving = [uuid.uuid4().hex]
            self.create_serving(cursor, serving[0])
        return serving

    def _row(self, cursor: Cursor) -> tuple[str, ...]:
        """The row of a generation that was asked for. Raises ViewStoppedError when it is gone."""
        row: tuple[str, ...] | None = cursor.row()
        if row is None:
            raise ViewStoppedError(
                f"the row of the table {self.name} in {SINKS_TABLE} is gone: start the sink's host again"
            )
        return row

    def _let_serve(self, cursor: Cursor, generation: str) -> None:
        query = "UPDATE {} SET is_serving = {}, table_name = {} WHERE generation = {}"
        cursor.run(query, self._registry.sql, True, self.name, generation)

    def _insert(self, cursor: Cursor, generation: str, table: str, *, is_serving: bool) -> None:
        query = (
            "INSERT INTO {} (generation, name, table_name, is_serving, sink, topic, bookmark, definition) "
            "VALUES ({}, {}, {}, {}, {}, {}, {}, {})"
        )
        names = (generation, self.name, table, is_serving, self._sink, self._topic)
        cursor.run(query, self._registry.sql, *names, Bookmark().to_text(), self.columns.to_text())

    def _check_users_table(self, cursor: Cursor) -> None:
        """Raises StorageError unless the table of the user's is empty and can hold the topic."""
        faults = self._faults(cursor)
        cursor.run("SELECT 1 FROM {} LIMIT 1", self.table.sql)
        if cursor.rows():
            faults.append("it has rows, which no sink wrote")
        if faults:
            raise StorageError(
                f"the table {self.name} is there and cannot be the sink's: {'; '.join(faults)}; name another table, or "
                "drop this one"
            )

    def _faults(self, cursor: Cursor) -> list[str]:
        """Why the table of the sink's name cannot hold the topic."""
        table = self._dialect.describe(cursor, self.table)
        found = table.columns
        faults = [fault for column in self.columns.columns if (fault := _fault(column, found.get(column.name)))]
        for name in sorted(found.keys() - set(self.columns.names)):
            if found[name].is_required and not found[name].has_default:
                faults.append(f"its column {name} is NOT NULL without a default")
        if sorted(table.key) != sorted(self.columns.key):
            faults.append(f"its primary key is ({', '.join(table.key)}), not ({', '.join(self.columns.key)})")
        return [*faults, *table.faults]


def _turn(owner: str) -> int:
    """How many writers a generation has had up to this one."""
    number, _, _ = owner.partition("-")
    return int(number) if number.isdecimal() else 0


def _place(bookmark: Bookmark) -> tuple[str, str]:
    """A bookmark's position and topic ids, as the rows have them."""
    return str(bookmark.position), ", ".join(bookmark.topic_ids.values())


def _fault(column: SinkColumn, found: FoundColumn | None) -> str | None:
    if found is None:
        return f"it has no column {column.name}"
    if found.sql_type != column.sql_type:
        return f"its column {column.name} is {found.sql_type}, not {column.sql_type}"
    if found.fault is not None:
        return f"its column {column.name} {found.fault}"
    return f"its column {column.name} is NOT NULL" if found.is_required and not column.is_required else None


def _shown(definition: dict[str, Any]) -> str:
    columns = ", ".join(f"{name} {kind}{' NOT NULL' * required}" for name, kind, required in definition["columns"])
    return f"{columns}; key {', '.join(definition['key'])}"[:300]
