"""Run an app in this process until it is asked to stop: sockets, the ready line, the parent's end.

SIGTERM and SIGINT stop cleanly: no new connections, requests in flight get a few seconds. With ``stop_with_parent``
the end of standard input does the same, so that a process whose parent was killed does not stay behind.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from mainstem.addresses import is_loopback, parse_address
from mainstem.errors import AddressInUseError, ConfigError, StorageError

if TYPE_CHECKING:
    from fastapi import FastAPI

_BACKLOG = 1024
_GRACE_S = 5
KEEP_ALIVE_S = 60
_SILENT_MS = 120_000
_WEBSOCKET_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of the server's side of TLS, PEM: the certificate chain, and its key if that is another file."""

    certificate: Path
    key: Path | None = None

    def check(self) -> None:
        """Raises ConfigError that names the file which is wrong."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            is_ssl = isinstance(error, ssl.SSLError)
            reason = (
                "it is not a PEM file with both" if is_ssl else (getattr(error, "strerror", None) or str(error)).lower()
            )
            raise ConfigError(f"{self.certificate}: no certificate and key for HTTP: {reason}") from error


def serve(
    app: FastAPI, listening: socket.socket, ready_line: str, tls: TlsFiles | None = None, *, websockets: bool = False
) -> None:
    """Serve ``app`` on a listening socket until a signal; print ``ready_line`` when it accepts."""
    from mainstem.gateway.access.request_heads import (
        BoundedHeads,  # the framework: the port is bound before it is loaded
    )

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stopped)  # uvicorn raises what it caught once more when it has stopped
    config = uvicorn.Config(
        app,
        http=BoundedHeads,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=_BACKLOG,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None or tls.key is None else str(tls.key),
        ws="websockets-sansio" if websockets else "none",
        ws_max_size=_WEBSOCKET_BYTES_MAX,
    )
    on_ready = lambda: print(ready_line, flush=True)  # noqa: E731, T201  # the ready line
    EndingServer(config, on_ready, app.state.streams.end).run(sockets=[listening])


def _stopped(*_: object) -> None:
    """The server has stopped cleanly; so the process ends with code 0."""


class EndingServer(uvicorn.Server):
    """uvicorn that reports its start and its stop: otherwise streams would last through its whole grace period."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


def listen_tcp(address: str, *, insecure: bool, is_secured: bool = False) -> socket.socket:
    """Bind ``HOST:PORT`` (port 0: a free one). ``is_secured``: with TLS and tokens.

    Raises ConfigError for an address that is none, or is not loopback unless secured or ``insecure``;
    AddressInUseError.
    """
    host, port = parse_address(address)
    if not is_loopback(host) and not (is_secured or insecure):
        raise ConfigError(
            f"{address}: without tokens (--http-tokens) and TLS (--http-tls-cert) HTTP listens on loopback only; "
            "choose 127.0.0.1, or insist with --insecure"
        )
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _give_up_on_the_silent(listening)
        listening.bind(target)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUseError(f"{address} is in use by another process; choose another address") from error
        raise ConfigError(
            f"cannot listen on {address}: {error.strerror or error}; use an address of this machine"
        ) from error
    return listening


def _give_up_on_the_silent(listening: socket.socket) -> None:
    """Let the kernel cut connections whose other side has taken nothing for a while, with what waits for it."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)


def listen_unix(path: Path) -> socket.socket:
    """Bind a Unix socket that only this user can connect to; one that a killed process left is replaced.

    Raises AddressInUseError when a process answers on it.
    """
    if path.exists():
        _refuse_living(path)
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        raise StorageError(f"cannot make the socket {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    return listening


def _refuse_living(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise AddressInUseError(f"{path}: another process serves these views already; stop it first")


def stop_with_parent() -> None:
    """Stop this process, as SIGTERM would, when standard input ends."""
    stdin = sys.stdin.fileno()

    def watch() -> None:
        while os.read(stdin, 4096):  # not through sys.stdin, whose lock the interpreter wants when it ends
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
