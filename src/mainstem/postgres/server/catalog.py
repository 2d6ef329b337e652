"""The catalog of a database: its server, its tables and its types. Refuses what cannot be captured.

Every refusal says what to do, if need be as the statement to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2 import sql

from mainstem.errors import ConfigError, DefinitionError, MachineError, MainstemError, UnavailableError
from mainstem.pipelines.definitions import TableName
from mainstem.postgres.server.column_types import SESSION, ColumnType, PostgresType, column_type
from mainstem.postgres_dsn import PostgresDsn

OLDEST: Final = 140_000
"""The oldest server: before version 14 pgoutput sends no messages, which snapshots need."""
_STATEMENT_MS: Final = 300_000
"""A chunk of a snapshot may have to sort its table, so it gets minutes."""
_LATER_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATEs that may pass: no connection, a deadlock, no room, in use (the slot), shut down or too slow."""
_REFUSED_WORDS: Final = ("password authentication failed", "no password supplied", "does not exist", "no pg_hba.conf")


class DatabaseUnavailableError(UnavailableError):
    """The database cannot be reached at present."""


class LoginRefusedError(ConfigError):
    """The server refuses the login, or has no such database."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its type in the topic's schema, and how its values become JSON."""

    name: str
    type_oid: int
    modifier: int
    dimensions: int
    is_out_of_line: bool
    """Whether its values may be stored out of line (TOAST)."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table that can be captured. ``key``: the columns of its primary key, or of the index of its identity."""

    oid: int
    name: TableName
    identity: str
    key: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    is_partitioned: bool = False


class Server(NamedTuple):
    """The server, by its own id, and the database."""

    system_id: str
    database: str


def connect(dsn: str, *, replication: bool = False) -> Any:
    """A connection whose statements are committed one by one, with the session's settings for values.

    Raises LoginRefusedError, ConfigError for a wrong DSN, DatabaseUnavailableError when it cannot be reached.
    """
    settings: dict[str, object] = {name: value for name, value in SESSION.items() if name != "client_encoding"}
    parameters: dict[str, Any] = {"client_encoding": SESSION["client_encoding"]}
    if replication:
        from psycopg2.extras import LogicalReplicationConnection

        parameters["connection_factory"] = LogicalReplicationConnection
    else:
        settings |= {"statement_timeout": _STATEMENT_MS, "synchronous_commit": "local"}
    named = PostgresDsn(dsn)
    try:
        connection = named.connect(settings, **parameters)
    except psycopg2.OperationalError as error:
        text = named.line(error)
        if any(word in text for word in _REFUSED_WORDS):
            raise LoginRefusedError(f"the database refuses the login: {text}") from error
        raise DatabaseUnavailableError(f"the database cannot be reached: {text}") from error
    if not replication:
        connection.autocommit = True
    return connection


def explained(error: Exception) -> MainstemError:
    """The error of a statement as one of ours: whether it may pass by itself, or not."""
    if isinstance(error, MainstemError):
        return error
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, psycopg2.errors.InsufficientPrivilege):
        return ConfigError(f"the database refuses: {text}; give the user this right")
    code = getattr(error, "pgcode", None)
    if code is None:
        return DatabaseUnavailableError(f"the database cannot be reached: {text}")
    if code[:2] in _LATER_CLASSES:
        return DatabaseUnavailableError(f"the database cannot do it at present: {text}")
    return MachineError(f"the database answered an error: {text}")


def rows_of(connection: Any, statement: Any, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """The rows of a statement. Raises ConfigError, DatabaseUnavailableError, MachineError."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description is not None else []
    except psycopg2.Error as error:
        raise explained(error) from error


def check_server(connection: Any) -> Server:
    """Which server it is. Raises ConfigError for one that cannot stream changes to this user, with what to do.

    Raises DatabaseUnavailableError for a standby: in a failover it may be promoted in a moment.
    """
    version = int(connection.server_version)
    if version < OLDEST:
        raise ConfigError(
            f"the server is PostgreSQL {version // 10_000}; changes can be captured from version {OLDEST // 10_000} on"
        )
    ((level, senders, is_allowed, user, is_standby),) = rows_of(
        connection,
        "SELECT current_setting('wal_level'), current_setting('max_wal_senders'), rolreplication OR rolsuper, rolname,"
        " pg_is_in_recovery() FROM pg_roles WHERE rolname = current_user",
    )
    if is_standby:
        raise DatabaseUnavailableError("the server is a standby; name the primary server, or promote this one")
    if level != "logical":
        raise ConfigError(
            f"wal_level is {level}, and changes are captured with logical only: run "
            "ALTER SYSTEM SET wal_level = logical, and restart the server"
        )
    if senders == "0":
        raise ConfigError(
            "max_wal_senders is 0, and a capture needs one of them: run ALTER SYSTEM SET max_wal_senders = 10, and "
            "restart the server"
        )
    if not is_allowed:
        raise ConfigError(f"user {user} may not replicate: run ALTER ROLE {user} REPLICATION")
    return server_of(connection)


def server_of(connection: Any) -> Server:
    """Which server and database a connection is to. Raises DatabaseUnavailableError."""
    return Server(
        *rows_of(connection, "SELECT system_identifier::text, current_database() FROM pg_control_system()")[0]
    )


def warnings_of(connection: Any) -> list[str]:
    """Warnings of settings that are allowed and may fill the database's disk, a line each."""
    ((kept,),) = rows_of(connection, "SELECT current_setting('max_slot_wal_keep_size')")
    if kept != "-1":
        return []
    return [
        "max_slot_wal_keep_size is not set: while the capture is stopped, the database keeps its log without a bound; "
        "run ALTER SYSTEM SET max_slot_wal_keep_size = '10GB' and SELECT pg_reload_conf()"
    ]


_TABLES: Final = """
SELECT c.oid, c.relkind, c.relreplident, c.relpersistence,
  (SELECT i.indexrelid FROM pg_index i
   WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate),
  (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident),
  has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS: Final = """
SELECT a.attname, a.atttypid, a.atttypmod, a.attndims, a.attstorage <> 'p', a.attgenerated <> ''
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_OUT_OF_LINE: Final = """
SELECT coalesce(sum(pg_relation_size(reltoastrelid)), 0)::bigint FROM pg_class WHERE reltoastrelid <> 0
AND oid = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree(%s)) || ARRAY[%s::oid])
"""
_KEY: Final = """
SELECT a.attname FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indexrelid = %s AND k.place <= i.indnkeyatts ORDER BY k.place
"""


def find_table(connection: Any, name: TableName) -> SourceTable:
    """A table as it is now. Raises ConfigError for one that cannot be captured, with what to do."""
    found = rows_of(connection, _TABLES, (name.schema, name.name))
    if not found:
        raise ConfigError(f"table {name} does not exist in the database; write it as the catalog has it, case included")
    ((oid, kind, identity, persistence, primary, of_identity, is_readable, is_filtered),) = found
    if kind not in ("r", "p"):
        raise ConfigError(f"{name} is not a table: views, sequences and foreign tables have no changes to capture")
    if persistence != "p":
        raise ConfigError(f"table {name} is not logged (UNLOGGED or TEMPORARY), so its changes cannot be captured")
    if not is_readable:
        raise ConfigError(f"the user may not read table {name}: run GRANT SELECT ON {_quoted(connection, name)} TO …")
    if is_filtered:
        raise ConfigError(
            f"row-level security hides rows of table {name} from the user: run ALTER ROLE … BYPASSRLS, or use its owner"
        )
    if identity == "n":
        raise ConfigError(
            f"table {name} has REPLICA IDENTITY NOTHING, so its changes do not say which row they change: run "
            f"ALTER TABLE {_quoted(connection, name)} REPLICA IDENTITY DEFAULT"
        )
    index = of_identity if identity == "i" else primary
    if index is None:
        raise ConfigError(
            f"table {name} has no primary key, or a DEFERRABLE one: add one, or run ALTER TABLE "
            f"{_quoted(connection, name)} REPLICA IDENTITY USING INDEX … with a unique index of NOT NULL columns"
        )
    key = tuple(column for (column,) in rows_of(connection, _KEY, (index,)))
    columns = [
        TableColumn(column, type_oid, modifier, dimensions, is_out_of_line)
        for column, type_oid, modifier, dimensions, is_out_of_line, is_generated in rows_of(
            connection, _COLUMNS, (oid,)
        )
        if not is_generated  # before version 18 PostgreSQL does not stream these
    ]
    if not set(key) <= {column.name for column in columns}:
        raise ConfigError(f"the key of table {name} has a generated column, whose changes PostgreSQL does not stream")
    return SourceTable(oid, name, identity, key, tuple(columns), is_partitioned=kind == "p")


def has_values_out_of_line(connection: Any, table: SourceTable) -> bool:
    """Whether a value of the table, or of a partition of it, is stored out of line (TOAST) now."""
    ((size,),) = rows_of(connection, _OUT_OF_LINE, (table.oid, table.oid))
    return int(size) > 0


def _quoted(connection: Any, name: TableName) -> str:
    return str(sql.Identifier(name.schema, name.name).as_string(connection))


class Types:
    """The types of a database by their oid, each asked for once. One thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._known: dict[int, PostgresType] = {}

    def find(self, oid: int) -> PostgresType:
        """A type; one that is gone is read as text."""
        known = self._known.get(oid)
        if known is None:
            known = self._known[oid] = self._ask(oid)
        return known

    def column(self, oid: int, modifier: int, dimensions: int = 1) -> ColumnType:
        """How a column of this type is kept. ``dimensions``: those that an array was declared with."""
        return column_type(self.find(oid), modifier, dimensions)

    def _ask(self, oid: int) -> PostgresType:
        found = rows_of(
            self._connection,
            "SELECT typname, typtype, typbasetype, typtypmod,"
            " CASE WHEN typcategory = 'A' AND typdelim = ',' THEN typelem ELSE 0 END FROM pg_type WHERE oid = %s",
            (oid,),
        )
        if not found:
            return PostgresType(oid, str(oid))
        ((name, kind, base, modifier, element),) = found
        return PostgresType(
            oid,
            name,
            kind,
            element=self.find(element) if element else None,
            base=self.find(base) if base else None,
            modifier=modifier,
        )


def check_columns(name: TableName, columns: Sequence[str], reserved: frozenset[str]) -> None:
    """Refuse names that a topic's schema cannot have. Raises DefinitionError."""
    seen: dict[str, str] = {}
    for column in columns:
        if column.lower() in reserved:
            raise DefinitionError(
                f"column {column!r} of table {name}: the name is taken by what readers add; rename it"
            )
        other = seen.setdefault(column.lower(), column)
        if other != column:
            raise DefinitionError(
                f"table {name} has columns {other!r} and {column!r}: a topic's columns do not differ by case alone; "
                "rename one"
            )
