"""Commands that stay up: until ctrl-C or SIGTERM, then everything stops in order, and the exit code is 0.

A signal that comes before the command is ready interrupts it: everything stops in order, too, and the exit code is 130.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from mainstem.cli.output import note, out, out_json
from mainstem.cli.service_manager import notify_ready, notify_stopping
from mainstem.node.stack import Stack


@contextmanager
def stopping_cleanly() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP unwind like ctrl-C does, so that every ``with`` gets to stop what it started."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stay_up(stack: Stack, ready: Mapping[str, str] | None = None, *, as_json: bool = False) -> None:
    """Say what is ``ready``, and block until a signal asks to stop; the ``with`` around stops the processes then."""
    try:
        if ready is not None:
            _say_ready(ready, as_json=as_json)
        stack.supervisor.wait()
    except KeyboardInterrupt:
        notify_stopping()
        note("stopping")


def _say_ready(ready: Mapping[str, str], *, as_json: bool) -> None:
    """Print the addresses of what accepts now, by name, and tell the service manager if one waits for it."""
    line = "ready: " + " ".join(f"{name} {address}" for name, address in ready.items())
    if as_json:
        out_json({"ready": dict(ready)})
    else:
        out(line)
    notify_ready(line)
