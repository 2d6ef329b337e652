"""Makes a sequence that shows something as short as it gets: drops requests while it still shows it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(items: Sequence[T], still_shows: Callable[[Sequence[T]], bool], tries: int = 80) -> list[T]:
    """A part of ``items``, in their order, that still shows it; no request of it can be left out if ``tries`` last."""
    kept = list(items)
    size = max(len(kept) // 2, 1)
    while tries > 0:
        at, dropped_any = 0, False
        while at < len(kept) and tries > 0:
            shorter = kept[:at] + kept[at + size :]
            tries -= 1
            if shorter and still_shows(shorter):
                kept, dropped_any = shorter, True
            else:
                at += size
        if size == 1 and not dropped_any:
            break
        size = max(size // 2, 1)
    return kept
