"""The messages of logical replication that the plug-in ``pgoutput`` sends, protocol version 1, with values as text.

``streamed_transactions`` gives the messages of version 2 in this form. Format: PostgreSQL's documentation, "Logical
Replication Message Formats". Pure functions over one message's bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple

from mainstem.errors import MachineError

POSTGRES_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""
_KEY_COLUMN: Final = 1
_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")
_LOGICAL_MESSAGE: Final = struct.Struct(">BQ")
_LENGTH: Final = struct.Struct(">i")
_COUNT: Final = struct.Struct(">h")
_OID: Final = struct.Struct(">I")
_COLUMN: Final = struct.Struct(">Ii")
_TRUNCATE: Final = struct.Struct(">IB")


class Unchanged(Enum):
    """Stands for a value that is stored out of line (TOAST) and was not changed: the stream does not repeat it."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value = str | None | Literal[Unchanged.UNCHANGED]
"""A column's value: PostgreSQL's text, None for null, or UNCHANGED."""
Values = list[Value]


class Begin(NamedTuple):
    """A transaction begins; all of it follows. ``commit_us`` is microseconds since 1970."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """The transaction ends. ``end_lsn`` is where the log of the database goes on after it."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a relation; ``type_modifier`` is -1 where the type has none."""

    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the rows that follow have it. ``identity``: d (default), n (nothing), f (full) or i (index)."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class RowInsert(NamedTuple):
    """A new row."""

    relation: int
    new: Values


class RowUpdate(NamedTuple):
    """A changed row. ``old``: the row before (O), or the columns of its identity (K) when these changed; or None."""

    relation: int
    old_kind: str
    old: Values | None
    new: Values


class RowDelete(NamedTuple):
    """A row that is gone: the row before (O), or the columns of its identity (K)."""

    relation: int
    old: Values


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were emptied."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """A message that a program wrote into the stream by ``pg_logical_emit_message``."""

    prefix: str
    content: bytes


Message = Begin | Commit | Relation | RowInsert | RowUpdate | RowDelete | Truncate | LogicalMessage


def decode(payload: bytes) -> Message | None:
    """One message; None for those that say nothing about data (origins, types).

    Raises MachineError for bytes that are not a message of this protocol.
    """
    try:
        decoder = _DECODERS[payload[0]]
        return decoder(payload)
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise MachineError(f"the database sent a message that cannot be read: {payload[:40]!r}: {error!r}") from error


def _begin(payload: bytes) -> Begin:
    lsn, time_us, xid = _BEGIN.unpack_from(payload, 1)
    return Begin(lsn, time_us + POSTGRES_EPOCH_US, xid)


def _commit(payload: bytes) -> Commit:
    _, _, end_lsn, _ = _COMMIT.unpack_from(payload, 1)
    return Commit(end_lsn)


def _relation(payload: bytes) -> Relation:
    (oid,) = _OID.unpack_from(payload, 1)
    schema, at = _text(payload, 5)
    name, at = _text(payload, at)
    identity = chr(payload[at])
    (count,) = _COUNT.unpack_from(payload, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = payload[at]
        column, at = _text(payload, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(payload, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type_oid, modifier, bool(flags & _KEY_COLUMN)))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _insert(payload: bytes) -> RowInsert:
    (oid,) = _OID.unpack_from(payload, 1)
    new, _ = _tuple(payload, 6)
    return RowInsert(oid, new)


def _update(payload: bytes) -> RowUpdate:
    (oid,) = _OID.unpack_from(payload, 1)
    kind = chr(payload[5])
    if kind == "N":
        new, _ = _tuple(payload, 6)
        return RowUpdate(oid, "", None, new)
    old, at = _tuple(payload, 6)
    new, _ = _tuple(payload, at + 1)
    return RowUpdate(oid, kind, old, new)


def _delete(payload: bytes) -> RowDelete:
    (oid,) = _OID.unpack_from(payload, 1)
    old, _ = _tuple(payload, 6)
    return RowDelete(oid, old)


def _truncate(payload: bytes) -> Truncate:
    count, _ = _TRUNCATE.unpack_from(payload, 1)
    first = 1 + _TRUNCATE.size
    return Truncate(tuple(_OID.unpack_from(payload, first + 4 * number)[0] for number in range(count)))


def _logical_message(payload: bytes) -> LogicalMessage:
    at = 1 + _LOGICAL_MESSAGE.size
    prefix, at = _text(payload, at)
    (length,) = _LENGTH.unpack_from(payload, at)
    return LogicalMessage(prefix, payload[at + 4 : at + 4 + length])


def _nothing(_: bytes) -> None:
    return None


def _tuple(payload: bytes, at: int) -> tuple[Values, int]:
    """The values of a row, and where what follows begins."""
    (count,) = _COUNT.unpack_from(payload, at)
    at += 2
    size = len(payload)
    values: Values = []
    for _ in range(count):
        kind = payload[at]
        if kind == 0x74:  # t: text
            (length,) = _LENGTH.unpack_from(payload, at + 1)
            end = at + 5 + length
            if length < 0 or end > size:
                raise ValueError("a value ends after its message")
            values.append(payload[at + 5 : end].decode())
            at = end
            continue
        at += 1
        if kind == 0x6E:  # n: null
            values.append(None)
        elif kind == 0x75:  # u: unchanged
            values.append(UNCHANGED)
        else:
            raise ValueError(f"{chr(kind)!r} is not the kind of a value")
    return values, at


def _text(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(0, at)
    return payload[at:end].decode(), end + 1


_DECODERS: Final[dict[int, Callable[[bytes], Message | None]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
    ord("O"): _nothing,
    ord("Y"): _nothing,
}
