"""The parts of a sink's work that each product says in its own SQL: types, the catalog, DDL, and how rows go in.

A ``Dialect`` has no state: it writes statements to a cursor, in the caller's transaction. In PostgreSQL and SQLite DDL
belongs to the transaction. In MariaDB it commits: there each step is safe to repeat, and the exchange of two tables is
one atomic step of the server (``pin``). `views.stores.table.sink_table` has the invariants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem.views.stores.store import Digest
    from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns


SWAP_LOCK_S: Final = 2
"""How long the exchange of two tables waits for readers."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table, and the schema that it is in: of the connection where ``schema`` is empty."""

    schema: str
    name: str

    @property
    def sql(self) -> Sql:
        """The quoted name."""
        return quoted(self.schema, self.name) if self.schema else quoted(self.name)

    def beside(self, name: str) -> TablePlace:
        """Another table of the same schema."""
        return TablePlace(self.schema, name)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column as the catalog has it. ``fault``: what it has that a sink's column may not have, whatever its type."""

    sql_type: str
    is_required: bool
    has_default: bool
    fault: str | None = None


def merging(collation: str, wanted: str) -> str:
    """The fault of a key column whose collation takes different texts for the same."""
    return f"has the collation {collation}, in which different keys may be equal: make it {wanted}"


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as the catalog has it: its columns, the names of its primary key, and why it cannot be a sink's."""

    columns: dict[str, FoundColumn]
    key: list[str]
    faults: tuple[str, ...] = ()


class ValueRefusedError(Exception):
    """Rows cannot be brought to the database, at any repeat: their indices, and why."""

    def __init__(self, rows: dict[int, str]) -> None:
        super().__init__(rows)
        self.rows = rows


class Dialect(ABC):
    """The SQL of one product."""

    product: ClassVar[str]
    """Its name, for errors."""
    name_bytes_max: ClassVar[int]
    key_bytes_max: ClassVar[int]
    """The longest key that every index of it holds."""
    registry_columns: ClassVar[str]
    """The columns of ``mainstem_sinks``."""
    collation: ClassVar[str]
    """The collation that orders text by its UTF-8 bytes."""
    scratch: ClassVar[str] = "TABLE"
    """The kind of table for a verification."""
    table_options: ClassVar[str] = ""
    like: ClassVar[str] = "LIKE {}"

    # ---- columns and cells

    @abstractmethod
    def sql_type(self, spark_type: str, key_width: int = 0) -> str:
        """The type of a column, as the catalog writes it; its canonical Spark SQL type.

        ``key_width``: how many columns the primary key has, if this is one of them.
        """

    @abstractmethod
    def key_text(self, column: SinkColumn, *, in_json: bool) -> str:
        """An SQL expression: a key column as `mainstem.schema.encoding` writes it, alone or as a part of JSON."""

    @abstractmethod
    def faults(self, columns: SinkColumns, cells: Sequence[pa.Array]) -> dict[int, str]:
        """The rows that the product's types cannot hold, by their indices, and why."""

    def read(self, column: SinkColumn, value: Any) -> Any:
        """A value of the column as the driver gave it, in Python's types."""
        return value

    # ---- the catalog

    @abstractmethod
    def exclude(self, cursor: Cursor, table: TablePlace) -> None:
        """Exclude other DDL of the schema's sinks until the transaction or the connection ends.

        Raises StorageError when the schema does not exist.
        """

    @abstractmethod
    def exists(self, cursor: Cursor, table: TablePlace) -> bool:
        """Whether the table is there."""

    @abstractmethod
    def describe(self, cursor: Cursor, table: TablePlace) -> FoundTable:
        """A table as the catalog has it."""

    # Where DDL belongs to the transaction, a snapshot holds the table and `mainstem_sinks` of one state.
    def pin(self, cursor: Cursor, table: TablePlace) -> str | None:
        """See that the table is not replaced until the transaction ends; the generation that it says it is of.

        None: ``mainstem_sinks`` alone says it. A reader's first statement.
        """
        return None

    def refuse_dependents(self, cursor: Cursor, table: TablePlace) -> None:  # noqa: B027
        """Raises StorageError when other objects need the very table, so that no other can take its place."""

    # ---- DDL

    def create(self, cursor: Cursor, table: TablePlace, columns: SinkColumns, what: str) -> None:
        """Make a table. ``what``: ``TABLE`` or ``scratch``."""
        parts = [
            Sql(f"{quoted(column.name)} {column.sql_type}{' NOT NULL' * column.is_required}")
            for column in columns.columns
        ]
        key = Sql(f"PRIMARY KEY ({listed(map(quoted, columns.key))})")
        cursor.run("CREATE {} {} ({}){}", Sql(what), table.sql, listed([*parts, key]), Sql(self.table_options))

    def create_like(self, cursor: Cursor, table: TablePlace, model: TablePlace) -> None:
        """Make a table with the columns, defaults and constraints of another one."""
        cursor.run("CREATE TABLE {} " + self.like, table.sql, model.sql)

    # Where `mainstem_sinks` alone says which table is of which generation, nothing is to be done.
    def mark(self, cursor: Cursor, table: TablePlace, generation: str) -> None:  # noqa: B027
        """Write into a table of which generation it is."""

    @abstractmethod
    def replace(self, cursor: Cursor, table: TablePlace, shadow: TablePlace, old: TablePlace) -> None:
        """Let ``shadow`` take the name of ``table``, which may be missing, with its indexes and grants.

        The table that had the name is dropped, or is ``old`` from then on. ``old`` may be missing afterwards.
        """

    # ---- rows

    # Where rows go into the table at once, nothing is to be done.
    def prepare(self, cursor: Cursor, columns: SinkColumns) -> None:  # noqa: B027
        """Make what ``stage`` needs, once for each connection."""

    def stage(self, cursor: Cursor, rows: pa.Table, columns: SinkColumns) -> None:  # noqa: B027
        """Bring rows (`views.stores.table.table_rows`) to the database, where it has a place for them.

        Raises ValueRefusedError.
        """

    @abstractmethod
    def merge(self, cursor: Cursor, table: TablePlace, rows: pa.Table, columns: SinkColumns) -> None:
        """Delete and upsert the rows that were staged, at least one, in the order of their keys.

        So two writers of a table, of which one is the user's, do not wait for each other in a circle.
        """

    @abstractmethod
    def digest(self, cursor: Cursor, table: TablePlace, columns: SinkColumns) -> Digest:
        """The digest of a table's rows."""
