"""Large transactions that the server streams before they commit (protocol 2), kept on disk until they do.

Without streaming the server keeps a large transaction itself until its commit. With it the transaction comes in blocks,
between other transactions, as soon as it is larger than ``logical_decoding_work_mem``. The changes of each are appended
to a file of its own. At its commit they are read again, in pieces of bounded size, in the form of protocol 1: a
beginning, the changes, an end. At its abort the file is closed.

The files have no name: the operating system removes them when they are closed or their process ends in any way. So no
start finds files of an earlier one. After a start the server sends each transaction again whose commit was not
confirmed.

Contract: memory does not grow with a transaction's changes, only with its rolled-back subtransactions and its tables.
Used by one thread.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from mainstem.errors import MachineError

_START, _STOP, _COMMIT, _ABORT = b"SEcA"
_INSERT, _UPDATE, _DELETE, _TRUNCATE, _RELATION, _LOGICAL_MESSAGE = b"IUDTRM"
_CHANGES: Final = frozenset((_INSERT, _UPDATE, _DELETE))
_KEPT: Final = frozenset((*_CHANGES, _TRUNCATE, _RELATION, _LOGICAL_MESSAGE))
_XID: Final = struct.Struct(">I")
_XIDS: Final = struct.Struct(">II")
_STREAM_COMMIT: Final = struct.Struct(">IBQQq")
_BEGIN: Final = struct.Struct(">cQqI")
_END: Final = struct.Struct(">cBQQq")
_ENTRY: Final = struct.Struct(">II")
"""Before each change in a file: its subtransaction, and its length."""
_TRUNCATED: Final = struct.Struct(">IB")
_PIECE_BYTES: Final = 256 << 10
_BUFFER_BYTES: Final = 64 << 10

Payloads = Sequence[bytes]


@dataclass(slots=True)
class _Spilled:
    """One transaction that has not ended. ``aborted``: its subtransactions that were rolled back."""

    file: IO[bytes]
    aborted: set[int] = field(default_factory=set)


class StreamedTransactions:
    """Takes the messages of protocol 2 and gives those of protocol 1. A context manager, which closes the files."""

    def __init__(self) -> None:
        """It has no files before the first block."""
        self._spilled: dict[int, _Spilled] = {}
        self._block: _Spilled | None = None
        self._relations: dict[int, bytes] = {}
        """Tables that only rolled-back changes have needed so far: the server does not describe them again."""

    def __enter__(self) -> StreamedTransactions:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._spilled.values():
            each.file.close()
        self._spilled.clear()

    @property
    def is_inside(self) -> bool:
        """Whether a block has begun and not ended."""
        return self._block is not None

    @property
    def count(self) -> int:
        """How many transactions wait for their end."""
        return len(self._spilled)

    def take(self, payloads: Payloads) -> Iterator[list[bytes]]:
        """The messages of whole transactions among these, and those that end with them, in pieces of bounded size.

        Raises MachineError for messages that cannot be, and when the disk does not take or give a change.
        """
        try:
            yield from self._take(payloads)
        except OSError as error:
            where = tempfile.gettempdir()
            raise MachineError(
                f"a large transaction cannot be kept in {where}: {error}; TMPDIR names another directory"
            ) from error
        except (struct.error, IndexError, KeyError) as error:
            raise MachineError(f"the database sent a message of a stream that cannot be read: {error!r}") from error

    def _take(self, payloads: Payloads) -> Iterator[list[bytes]]:
        passed: list[bytes] = []
        for payload in payloads:
            kind = payload[0]
            if self._block is not None:
                self._in_block(self._block, kind, payload)
            elif kind == _START:
                self._start(_XID.unpack_from(payload, 1)[0])
            elif kind == _ABORT:
                self._abort(*_XIDS.unpack_from(payload, 1))
            elif kind == _COMMIT:
                yield passed
                passed = []
                yield from self._commit(payload)
            else:
                passed += self._described(kind, payload)
        yield passed

    def _start(self, xid: int) -> None:
        found = self._spilled.get(xid)
        if found is None:
            file = tempfile.TemporaryFile(prefix="mainstem-capture-", buffering=_BUFFER_BYTES)  # noqa: SIM115
            found = self._spilled[xid] = _Spilled(file)
        self._block = found

    def _in_block(self, block: _Spilled, kind: int, payload: bytes) -> None:
        if kind == _STOP:
            self._block = None
        elif kind in _KEPT:
            (xid,) = _XID.unpack_from(payload, 1)
            block.file.write(_ENTRY.pack(xid, len(payload) - _XID.size) + payload[:1] + payload[1 + _XID.size :])

    def _abort(self, xid: int, subxid: int) -> None:
        if xid == subxid:
            found = self._spilled.pop(xid, None)
            if found is not None:
                found.file.close()
        elif xid in self._spilled:
            self._spilled[xid].aborted.add(subxid)

    def _commit(self, payload: bytes) -> Iterator[list[bytes]]:
        xid, flags, commit_lsn, end_lsn, time_us = _STREAM_COMMIT.unpack_from(payload, 1)
        spilled = self._spilled.pop(xid)
        with spilled.file:
            piece = [_BEGIN.pack(b"B", commit_lsn, time_us, xid)]
            size = 0
            for change in self._kept_changes(spilled):
                piece.append(change)
                size += len(change)
                if size >= _PIECE_BYTES:
                    yield piece
                    piece, size = [], 0
            piece.append(_END.pack(b"C", flags, commit_lsn, end_lsn, time_us))
            yield piece

    def _kept_changes(self, spilled: _Spilled) -> Iterator[bytes]:
        """The changes that were not rolled back, each table described before its first one."""
        for xid, payload in _entries(spilled.file):
            kind = payload[0]
            if kind == _RELATION:  # for later changes too when its own were rolled back: the server sends it once
                self._relations[_XID.unpack_from(payload, 1)[0]] = payload
            elif xid not in spilled.aborted:
                yield from self._described(kind, payload)

    def _described(self, kind: int, payload: bytes) -> Payloads:
        """The message, after the descriptions of its tables that were not given yet."""
        if not self._relations:
            return (payload,)
        if kind == _RELATION:
            self._relations.pop(_XID.unpack_from(payload, 1)[0], None)
            return (payload,)
        needed = (self._relations.pop(oid, None) for oid in _relations_of(kind, payload))
        return [*(each for each in needed if each is not None), payload]


def _relations_of(kind: int, payload: bytes) -> Sequence[int]:
    if kind in _CHANGES:
        found: tuple[int, ...] = _XID.unpack_from(payload, 1)
        return found
    if kind == _TRUNCATE:
        count, _ = _TRUNCATED.unpack_from(payload, 1)
        return struct.unpack_from(f">{count}I", payload, 1 + _TRUNCATED.size)
    return ()


def _entries(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    file.seek(0)
    while head := file.read(_ENTRY.size):
        xid, length = _ENTRY.unpack(head)
        payload = file.read(length)
        if len(payload) != length:
            raise OSError("its file is shorter than what was written")
        yield xid, payload
