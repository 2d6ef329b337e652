"""The memory that the capture shares with the machine code of ``native_rows``, and that code itself.

Everything is 64-bit integers at addresses: what is asked, the state of the stream, a program for each table and a place
for each partition of its topic (``record.writer.BatchBuilder``). Bytes are never kept after a call.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from enum import IntEnum
from pathlib import Path
from typing import Final

from mainstem.record.native.kept_code import KeptCode, NativeCall

_LOG: Final = logging.getLogger(__name__)
_NATIVE: Final = Path(__file__).parent.parent.parent / "record" / "native"
RESULTS: Final = 4
"""Why it has stopped (``Stop``), the message that comes next, where that begins, how many transactions have ended."""
CODE: Final = KeptCode(
    name="rows",
    compiler="mainstem.postgres.native.native_rows",
    sources=(
        Path(__file__),
        Path(__file__).with_name("native_rows.py"),
        Path(__file__).with_name("native_values.py"),
        _NATIVE / "native_kernel.py",
        _NATIVE / "native_varint.py",
        _NATIVE.parent / "constants.py",
    ),
    results=RESULTS,
)


class Stop(IntEnum):
    """Why a call has stopped."""

    DONE = 0
    OTHER = 1
    """The next message is not a simple change: the plain decoder has to read it."""
    FULL = 2
    """The next record does not fit its batch. The state names the partition (``StateField.TARGET``)."""
    MANY = 3
    """There is no room to note the end of one more transaction."""


class CallField(IntEnum):
    """The numbers of a call, in order. ``LINES``: rows of COPY, each of the first table, and not messages."""

    LINES = 0
    DATA = 1
    LENGTHS = 2
    COUNT = 3
    FIRST = 4
    OFFSET = 5
    PROGRAMS = 6
    """An address for each table, of its program."""
    PROGRAM_COUNT = 7
    SPANS = 8
    """Room for the address and the size of each value of two rows."""
    SCRATCH = 9
    """Room for one key and one value, and for the values of a line."""
    SCRATCH_BYTES = 10
    NOW_MS = 11
    STATE = 12
    XIDS = 13
    XIDS_MAX = 14
    TEXTS = 15
    """An address and a size for each of ``TEXTS``."""


class StateField(IntEnum):
    """The state of the stream, which stays from call to call. Behind it lie the headers of the next record."""

    IS_INSIDE = 0
    COMMIT_LSN = 1
    COMMIT_US = 2
    XID = 3
    END_LSN = 4
    RECORDS = 5
    LARGE = 6
    """Records with a value of ``LARGE_BYTES`` or more."""
    TARGET = 7
    """The address of the partition's fields whose batch is full."""
    HEADER_BYTES = 8
    TOUCHED = 9
    """How many partitions got records since their owner looked; their fields' addresses lie at ``TOUCHED_AT``."""
    TOUCHED_AT = 10


STATE_WORDS: Final = len(StateField)
HEADERS_MAX: Final = 256
LARGE_BYTES: Final = 500
"""Rows from here on are remembered: PostgreSQL stores values out of line in rows over 2 kB, of a jsonb or an array less
as text. A row that is smaller and has one all the same is asked of the log."""


class ProgramField(IntEnum):
    """A table's program: how its rows become records. Behind it lie the columns, and the places of the key's."""

    RELATION = 0
    COLUMNS = 1
    KEYS = 2
    IS_ENVELOPED = 3
    PLACE = 4
    PLACE_BYTES = 5
    """Where the envelope's ``source`` begins, and its size."""
    TARGETS = 6
    PARTITIONS = 7
    OVERHEAD = 8
    """The most that a row's value has beside the text of its columns."""


PROGRAM_WORDS: Final = len(ProgramField)
COLUMN_WORDS: Final = 3
"""Of a column: its kind, and the address and the size of its name with a colon."""


class Kind(IntEnum):
    """How the text of a column becomes JSON."""

    PLAIN = 0
    TEXT = 1
    BOOLEAN = 2
    FLOAT = 3
    DECIMAL = 4
    DATE = 5
    TIMESTAMP = 6
    TIMESTAMP_TZ = 7
    BYTES = 8
    JSON = 9


class Text(IntEnum):
    """The constant texts, by their place in the table of texts."""

    LSN = 0
    XID = 1
    COMMIT_TS = 2
    BEFORE = 3
    AFTER = 4
    SOURCE = 5
    TIME = 6
    TRUE = 7
    FALSE = 8
    SOURCE_LSN = 9
    OPERATION = 10
    OPERATION_TIME = 11
    NULL = 12
    SNAPSHOT = 13
    NO_SNAPSHOT = 14
    ESCAPED = 15
    """Of each control character the letter after the backslash in JSON; 0 for those that are written as a number."""
    UNESCAPED = 16
    """Of each byte after a backslash in COPY's text, the byte that is meant."""


_COPY_LETTERS: Final = dict(zip(b"bfnrtv", b"\b\f\n\r\t\v", strict=True))
_JSON_LETTERS: Final = dict(zip(b"\b\f\n\r\t", b"bfnrt", strict=True))


def header_name(name: str) -> bytes:
    """A header's name with its length, as it stands in a record; names are short."""
    return bytes((2 * len(name),)) + name.encode()


TEXTS: Final = {
    Text.LSN: b"\x06" + header_name("mainstem-lsn"),
    Text.XID: header_name("mainstem-xid"),
    Text.COMMIT_TS: header_name("mainstem-commit-ts"),
    Text.BEFORE: b'{"before":',
    Text.AFTER: b',"after":',
    Text.SOURCE: b',"source":',
    Text.TIME: b',"ts_ms":',
    Text.TRUE: b"true",
    Text.FALSE: b"false",
    Text.SOURCE_LSN: b',"lsn":',
    Text.OPERATION: b'},"op":"',
    Text.OPERATION_TIME: b'","ts_ms":',
    Text.NULL: b"null",
    Text.SNAPSHOT: b',"snapshot":"true","txId":',
    Text.NO_SNAPSHOT: b',"snapshot":"false","txId":',
    Text.ESCAPED: bytes(_JSON_LETTERS.get(byte, 0) for byte in range(32)),
    Text.UNESCAPED: bytes(_COPY_LETTERS.get(byte, byte) for byte in range(256)),
}
_loading: Final = threading.Lock()
_is_building = False


def find_code() -> NativeCall | None:
    """The machine code, if it is kept on this machine; else it is compiled beside, and found by a later call.

    None also where such code cannot run: then every row goes the plain way.
    """
    global _is_building
    try:
        found = CODE.kept()
    except OSError as error:
        _LOG.debug("rows are encoded in plain Python: %s", error)
        return None
    with _loading:
        if found is None and not _is_building:
            _is_building = True
            threading.Thread(target=_build, name="row-code", daemon=True).start()
    return found


def _build() -> None:
    try:
        CODE.build()
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.info("rows are encoded in plain Python, which is slower: %s", error)
