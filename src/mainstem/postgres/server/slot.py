"""The publication and the replication slot of a capture: made, compared, dropped.

The slot keeps the database's log from where the capture is. Losing it is losing changes, so a slot that is gone, lost,
or further than the log of Mainstem is an error that says so; it is never recreated in silence.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg2 import sql

from mainstem.errors import ConfigError, MachineError
from mainstem.model import lsn_text, parse_lsn
from mainstem.pipelines.definitions import TableName
from mainstem.postgres.server.catalog import rows_of

_SLOT: Final = """
SELECT plugin, database, active, confirmed_flush_lsn::text, wal_status, safe_wal_size,
  pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
  pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
FROM pg_replication_slots WHERE slot_name = %s
"""
_PUBLISHED: Final = """
SELECT n.nspname, c.relname, {} FROM pg_publication_rel r
JOIN pg_publication p ON p.oid = r.prpubid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %s
"""


_WHOLE: Final = sql.SQL("publish = 'insert, update, delete, truncate', publish_via_partition_root = true")
_RELEASED_WITHIN_S: Final = 3.0
_PAUSE_S: Final = 0.05
_FILTERS: Final = 150_000
"""From this version on a publication may leave rows and columns out."""


class SlotLostError(MachineError):
    """Changes are missing between the log and the database: only a new snapshot helps."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot. ``kept_bytes``: of the database's log that the slot keeps; ``lag_bytes``: not confirmed yet.

    ``status`` is PostgreSQL's ``wal_status``; ``safe_bytes`` how much more may be written until it is lost, if bounded.
    """

    plugin: str
    database: str
    is_active: bool
    confirmed_lsn: int
    status: str
    safe_bytes: int | None
    kept_bytes: int
    lag_bytes: int


def find_slot(connection: Any, slot: str) -> SlotState | None:
    """The slot as it is now; None when it does not exist."""
    found = rows_of(connection, _SLOT, (slot,))
    if not found:
        return None
    ((plugin, database, is_active, confirmed, status, safe, kept, lag),) = found
    return SlotState(
        plugin, database, is_active, parse_lsn(confirmed or "0/0"), status or "lost", safe, kept or 0, lag or 0
    )


def make_slot(connection: Any, slot: str) -> int:
    """Make the slot; from which LSN it has all changes. It waits for transactions that are open now."""
    ((used, most),) = rows_of(
        connection, "SELECT count(*), current_setting('max_replication_slots')::int FROM pg_replication_slots"
    )
    if used >= most:
        raise ConfigError(
            f"all {most} replication slots of the database are in use: drop one that nothing uses, or raise "
            "max_replication_slots and restart the server"
        )
    rows_of(connection, "SET statement_timeout = 0")
    ((lsn,),) = rows_of(connection, "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    rows_of(connection, "RESET statement_timeout")
    return parse_lsn(lsn)


def check_slot(found: SlotState | None, slot: str, lsn: int, database: str) -> None:
    """See that the slot has all changes from ``lsn`` on. Raises SlotLostError, ConfigError."""
    if found is None:
        raise SlotLostError(
            f"the replication slot {slot} is gone, and the changes since {lsn_text(lsn)} with it; {AGAIN}"
        )
    if found.plugin != "pgoutput" or found.database != database:
        raise ConfigError(
            f"the slot {slot} is of plug-in {found.plugin} in database {found.database}; take another name"
        )
    if found.status == "lost":
        raise SlotLostError(
            f"the replication slot {slot} is lost: the database has removed its log before it was captured, because "
            f"max_slot_wal_keep_size was reached; {AGAIN}"
        )
    if found.confirmed_lsn > lsn:
        raise SlotLostError(
            f"the replication slot {slot} stands at {lsn_text(found.confirmed_lsn)}, the log at {lsn_text(lsn)}: "
            f"another program has used the slot, or the log is an older copy; {AGAIN}"
        )


AGAIN: Final = "take a new snapshot with --snapshot again: it replaces the slot, and no row is lost or left over"
"""The advice when changes are missing."""


def publish(connection: Any, publication: str, tables: Sequence[TableName]) -> None:
    """Make the publication one of exactly these tables. Raises ConfigError, with the statement, if the user may not."""
    whole = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot FROM pg_publication"
    exists = rows_of(connection, f"{whole} WHERE pubname = %s", (publication,))
    name = sql.Identifier(publication)
    wanted = sql.SQL(", ").join(_only(connection, table) for table in tables)
    if not exists:
        _change(connection, sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH ({})").format(name, wanted, _WHOLE))
        return
    if not exists[0][0]:
        _change(connection, sql.SQL("ALTER PUBLICATION {} SET ({})").format(name, _WHOLE))
    filtered = "prqual IS NOT NULL OR prattrs IS NOT NULL" if connection.server_version >= _FILTERS else "false"
    found = rows_of(connection, _PUBLISHED.format(filtered), (publication,))
    if {TableName(schema, table) for schema, table, _ in found} != set(tables) or any(row[2] for row in found):
        _change(connection, sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(name, wanted))


def _only(connection: Any, table: TableName) -> sql.Composed:
    """The table, without those that inherit from it; a partitioned one with its partitions."""
    kind = rows_of(
        connection,
        "SELECT relkind FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s",
        (table.schema, table.name),
    )
    only = sql.SQL("" if kind == [("p",)] else "ONLY ")
    return only + sql.Identifier(table.schema, table.name)


def _change(connection: Any, statement: sql.Composed) -> None:
    try:
        rows_of(connection, statement)
    except ConfigError as error:
        text = statement.as_string(connection)
        raise ConfigError(f"{error}, or let the owner of the tables run: {text}") from error


def drop(connection: Any, slot: str) -> bool:
    """Drop the slot and the publication; whether there was a slot. Raises ConfigError while a capture uses it."""
    had_slot = drop_slot(connection, slot)
    rows_of(connection, sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(slot)))
    return had_slot


def drop_slot(connection: Any, slot: str) -> bool:
    """Drop the slot; whether there was one. The publication may be another user's. Raises ConfigError as ``drop``."""
    found, end_s = find_slot(connection, slot), time.monotonic() + _RELEASED_WITHIN_S
    while found is not None and found.is_active and time.monotonic() < end_s:
        time.sleep(_PAUSE_S)  # PostgreSQL releases the slot a moment after the capture has closed its connection
        found = find_slot(connection, slot)
    if found is not None:
        if found.is_active:
            raise ConfigError(f"the slot {slot} is in use: stop the capture first")
        rows_of(connection, "SELECT pg_drop_replication_slot(%s)", (slot,))
    return found is not None
