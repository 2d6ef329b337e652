"""The start of a capture: what the database is, what was captured before, and what has to be made.

Nothing is made before everything that can be refused is looked at. The publication is there before the slot, since the
stream looks it up as it was at each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mainstem.encodings.registration import register_topic
from mainstem.errors import AuthorizationError, ConfigError
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.postgres.captured_state import CapturedState, TableState
from mainstem.postgres.encoded_values import encoded_schema
from mainstem.postgres.rows import RESERVED, RowEncoder
from mainstem.postgres.server.catalog import (
    Server,
    SourceTable,
    Types,
    check_columns,
    check_server,
    find_table,
    has_values_out_of_line,
    warnings_of,
)
from mainstem.postgres.server.slot import check_slot, drop_slot, find_slot, make_slot, publish
from mainstem.postgres.topic_values import KeyIndexes
from mainstem.postgres.transaction_writer import TransactionWriter
from mainstem.schema.topic_schemas import SCHEMAS_TOPIC, SYSTEM_TOPIC_CONFIGS, lookup_all

if TYPE_CHECKING:
    from mainstem.client.log import Log

_MESSAGE_BYTES: Final = 32 << 20
_TOPIC_CONFIGS: Final = {"cleanup.policy": "compact", "max.message.bytes": str(_MESSAGE_BYTES)}


class CaptureStart:
    """One start of a capture. ``note`` gets warnings for the user, a line each."""

    def __init__(
        self,
        settings: CaptureSettings,
        log: Log,
        log_writer: TransactionWriter,
        indexes: KeyIndexes,
        connection: Any,
        note: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._log = log
        self._log_writer = log_writer
        self._indexes = indexes
        self._connection = connection
        self._note = note

    def run(self, *, again: bool) -> int:
        """Make all ready; the LSN where the stream goes on. With ``again`` from a new slot, with new snapshots.

        Raises ConfigError, DefinitionError and SchemaError with what to do, SlotLostError, DatabaseUnavailableError.
        """
        settings, connection = self._settings, self._connection
        server = check_server(connection)
        tables = {name: find_table(connection, name) for name in settings.tables}
        for name, table in tables.items():
            check_columns(name, [column.name for column in table.columns], RESERVED)
        for warning in warnings_of(connection):
            self._note(f"WARNING: {warning}")
        for topic in (PROGRESS_TOPIC, STATES_TOPIC, SCHEMAS_TOPIC):
            self._log.create_topic(topic, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
        try:
            self._log.create_topic(RUN_LOG_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
        except AuthorizationError as error:
            self._note(f"WARNING: mainstem pipelines log will not show this capture: {error}")
        state = self._log_writer.open()
        if state.lsn == 0 or again:
            state, lsn = self._from_the_beginning(state, server, tables, again=again)
        else:
            state, lsn = self._from_where_it_was(state, server, tables), state.lsn
        self._log_writer.state = state
        self._log_writer.commit(lsn)
        return lsn

    def _from_the_beginning(
        self, state: CapturedState, server: Server, tables: Mapping[TableName, SourceTable], *, again: bool
    ) -> tuple[CapturedState, int]:
        states = {str(name): self._new_table(table, state, again=again) for name, table in tables.items()}
        self._register_columns(tables, new=set(tables))
        drop_slot(self._connection, self._settings.slot)
        publish(self._connection, self._settings.slot, self._settings.tables)
        lsn = make_slot(self._connection, self._settings.slot)
        return replace(state, system_id=server.system_id, database=server.database, tables=states), lsn

    def _from_where_it_was(
        self, state: CapturedState, server: Server, tables: Mapping[TableName, SourceTable]
    ) -> CapturedState:
        settings = self._settings
        if (state.system_id, state.database) != (server.system_id, server.database):
            raise ConfigError(
                f"capture {settings.name} was begun with database {state.database} of another server: take another "
                "name, or take a new snapshot with --snapshot again"
            )
        check_slot(find_slot(self._connection, settings.slot), settings.slot, state.lsn, server.database)
        states: dict[str, TableState] = {}
        new: set[TableName] = set()
        for name, table in tables.items():
            known = state.tables.get(str(name))
            if known is not None and known.key != table.key:
                raise ConfigError(
                    f"the key of table {name} was ({', '.join(known.key)}) and is ({', '.join(table.key)}) now: take a"
                    " new snapshot with --snapshot again"
                )
            if known is not None and known.oid == table.oid:
                states[str(name)] = known
            else:  # it was added, or dropped and recreated
                new.add(name)
                states[str(name)] = self._new_table(table, state, again=known is not None)
        self._register_columns(tables, new=new)
        publish(self._connection, settings.slot, settings.tables)
        return replace(state, tables=states)

    def _register_columns(self, tables: Mapping[TableName, SourceTable], *, new: Set[TableName]) -> None:
        """Make the columns of tables the schemas of their topics: an empty table has no first row that would do it.

        The slot may have changes of a table from before its columns were altered. So its schema stays if it has one,
        but for tables that are ``new``, and the stream registers the later columns in their order.
        """
        settings = self._settings
        if settings.envelope != "row":
            return
        types, schemas = Types(self._connection), lookup_all(self._log)
        for name, table in tables.items():
            topic = settings.topic_of(name)
            if name in new or topic not in schemas:
                encoder = RowEncoder.of_table(table, types)
                columns = encoder.schema if settings.encoding is None else encoded_schema(encoder.schema)
                register_topic(self._log, topic, columns, encoder.key, settings.encoding)

    def _new_table(self, table: SourceTable, state: CapturedState, *, again: bool) -> TableState:
        """A table whose snapshot begins now, and its topic. Raises ConfigError for a topic with records of others."""
        topic = self._settings.topic_of(table.name)
        self._log.create_topic(topic, partitions=self._settings.partitions, configs=_TOPIC_CONFIGS, exist_ok=True)
        if table.identity != "f" and has_values_out_of_line(self._connection, table):
            self._indexes.need(topic)
        end = self._log.end(topic)
        if any(end.values()) and not again and topic not in state.sink.topics:
            raise ConfigError(
                f"topic {topic} exists and has records that are not of capture {self._settings.name}: delete it "
                f"(mainstem topics delete {topic}), or take another name for the capture"
            )
        return TableState(topic, table.key, table.oid, began_at=end)
