"""Whether the quotes of a CSV file are whole, natively, while it is read.

A value that begins with a quote ends at the next quote that is not doubled, and a delimiter, a line's end or the file's
end must follow (RFC 4180). Readers forgive text there; then one stray quote, such as ``"5 inch``, swallows all rows up
to the next one without a word. Quotes within a value that does not begin with one are text.

Used by one thread.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numba import types

from mainstem.errors import SchemaError
from mainstem.record.native.native_kernel import (
    INT64S,
    READ_ONLY_BYTES,
    Native,
    address_of,
    kernel,
    load_byte,
)

_VALUE_BEGINS, _IN_VALUE, _IN_QUOTES, _QUOTE_ENDS, _BROKEN = range(5)
_STATE, _LINE, _OPENED, _LAST = range(4)
_QUOTE, _LINE_FEED, _RETURN = 0x22, 0x0A, 0x0D
_MARK = b"\xef\xbb\xbf"


@kernel(READ_ONLY_BYTES, types.int64, INT64S, returns=types.void)
def _follow(data: Native, delimiter: Native, place: Native) -> None:
    """Go on through the bytes from the state in ``place``, up to text after a quote that closes."""
    at = address_of(data)
    end = at + data.size
    state, line, opened, last = place[0], place[1], place[2], place[3]
    while at < end and state != _BROKEN:
        byte = load_byte(at)
        ends_line = byte in (_LINE_FEED, _RETURN)
        if state == _IN_QUOTES:
            if byte == _QUOTE:
                state = np.int64(_QUOTE_ENDS)
        elif ends_line or byte == delimiter:
            state = np.int64(_VALUE_BEGINS)
        elif state == _VALUE_BEGINS:
            state = np.int64(_IN_QUOTES if byte == _QUOTE else _IN_VALUE)
            opened = line
        elif state == _QUOTE_ENDS:
            state = np.int64(_IN_QUOTES if byte == _QUOTE else _BROKEN)
        if ends_line and not (byte == _LINE_FEED and last == _RETURN):
            line += 1
        last = byte
        at += 1
    place[0], place[1], place[2], place[3] = state, line, opened, last


class QuoteChecker(io.RawIOBase):
    """A stream that passes reads on, and raises SchemaError for a quote that is not closed as it should be."""

    def __init__(self, inner: BinaryIO, path: Path, delimiter: str) -> None:
        super().__init__()
        self._inner = inner
        self._path = path
        self._delimiter = ord(delimiter)
        self._place: Any = np.array([_VALUE_BEGINS, 1, 0, 0], np.int64)
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes. Raises SchemaError, which names the line of the quote."""
        data = self._inner.read(-1 if size is None else size)
        checked = data if self._has_begun else data.removeprefix(_MARK)
        self._has_begun = True
        _follow(np.frombuffer(checked, np.uint8), self._delimiter, self._place)
        state, line, opened, _ = self._place.tolist()
        if state == _BROKEN or (not data and state == _IN_QUOTES):
            where = "is not closed" if state == _IN_QUOTES else f"closes in line {line}, and text follows it there"
            raise SchemaError(
                f"{self._path}: line {opened}: the quote that begins a value {where}; "
                'put a value with a quote in it into quotes, and double the quote: "5"" pipe"'
            )
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase says Buffer
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
