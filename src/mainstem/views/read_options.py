"""How fresh the answer of a view has to be: checked when it is made; ``ViewHost.query`` takes it beside the request.

Immutable; safe from any thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mainstem.errors import QueryError
from mainstem.model import Position
from mainstem.views.past.as_of import AsOf

WAIT_S = 30.0
WAIT_S_MAX = 300.0
LAG_MS_MAX = 86_400_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """``at_least``: what the answer has to reflect.

    ``max_lag_ms``: the answer reflects everything that was in the log at some moment no earlier than so many
    milliseconds before the read came in. Both are waited for up to ``timeout_s`` seconds.

    ``as_of``: the answer is that of a past moment (`views.past.as_of`), built from the log if need be in ``timeout_s``.

    ``checkpoints``: the answer carries the signed checkpoints that cover its position, of a verifiable topic.

    ``sees_pipelines``: the reader may see pipelines, so a time-out shows it their errors and not their names alone.

    ``reader``: the name of its token, for those who ask later which reads waited; empty without one.
    """

    at_least: Position | None = None
    timeout_s: float = WAIT_S
    max_lag_ms: int | None = None
    as_of: AsOf | None = None
    sees_pipelines: bool = True
    reader: str = ""
    checkpoints: bool = False

    def __post_init__(self) -> None:
        """Raises QueryError."""
        if not (math.isfinite(self.timeout_s) and 0 <= self.timeout_s <= WAIT_S_MAX):
            raise QueryError(f"timeout {self.timeout_s} s: it has to be from 0 to {WAIT_S_MAX:g} s")
        if self.max_lag_ms is not None and not 0 <= self.max_lag_ms <= LAG_MS_MAX:
            raise QueryError(f"max_lag_ms {self.max_lag_ms}: it has to be from 0 to {LAG_MS_MAX}")
        if self.as_of is not None and (self.at_least is not None or self.max_lag_ms is not None):
            raise QueryError("as_of asks for a past state, at_least and max_lag_ms for a fresh one: give one of them")
