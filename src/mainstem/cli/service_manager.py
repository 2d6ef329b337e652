"""Messages to the service manager that started this process: systemd's notification protocol (``sd_notify``).

systemd names a Unix datagram socket in ``NOTIFY_SOCKET`` for a unit of ``Type=notify``. A message is lines of
``NAME=VALUE``. Without that variable nothing is sent. A message that cannot be sent is noted, and the command goes on:
systemd then ends the start at its own time limit.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from mainstem.cli.output import note

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
_TIMEOUT_S: Final = 5.0


def notify_ready(status: str) -> None:
    """Say that everything accepts; ``status`` is the line that ``systemctl status`` shows."""
    _send(f"READY=1\nSTATUS={_one_line(status)}")


def notify_stopping() -> None:
    """Say that the stop has begun."""
    _send("STOPPING=1\nSTATUS=stopping")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _send(message: str) -> None:
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address:
        return
    if address[0] not in "/@":
        note(f"WARNING: {SOCKET_VARIABLE}={address!r} is not a Unix socket: use a path, or a name after @")
        return
    name = f"\0{address[1:]}" if address[0] == "@" else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(_TIMEOUT_S)
            manager.connect(name)
            manager.sendall(message.encode())
    except OSError as error:
        note(f"WARNING: the service manager at {address} got no message: {(error.strerror or str(error)).lower()}")
