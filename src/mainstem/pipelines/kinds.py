"""The kinds of view that an App can declare: plain frozen definitions, without the stores that serve them.

A view is an index over one topic. Its kind says which questions it answers; `mainstem.views` holds one store for each.

What every kind has:

* ``kind``: its name; ``columns``: the topic's columns that it needs to find.
* ``reads``: the parts of a record that it reads beside key, value, partition and offset, which every view needs.
* ``fault``: the fault of the definition, for the error that names the user's line; None when it is valid.
* ``document()``: the definition as JSON. It is stored with the view's data: when the document differs from the stored
  one, the view needs a rebuild. So a default that is added later stays out of the document, and a function is in it as
  a digest of its code (`pipelines.function_digest`).

A new kind joins ``Kind`` and declares what is true of it; `views.stores.store_kinds` finds its store by its name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeAlias, get_args

from mainstem.pipelines.folds import Fold, document_of, fault_of, place_of
from mainstem.pipelines.metric_names import name_fault

BUCKETS: Final = (0.0, *(float(f"{digit}e{power}") for power in range(-3, 6) for digit in ("1", "2.5", "5")))
"""The default upper bounds of histograms: 0, and 1, 2.5 and 5 from a thousandth to 500,000."""
_BUCKETS_MAX: Final = 200
_MINUTES_MAX: Final = 1_440
_LABELS_MAX: Final = 10_000
_SINKS_PREFIX: Final = "mainstem_"
SINKS_TABLE: Final = f"{_SINKS_PREFIX}sinks"
"""The table beside a sink's own in which its position stands."""
_TABLE_BYTES_MAX: Final = 45  # PostgreSQL's names have 63 bytes; a table that is being built has a longer name


@dataclass(frozen=True)
class _KindOfView:
    """The defaults of every kind: it needs only key and value. Kinds that need more override them."""

    kind: ClassVar[str]
    store: ClassVar[str | None] = None
    """The name of its store, where it is not the kind's."""
    has_keyed_changes: ClassVar[bool] = False
    """Whether a stream of its changes says which keys changed."""
    keeps_every_record: ClassVar[bool] = False
    """Whether it is an archive: records as they are, also after the log has removed them."""
    deletes_rows: ClassVar[bool] = True
    """Whether a tombstone deletes the row of its key; otherwise it is a record as any other."""
    depends_on_schema: ClassVar[bool] = False
    """Whether its store is laid out by the topic's columns: with other columns it needs a rebuild."""
    entries_without_records: ClassVar[str | None] = None
    """The prefix of entries that need no record: a sample compares them even if no record explains them."""
    verified_in_background: ClassVar[bool] = True
    """Whether the view host verifies a share of its keys all the time; not where that loads another server."""

    @property
    def needs_schema(self) -> bool:
        """Whether the store needs the topic's schema."""
        return bool(self.numbers)

    @property
    def needs_every_record(self) -> bool:
        """Whether a row is made of many records, so that a replay of only the latest ones gives a different row."""
        return False

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must be numbers."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The topic's columns that this kind needs to find."""
        return ()

    @property
    def reads(self) -> frozenset[str]:
        """The parts of a record that this kind reads beside key, value, partition and offset."""
        return frozenset()

    @property
    def fault(self) -> str | None:
        """The fault of the definition; None when it is valid."""
        return None

    def document(self) -> dict[str, Any]:
        """The definition as JSON."""
        return {"kind": self.kind, **{each.name: getattr(self, each.name) for each in fields(self)}}

    def difference(self, stored: Mapping[str, Any]) -> str | None:
        """Name the change since the ``stored`` document was written; None where the documents themselves show it."""
        return None


@dataclass(frozen=True)
class KeyValue(_KindOfView):
    """The latest value of each key, or, with ``fold``, what a function makes of all its records: get, ranges, prefixes.

    Args:
        fold: Called for each record of a key, in order, with the state before it and the record (``ms.FoldRecord``). It
            returns the state after it, any JSON value, or None to delete the key. See `pipelines.folds`.
        initial: The state before the first record of a key, JSON.
    """

    kind: ClassVar[str] = "key-value"
    has_keyed_changes: ClassVar[bool] = True
    fold: Fold | None = None
    initial: Any = field(default=None, hash=False)

    @property
    def needs_every_record(self) -> bool:
        return self.fold is not None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.fold is None else frozenset({"timestamp", "headers"})

    @property
    def fault(self) -> str | None:
        return fault_of(self.fold, self.initial)

    def document(self) -> dict[str, Any]:
        folding = {} if self.fold is None else document_of(self.fold, self.initial)
        return {"kind": self.kind, **folding}

    def difference(self, stored: Mapping[str, Any]) -> str | None:
        if self.fold is None or "fold" not in stored:
            return None
        before, now = stored["fold"], self.document()["fold"]
        if before["python"] != now["python"]:
            versions = f"Python {before['python']}, now {now['python']}"
            return f"its fold {place_of(self.fold)} may have changed: it was built by {versions}"
        return (
            f"its fold {place_of(self.fold)} has changed since it was built" if before["code"] != now["code"] else None
        )


@dataclass(frozen=True)
class SQL(_KindOfView):
    """A table under the view's name, typed from the topic's schema; any SELECT."""

    kind: ClassVar[str] = "sql"
    needs_schema: ClassVar[bool] = True
    depends_on_schema: ClassVar[bool] = True


@dataclass(frozen=True, init=False)
class Search(_KindOfView):
    """Full text over columns of the topic.

    Args:
        fields: Names of the columns, one or more.
    """

    kind: ClassVar[str] = "search"
    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.fields

    @property
    def fault(self) -> str | None:
        return None if self.fields else 'say which fields to search, e.g. Search("name", "city")'


@dataclass(frozen=True, kw_only=True)
class Graph(_KindOfView):
    """One edge for each record: neighbors and paths.

    Args:
        source: The column with the name of the node where the edge begins.
        target: The column with the name of the node where it ends.
    """

    kind: ClassVar[str] = "graph"
    entries_without_records: ClassVar[str | None] = "edge "
    source: str
    target: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.source, self.target)


@dataclass(frozen=True)
class Lake(_KindOfView):
    """An archive of every record in Parquet files, an Iceberg table: any SELECT, and any Parquet reader."""

    kind: ClassVar[str] = "lake"
    keeps_every_record: ClassVar[bool] = True
    deletes_rows: ClassVar[bool] = False
    needs_schema: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"headers", "timestamp", "timestamp_type"})


@dataclass(frozen=True, kw_only=True)
class Metrics(_KindOfView):
    """Figures of the records, each of which counts once: how many, and of ``values`` sum, extremes and distribution.

    Args:
        by: Columns; figures are kept for each combination of their values.
        values: Columns of numbers.
        buckets: Upper bounds of the histograms, 1 to 200, in rising order.
        minutes: For how many of the latest minutes, by the records' own time, the rate is kept; 0 to 1,440.
        labels_max: The most combinations, 1 to 10,000; records of more are counted together.
    """

    kind: ClassVar[str] = "metrics"
    deletes_rows: ClassVar[bool] = False
    needs_every_record: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"timestamp"})
    by: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = BUCKETS
    minutes: int = 60
    labels_max: int = 1_000

    def __post_init__(self) -> None:
        for name in ("by", "values"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        object.__setattr__(self, "buckets", tuple(float(bound) for bound in self.buckets))

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.values

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, *self.values)

    @property
    def fault(self) -> str | None:
        if list(self.buckets) != sorted(set(self.buckets)) or not all(map(math.isfinite, self.buckets)):
            return "buckets= are finite upper bounds in rising order; the last bucket, without a bound, comes by itself"
        if not self.buckets or len(self.buckets) > _BUCKETS_MAX:
            return f"buckets= are 1 to {_BUCKETS_MAX} upper bounds"
        if not 0 <= self.minutes <= _MINUTES_MAX:
            return f"minutes={self.minutes}: the rate is kept for 0 to {_MINUTES_MAX} minutes"
        if not 1 <= self.labels_max <= _LABELS_MAX:
            return f"labels_max={self.labels_max}: it has to be from 1 to {_LABELS_MAX}"
        return name_fault(self.by, self.values)


@dataclass(frozen=True)
class SinkKind(_KindOfView):
    """A table of a foreign database that is kept in step with the topic: `App.sink` declares it.

    ``table``: ``table``, or ``schema.table`` where the database has schemas.
    """

    store: ClassVar[str] = "table"
    needs_schema: ClassVar[bool] = True
    verified_in_background: ClassVar[bool] = False
    table: str = field(default="", kw_only=True)

    @property
    def fault(self) -> str | None:
        parts = self.table.split(".") if isinstance(self.table, str) else []
        if not 1 <= len(parts) <= 2 or not all(parts):
            return f'table={self.table!r}: name the table, e.g. table="orders" or table="shop.orders"'
        if any(len(part.encode()) > _TABLE_BYTES_MAX or "\0" in part for part in parts):
            return f"table={self.table!r}: a table's or schema's name has at most {_TABLE_BYTES_MAX} bytes"
        if parts[-1].lower().startswith(_SINKS_PREFIX):
            return f"table={self.table!r}: names that begin with {_SINKS_PREFIX} are the sinks' own; choose another"
        return None

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "table": self.table}


@dataclass(frozen=True)
class _ServerKind(SinkKind):
    dsn: str | None = field(default=None, repr=False)

    @property
    def fault(self) -> str | None:
        return super().fault or (None if self.dsn is None or isinstance(self.dsn, str) else "dsn= is a text, or None")


@dataclass(frozen=True)
class Postgres(_ServerKind):
    """A table of a PostgreSQL database.

    Args:
        dsn: libpq's connection string or URL; the environment variable ``MAINSTEM_POSTGRES_DSN`` unless given. It may
            hold a password, so it is in no text form of the definition.
        table: ``table``, or ``schema.table``.
    """

    kind: ClassVar[str] = "postgres"


@dataclass(frozen=True)
class MariaDB(_ServerKind):
    """A table of a MariaDB database.

    Args:
        dsn: ``mariadb://USER:PASSWORD@HOST:PORT/DATABASE``; the environment variable ``MAINSTEM_MARIADB_DSN`` unless
            given.
        table: ``table``, or ``database.table``.
    """

    kind: ClassVar[str] = "mariadb"


@dataclass(frozen=True)
class SQLite(SinkKind):
    """A table of an SQLite file.

    Args:
        path: The file; it is created when it is missing.
        table: The table's name.
    """

    kind: ClassVar[str] = "sqlite"
    path: str | os.PathLike[str] = ""

    @property
    def fault(self) -> str | None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path) or "\0" in os.fspath(self.path):
            return f'path={self.path!r}: name the file, e.g. SQLite("shop.db", table="orders")'
        if os.fspath(self.path) == ":memory:":
            return "path=':memory:': a database in memory is seen by no other connection; name a file"
        if "." in self.table:
            return f"table={self.table!r}: a database of SQLite has no schemas; name the table alone"
        return super().fault


Sink: TypeAlias = Postgres | MariaDB | SQLite
Kind: TypeAlias = KeyValue | SQL | Search | Graph | Metrics | Lake | Sink
KINDS: Final[tuple[type, ...]] = get_args(Kind)
"""Every kind, for ``isinstance``."""
SINKS: Final[tuple[type[SinkKind], ...]] = get_args(Sink)
"""The kinds whose store is a table of a foreign database."""
SINK_NAMES: Final[tuple[str, ...]] = tuple(kind.kind for kind in SINKS)
