"""The kinds of view that an App can declare: plain frozen definitions, without the stores that serve them.

A view is an index over one topic. Its kind says which questions it answers; `mainstem.views` holds one store for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class KeyValue:
    """The latest value of each key: get, ranges, prefixes."""

    kind: ClassVar[str] = "key-value"

    @property
    def columns(self) -> tuple[str, ...]:
        """The topic's columns that this kind needs to find."""
        return ()


@dataclass(frozen=True)
class SQL:
    """A table under the view's name, typed from the topic's schema; any SELECT."""

    kind: ClassVar[str] = "sql"

    @property
    def columns(self) -> tuple[str, ...]:
        """The topic's columns that this kind needs to find."""
        return ()


@dataclass(frozen=True, init=False)
class Search:
    """Full text over ``fields``, columns of the topic."""

    kind: ClassVar[str] = "search"
    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)

    @property
    def columns(self) -> tuple[str, ...]:
        """The topic's columns that this kind needs to find."""
        return self.fields


@dataclass(frozen=True, kw_only=True)
class Graph:
    """One edge for each record, from the column ``source`` to the column ``target``: neighbors and paths."""

    kind: ClassVar[str] = "graph"
    source: str
    target: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The topic's columns that this kind needs to find."""
        return (self.source, self.target)


Kind: TypeAlias = KeyValue | SQL | Search | Graph
