"""The request for the changes of a view between two of its states; ``diff`` answers it.

The gateway hosts no views: it checks the request and forwards it. This module does not import the code that reads
records and compares rows, because that code costs 1 s and 156 MB in each process. Immutable; safe from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.errors import QueryError
from mainstem.views.past.as_of import AsOf
from mainstem.views.read_options import WAIT_S, ReadOptions
from mainstem.views.requests import LIMIT_MAX


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """From the state at ``start`` to that at ``end`` (default: now); only keys after ``after``.

    States that do not exist yet are built within ``timeout_s``.
    """

    start: AsOf
    end: AsOf | None = None
    limit: int = 1_000
    after: str | None = None
    timeout_s: float = WAIT_S

    def __post_init__(self) -> None:
        """Raises QueryError."""
        ReadOptions(timeout_s=self.timeout_s)
        if not 1 <= self.limit <= LIMIT_MAX:
            raise QueryError(f"limit {self.limit}: it has to be from 1 to {LIMIT_MAX}")
