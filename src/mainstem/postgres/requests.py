"""Requests to a capture: to read a table again, and to end for good.

A request to read a table again is a message of ``pg_logical_emit_message`` with the prefix ``SLOT.snapshot`` and a
table's name. So it needs no connection to the capture, and it waits in the slot while the capture is stopped. The
capture commits the state that a request makes together with the position after it: a request is served once, over any
kill.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.client.log import Log
from mainstem.errors import ConfigError, DefinitionError, InputError, UnknownTopicError
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, keys_of
from mainstem.pipelines.definitions import CaptureSettings, TableName
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.postgres.captured_state import capture_key, read_state
from mainstem.postgres.server.catalog import Server, connect, rows_of, server_of
from mainstem.postgres.server.pgoutput import LogicalMessage
from mainstem.postgres.server.slot import drop

_SUFFIX = ".snapshot"
_TABLE_BYTES_MAX = 1_024
"""Two quoted names of PostgreSQL have fewer."""


def requested_table(message: LogicalMessage, settings: CaptureSettings) -> TableName | None:
    """The table of a request to this capture; None for another message.

    Raises DefinitionError for a table that is none of the capture's.
    """
    if message.prefix != settings.slot + _SUFFIX:
        return None
    if len(message.content) > _TABLE_BYTES_MAX:
        raise DefinitionError(f"it has {len(message.content)} bytes, and a table's name has fewer")
    table = TableName.parse(message.content.decode(errors="replace").strip())
    if table not in settings.tables:
        names = ", ".join(map(str, settings.tables))
        raise DefinitionError(f"table {table} is not of capture {settings.name}; its tables are {names}")
    return table


def request_snapshots(log: Log, name: str, dsn: str, tables: Sequence[str]) -> tuple[str, ...]:
    """Ask a capture to read tables again, without tables all of them; their names.

    Raises InputError for a capture or a table that the log does not know, ConfigError for another database,
    DatabaseUnavailableError, LogUnavailableError.
    """
    state = read_state(log, name)
    if not state.tables:
        raise InputError(f"the log has no capture {name!r}: mainstem connect status lists them")
    wanted = tuple(dict.fromkeys(str(TableName.parse(table)) for table in tables)) or tuple(state.tables)
    unknown = next((table for table in wanted if table not in state.tables), None)
    if unknown is not None:
        raise InputError(f"table {unknown} is not of capture {name}; its tables are {', '.join(state.tables)}")
    slot = CaptureSettings.of(name, dsn, wanted).slot
    connection = connect(dsn)
    try:
        if server_of(connection) != Server(state.system_id, state.database):
            raise ConfigError(
                f"capture {name} reads database {state.database} of another server or database than this DSN names"
            )
        for table in wanted:
            rows_of(connection, "SELECT pg_logical_emit_message(true, %s, %s::text)", (slot + _SUFFIX, table))
    finally:
        connection.close()
    return wanted


def drop_capture(settings: CaptureSettings, log: Log) -> bool:
    """Drop the slot, the publication, and the records of the capture; whether there was a slot. Topics stay.

    Raises ConfigError while the capture runs, DatabaseUnavailableError, LogUnavailableError.
    """
    connection = connect(settings.dsn)
    try:
        had_slot = drop(connection, settings.slot)
    finally:
        connection.close()
    name = settings.name
    for topic, key in ((PROGRESS_TOPIC, name), (PROGRESS_TOPIC, capture_key(name)), (STATES_TOPIC, name)):
        try:
            log.append(topic, None, key=key)
        except UnknownTopicError:  # it has never run against this log
            continue
    if entries := keys_of(log, name):
        log.append_many(RUN_LOG_TOPIC, [(key, None) for key in entries])
    return had_slot
