"""The limit of a mirror's bytes per second: after each round it waits until the round's bytes are paid for."""

from __future__ import annotations

import time
from collections.abc import Callable

from mainstem.errors import InputError

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class RateLimit:
    """``wait`` is called with the seconds to wait; it may return sooner. Without a limit it is never called."""

    def __init__(self, bytes_per_s: int | None, wait: Callable[[float], object] = time.sleep) -> None:
        self.bytes_per_s = bytes_per_s
        self._wait = wait
        self._free_at_s = 0.0

    def took(self, size: int) -> None:
        """Wait as long as ``size`` bytes need."""
        if self.bytes_per_s is None or size == 0:
            return
        now_s = time.monotonic()
        self._free_at_s = max(self._free_at_s, now_s) + size / self.bytes_per_s
        self._wait(self._free_at_s - now_s)


def parse_rate(text: str | None) -> int | None:
    """``5M`` and the like, in bytes per second. Raises InputError."""
    if text is None:
        return None
    number, unit = (text[:-1], _UNITS[text[-1].upper()]) if text[-1:].upper() in _UNITS else (text, 1)
    if not number.isdecimal() or int(number) * unit == 0:
        raise InputError(f"--rate {text!r}: give bytes per second, such as 500000, 800K or 20M")
    return int(number) * unit
