"""The changes of a view between two of its states: the rows that were added, changed and removed, key by key.

Both states are walked side by side in the order of their keys' UTF-8 bytes. An answer ends at ``limit`` changes, after
some mebibytes or after some seconds, and then names the key after which to read on: with the same two positions that
repeats nothing and skips nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstem.clock import Clock
from mainstem.model import Position
from mainstem.views.stores.sql.query_bounds import size_of
from mainstem.views.stores.store import Row, Snapshot
from mainstem.views.verification.diff_request import DiffRequest
from mainstem.views.verification.verify import side_by_side

_WALK_S_MAX = 10.0
_ANSWER_BYTES = 16 << 20
_LOOK_EVERY = 256


@dataclass(frozen=True, slots=True)
class Change:
    """One row that differs: ``before`` is None where it was added, ``after`` where it was removed."""

    key: str
    before: Row | None
    after: Row | None

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {"key": self.key, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """The changes from the state at ``start`` to that at ``end``; ``next``: the key after which to read on, if any."""

    changes: list[Change]
    start: Position
    end: Position
    next: str | None

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        rows = [change.to_json() for change in self.changes]
        return {"rows": rows, "from": str(self.start), "to": str(self.end), "next": self.next}


def changes_between(
    before: Snapshot, after: Snapshot, request: DiffRequest, clock: Clock
) -> tuple[list[Change], str | None]:
    """The next changes, and the key after which there may be more; None at the end."""
    until_s = clock.monotonic_s() + _WALK_S_MAX
    found: list[Change] = []
    size_bytes = 0
    both = side_by_side(before.entries_after(request.after), after.entries_after(request.after))
    for number, (key, was, became) in enumerate(both, 1):
        if was != became:
            found.append(Change(key, was, became))
            size_bytes += size_of(list((was or {}).values())) + size_of(list((became or {}).values()))
        if (
            len(found) == request.limit
            or size_bytes >= _ANSWER_BYTES
            or (number % _LOOK_EVERY == 0 and clock.monotonic_s() >= until_s)
        ):
            return found, key
    return found, None
