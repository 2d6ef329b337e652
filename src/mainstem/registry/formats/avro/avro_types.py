"""The types of an Avro schema, as the reader builds them and the writer and the comparison use them.

One class serves all kinds: a type has few attributes, and every user asks for the kind first. A type that is used
twice is one object, so a recursive schema is a graph with cycles.

Contract: nothing changes a type once the reader has returned it; threads may share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
KINDS: Final = PRIMITIVES | NAMED | {"array", "map", "union"}


class _Absent:
    """The type of ``ABSENT``."""


ABSENT: Final = _Absent()
"""The default of a field that has none; ``None`` is the default ``null``."""


@dataclass(eq=False, slots=True)
class AvroNode:
    """A type. ``name`` is the full name; ``items`` is the type of an array's items or of a map's values."""

    kind: str
    name: str = ""
    doc: str | None = None
    fields: list[AvroNodeField] | None = None
    symbols: list[str] = field(default_factory=list)
    default: str | None = None
    size: int = 0
    items: AvroNode | None = None
    branches: list[AvroNode] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class AvroNodeField:
    """A field of a record."""

    name: str
    type: AvroNode
    doc: str | None
    default: Any
    order: str
    aliases: list[str]
    properties: dict[str, Any]

    @property
    def has_default(self) -> bool:
        return self.default is not ABSENT
