"""The protocol's offsets as tokens, and its cursors. Pure functions.

A position in a stream is its length up to there (in messages of a JSON stream, else in bytes) and the offset just after
the record that ends there. The length alone orders the positions of one stream and is the same in a fork; the record
offset says where to read on. A token has both in fixed width, so that tokens sort as text. Clients must not read it.
"""

from __future__ import annotations

import random
import re
import time
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from mainstem.errors import InputError

BEGINNING: Final = "-1"
NOW: Final = "now"
_TOKEN: Final = re.compile(r"([0-9]{16})_([0-9]{19})|(0{16})_(0{16})")
_LENGTH_MAX: Final = 10**16 - 1
OFFSET_MAX: Final = 2**63 - 1
Length = Annotated[int, Field(ge=0, le=_LENGTH_MAX)]
Offset = Annotated[int, Field(ge=0, le=OFFSET_MAX)]
_CURSOR: Final = re.compile(r"[0-9]{1,15}")
_CURSOR_EPOCH_S: Final = 1_728_432_000  # 9 October 2024, as the protocol says
_CURSOR_S: Final = 20
_JITTER_S: Final = 3_600


class StreamPosition(NamedTuple):
    """A place between two messages of a stream."""

    length: Length = 0
    record_offset: Offset = 0

    @property
    def token(self) -> str:
        """The position as clients see it."""
        return f"{self.length:016}_{self.record_offset:019}"


START: Final = StreamPosition()


def parse_position(token: str) -> StreamPosition:
    """The position of a token, or of ``-1``. Raises InputError."""
    if token == BEGINNING:
        return START
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise InputError(f"invalid offset {token[:100]!r}: use -1, now, or a Stream-Next-Offset of this stream")
    if match[1] is None:  # the beginning, as other servers write it
        return START
    position = StreamPosition(int(match[1]), int(match[2]))
    if position.record_offset > OFFSET_MAX:
        raise InputError(f"invalid offset {token!r}: no server has given it")
    return position if position.length else START


def may_grow(length: int, count: int) -> bool:
    """Whether a stream of this length takes ``count`` more: tokens have room for so many."""
    return length + count <= _LENGTH_MAX


def cursor(given: str | None, now_s: float | None = None) -> str:
    """The cursor of a live answer: the number of the time interval, and always more than the one that was given."""
    interval = int(((time.time() if now_s is None else now_s) - _CURSOR_EPOCH_S) // _CURSOR_S)
    if given is None or _CURSOR.fullmatch(given) is None or int(given) < interval:
        return str(interval)
    return str(int(given) + max(1, random.randint(1, _JITTER_S) // _CURSOR_S))
