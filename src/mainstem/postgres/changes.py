"""Each kind of change that the stream brings, as records. Used by the capture's thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mainstem.errors import ConfigError
from mainstem.model import Position
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.postgres.encoded_values import TopicEncoding, left_over_of
from mainstem.postgres.rows import LEFT_OVER, RESERVED, RowEncoder, fields_of
from mainstem.postgres.server.catalog import Types, check_columns, rows_of
from mainstem.postgres.server.pgoutput import UNCHANGED, Relation, RowDelete, RowInsert, RowUpdate, Truncate, Values
from mainstem.postgres.table_writer import CapturedTable, TableWriter
from mainstem.postgres.topic_values import latest_value, live_keys
from mainstem.postgres.transaction_writer import TransactionWriter
from mainstem.schema.topic_schemas import register
from mainstem.schema.types import TopicSchema

if TYPE_CHECKING:
    from mainstem.client.log import Log

_LOG = logging.getLogger("mainstem.postgres")
_SHAPE: Final = "SELECT attname, attndims, attstorage <> 'p' FROM pg_attribute WHERE attrelid = %s AND attnum > 0"


class TableChanges:
    """Writes changes by ``writer``. ``connection`` is asked for types and columns only."""

    def __init__(
        self, settings: CaptureSettings, log: Log, log_writer: TransactionWriter, writer: TableWriter, connection: Any
    ) -> None:
        self._settings = settings
        self._log = log
        self._log_writer = log_writer
        self._writer = writer
        self._connection = connection
        self._types = Types(connection)
        self.tables: dict[int, CapturedTable] = {}
        """The tables that the stream has described, by their oid."""
        self.version = 0
        """Counts the changes of ``tables``."""
        self._left_out: set[int] = set()
        self._registered: dict[str, tuple[TopicSchema, tuple[str, ...]]] = {}
        """Of each topic the columns that were registered last, and those of its key."""
        self._values: dict[str, TopicEncoding] = {}

    def apply(self, change: RowInsert | RowUpdate | RowDelete | Truncate | Relation) -> None:
        """Write a change. Raises ConfigError, DefinitionError, and what the log raises."""
        match change:
            case Relation():
                self._relation(change)
            case Truncate():
                for relation in change.relations:
                    if relation not in self._left_out:
                        self._truncate(self.tables[relation])
            case _ if change.relation in self._left_out:
                pass
            case RowInsert():
                table = self.tables[change.relation]
                self._writer.write(table, table.encoder.key_of(change.new), change.new, "c")
            case RowUpdate():
                self._update(self.tables[change.relation], change)
            case RowDelete():
                self._delete(self.tables[change.relation], change)

    def _relation(self, relation: Relation) -> None:
        """A table as its next rows are: its first ones, or after a change of its columns."""
        name = TableName(relation.schema, relation.name)
        states = self._log_writer.state.tables
        state = states.get(str(name))
        former = next((each for each, known in states.items() if known.oid == relation.oid and each != str(name)), None)
        if former is not None:
            raise ConfigError(f"table {former} is called {name} now: name it so in the capture's tables")
        if state is None:  # a partition, whose rows come as those of its root; or a table that is not named any more
            self._left_out.add(relation.oid)
            return
        check_columns(name, [column.name for column in relation.columns], RESERVED)
        of_identity = {column.name for column in relation.columns if column.is_identity}
        if relation.identity != "f" and of_identity != set(state.key):
            raise ConfigError(
                f"the key of table {name} was ({', '.join(state.key)}), and changes now come by "
                f"({', '.join(sorted(of_identity))}): take a new snapshot with --snapshot again"
            )
        # As the columns are now, which may be later than the change: only what the message does not say.
        shape = {
            column: (dimensions, is_out_of_line)
            for column, dimensions, is_out_of_line in rows_of(self._connection, _SHAPE, (relation.oid,))
        }
        types = {
            each.name: self._types.column(each.type_oid, each.type_modifier, shape.get(each.name, (1, True))[0])
            for each in relation.columns
        }
        encoder = RowEncoder(name, types, state.key)
        leaves_out = relation.identity != "f" and any(shape.get(column, (1, True))[1] for column in types)
        table = self.tables[relation.oid] = CapturedTable(name, state.topic, encoder, leaves_out)
        self.version += 1
        window = self._writer.window_of(table)
        if window is not None:
            window.shapes.add(encoder.schema)
        self.register(state.topic, encoder)

    def register(self, topic: str, encoder: RowEncoder) -> None:
        """Make the columns the topic's schema, before rows with them are written. Raises SchemaError."""
        wanted = (encoder.schema, encoder.key)
        if self._settings.envelope != "row" or self._registered.get(topic) == wanted:
            return
        encoding = self._settings.encoding
        if encoding is None:
            register(self._log, topic, encoder.schema, encoder.key)
        else:
            values = self._values[topic] = TopicEncoding(self._log, topic, encoder.schema, encoder.key, encoding)
            self._log_writer.encode_values(topic, values)
        self._registered[topic] = wanted

    def _update(self, table: CapturedTable, update: RowUpdate) -> None:
        encoder, new, old = table.encoder, update.new, update.old
        before = None
        if old is not None:
            sent = zip(new, old, strict=True)
            new = [was if value is UNCHANGED and was is not None else value for value, was in sent]
            if UNCHANGED not in old:
                before = self._before(table, old)
        key = encoder.key_of(new)
        old_key = key if old is None else encoder.key_of(old)
        known: Mapping[str, str] | None = None
        if UNCHANGED in new:
            known = self._known_values(table, old_key, new)
            if known is None or not known.keys() >= set(encoder.unchanged(new)):
                if old_key != key:
                    self._writer.write(table, old_key, None, "d", before=before)
                self._update_unknown(table, old_key, key, new, is_captured=known is not None)
                return
        if old_key != key:  # as Debezium has it: the end of one row, and a new one
            self._writer.write(table, old_key, None, "d", before=before)
            self._writer.write(table, key, new, "c", known=known)
        else:
            whole = before if update.old_kind == "O" else None  # else it has the key's columns alone
            self._writer.write(table, key, new, "u", known=known, before=whole)

    def _before(self, table: CapturedTable, old: Values) -> str | None:
        return table.encoder.value(old) if self._settings.envelope == "debezium" else None

    def _known_values(self, table: CapturedTable, key: bytes, new: Values) -> Mapping[str, str] | None:
        """The JSON of the row's columns, from its latest record; None where it has none.

        A value that stands beside the row is put into ``new``, as its text.
        """
        is_open, value = self._writer.open_values.find(table.topic, key)
        if not is_open:
            state = self._log_writer.state.tables[str(table.name)]
            since = Position() if state.is_done else state.began_at  # older ones were of a slot that was lost
            self._writer.indexes.need(table.topic)
            value = latest_value(self._log, table.topic, key, since)
            if value is not None and table.topic in self._values:
                value = self._values[table.topic].row_of(value)
            self._writer.open_values.remember(table.topic, key, value)
        if not value:
            return None
        fields = fields_of(value.decode())
        if self._settings.envelope == "debezium":
            after = fields.get("after", "null")
            fields = {} if after == "null" else fields_of(after)
        beside = left_over_of(fields.get(LEFT_OVER))
        for place, name in enumerate(table.encoder.names):
            if new[place] is UNCHANGED and name in beside:
                new[place] = str(beside[name])
        return fields

    def _update_unknown(
        self, table: CapturedTable, old_key: bytes, key: bytes, new: Values, *, is_captured: bool
    ) -> None:
        """A change that leaves values out which the topic does not have: a snapshot will read the row.

        One is under way, or begins now: a column of large values was renamed, or records of the topic were deleted.
        """
        state = self._log_writer.state.tables[str(table.name)]
        window = self._writer.window_of(table)
        if is_captured or state.is_done or old_key != key:  # a snapshot may have read beyond the new key already
            columns = ", ".join(table.encoder.unchanged(new))
            _LOG.warning("table %s is read again: its topic has no value of column %s", table.name, columns)
            self._writer.read_again(table.name, state)
        elif window is not None:  # else a later chunk reads the row
            window.change_partly(key, table.encoder.schema, new)

    def _delete(self, table: CapturedTable, delete: RowDelete) -> None:
        before = None if UNCHANGED in delete.old else self._before(table, delete.old)
        self._writer.write(table, table.encoder.key_of(delete.old), None, "d", before=before)

    def _truncate(self, table: CapturedTable) -> None:
        """A tombstone for each key that has a value."""
        captured = self._log_writer.state
        state = captured.tables[str(table.name)]
        for key in live_keys(self._log, table.topic, self._writer.open_values, since=state.emptied_at):
            self._writer.write(table, key, None, "d")
        # The open transaction writes after this place. It commits the tombstones and the place together.
        emptied = replace(state, emptied_at=captured.sink.restrict([table.topic]))
        self._log_writer.state = captured.with_table(str(table.name), emptied)
        window = self._writer.window_of(table)
        if window is not None:
            window.is_emptied = True
            window.partial.clear()
