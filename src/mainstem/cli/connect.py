"""The log, for a command: a person waits at the other end, so it gives up sooner than a program would."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.client.log import Log

_TIMEOUT_S = 10.0


def connect(bootstrap: str) -> Log:
    """The log at ``bootstrap``; a context manager. Nothing connects before the first call."""
    from mainstem.client.log import Log

    return Log(bootstrap, timeout_s=_TIMEOUT_S)
