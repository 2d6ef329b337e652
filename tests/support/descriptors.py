"""Waiting for a descriptor, whatever its number: ``select.select`` refuses those from 1,024 on."""

from __future__ import annotations

import select
from typing import Any


def is_readable(file: Any, within_s: float) -> bool:
    """Whether a descriptor, or an object that has one, can be read or has ended within that time."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(within_s * 1000))
