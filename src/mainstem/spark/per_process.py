"""``PerProcess``: a value that each process makes for itself, since Spark's Python workers are forked.

A fork begins with a value of its own: connections, producers and locks of the parent are never used by two processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """``value`` is what ``make`` returns, called once in each process. For the module level: it lasts for good."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Make the value of a process that has just been forked."""
        self.value = self._make()
