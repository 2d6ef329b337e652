"""The configuration of a stream, as the record of its creation has it.

Any writer may append to a topic, so the types say the form and range of each field, and ``event_of`` and ``state_of``
check what a record's headers hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from mainstem.gateway.durable.stream_offsets import START, Length, Offset, StreamPosition

CONTENT_TYPE: Final = r"[!-~][ -~]{0,255}"
"""A content type goes into the headers of answers, so it is short and has no line break."""
TTL_S_MAX: Final = 10 * 365 * 86_400
TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""


class StreamSegment(NamedTuple):
    """Data that a fork inherits: of ``key``, from the length ``begin`` to ``end``, in records from ``start`` on to
    before ``stop``.
    """

    key: str
    begin: Length
    end: Length
    start: Offset
    stop: Offset


@dataclass(frozen=True, slots=True)
class ForkSource:
    """The stream that a fork was made of, by the offset of its creation, and where."""

    key: str
    origin: Offset
    token: str
    sub_offset: Length


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """The configuration. ``segments``: the data that a fork inherits; ``base``: where its own data begins."""

    content_type: Annotated[str, Field(pattern=rf"\A{CONTENT_TYPE}\z")]
    ttl_s: Annotated[int, Field(ge=0, le=TTL_S_MAX)] | None = None
    expires_ms: Annotated[int, Field(ge=0, le=TIME_MS_MAX)] | None = None
    source: ForkSource | None = None
    segments: tuple[StreamSegment, ...] = ()
    base: StreamPosition = START
