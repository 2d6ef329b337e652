"""The options of a load, its progress and its result. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.errors import InputError
from mainstem.model import Position

DEFAULT_NULLS = ("", "NA")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load.

    ``key``: the key's columns; default: the topic's own, if it has a schema. ``derived``: column → template of other
    columns, ``{"id": "{carrier}-{flight}"}``. ``partitions`` and ``compacted`` are for a topic that is created.
    ``nulls``: the texts that mean null in a CSV file; ``delimiter``: the one character between its values, by default a
    comma, and a tab in .tsv. ``again``: from the first row on, whatever was loaded before.
    Raises InputError for a delimiter that is not one ASCII character, or is a quote or a line's end.
    """

    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    compacted: bool = False
    nulls: tuple[str, ...] = DEFAULT_NULLS
    again: bool = False
    delimiter: str | None = None

    def __post_init__(self) -> None:
        character = self.delimiter
        if character is not None and (len(character) != 1 or not character.isascii() or character in '"\r\n'):
            raise InputError(f"invalid delimiter {character!r}: use one ASCII character, for example ; or |")


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. ``rate`` is records a second."""

    records: int
    bytes_read: int
    bytes_total: int
    rate: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that is done; every record of it lies before ``position`` and is durable.

    ``records`` are those that this run has appended, ``records_before`` those that earlier runs had.
    """

    topic: str
    records: int
    position: Position
    seconds: float
    records_before: int = 0

    @property
    def records_per_second(self) -> float:
        """The rate over the whole load."""
        return self.records / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "topic": self.topic,
            "records": self.records,
            "records_before": self.records_before,
            "position": str(self.position),
            "seconds": round(self.seconds, 3),
        }
