"""How fresh the answer of a view has to be: checked when it is made; ``ViewHost.query`` takes it beside the request.

Immutable; safe from any thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mainstem.errors import QueryError
from mainstem.model import Position

WAIT_S = 30.0
WAIT_S_MAX = 300.0


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """``at_least``: what the answer has to reflect; it is waited for up to ``timeout_s`` seconds."""

    at_least: Position | None = None
    timeout_s: float = WAIT_S

    def __post_init__(self) -> None:
        """Raises QueryError."""
        if not (math.isfinite(self.timeout_s) and 0 <= self.timeout_s <= WAIT_S_MAX):
            raise QueryError(f"timeout {self.timeout_s} s: it has to be from 0 to {WAIT_S_MAX:g} s")
