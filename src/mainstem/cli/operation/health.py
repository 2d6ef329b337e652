"""``mainstem health``: whether the log of a data directory answers; for the health checks of containers and managers.

It asks the log process on the Unix socket that serves its metrics. So it needs no address, no user and no certificate,
however the log listens, and only the user that runs the log can ask.
"""

from __future__ import annotations

import socket
from typing import Annotated, Final

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json
from mainstem.errors import UnavailableError

_REQUEST: Final = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_ANSWER: Final = b"HTTP/1."


def health(
    data: options.Data = options.DEFAULT_DATA,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, max=600.0, help="Seconds that the log has to answer.")
    ] = 5.0,
    json: options.Json = False,
) -> None:
    """Ask the log of a data directory on this machine whether it answers. Exit code 3 when it does not."""
    from mainstem.node.layout import Layout

    require_answer(str(Layout(data.absolute()).socket("metrics")), timeout)
    if json:
        out_json({"ok": True})
    else:
        out("the log answers")


def require_answer(path: str, timeout_s: float) -> None:
    """Ask on the Unix socket at ``path``. Any answer will do, that of a busy log too. Raises UnavailableError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(timeout_s)
            asked.connect(path)
            asked.sendall(_REQUEST)
            answer = asked.recv(len(_ANSWER), socket.MSG_WAITALL)
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
        raise UnavailableError(f"the log does not answer at {path}: {reason}; is it running on this --data?") from error
    if answer != _ANSWER:
        raise UnavailableError(f"the log closed the connection at {path} without an answer; it may be stopping")
