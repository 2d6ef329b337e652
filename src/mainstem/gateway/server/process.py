"""The gateway process: ``python -m mainstem.gateway.server.process --bootstrap HOST:PORT --http HOST:PORT [--view-host
SOCKET] [--metrics-socket SOCKET]``.

``mainstem.console.process`` is the same process with the console in front of the API.

Prints ``ready: http HOST:PORT`` when it accepts, one line ``error: …`` when it cannot start.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # while modules load: the collector takes an eighth of that time, a fifth in a view host

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.addresses import Address, parse_address
from mainstem.errors import MainstemError
from mainstem.exit_codes import report_error
from mainstem.gateway.server.serving import TlsFiles, listen_tcp, serve, stop_with_parent
from mainstem.open_files import raise_open_files_limit

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOG_TIMEOUT_S = 10.0
_WEBHOOK_VARIABLE = "MAINSTEM_ALERT_WEBHOOK"


Mount = Callable[["FastAPI"], None]
"""Puts something in front of the API, behind the guard."""


def main(argv: Sequence[str] | None = None, mount: Mount | None = None) -> int:
    """Run until a signal, or until standard input ends; the exit code. ``mount`` adds the console."""
    parser = argparse.ArgumentParser(
        prog="python -m mainstem.gateway.server.process", description="Mainstem's HTTP gateway"
    )
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the log")
    parser.add_argument("--http", default="127.0.0.1:8080", metavar="HOST:PORT", help="where to listen")
    parser.add_argument("--view-host", action="append", default=[], type=Path, metavar="SOCKET")
    parser.add_argument("--metrics-socket", type=Path, metavar="SOCKET", help="where the log serves its metrics")
    parser.add_argument("--supervisor-metrics", type=Path, metavar="FILE", help="the restarts of the node's processes")
    parser.add_argument("--history", type=Path, metavar="FILE", help="keeps the history over a restart")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="the tokens, one of which each request has to send")
    parser.add_argument("--cors-origin", action="append", default=[], metavar="ORIGIN", help="pages that are let in")
    parser.add_argument("--host-name", action="append", default=[], metavar="NAME", help="a proxy's name for this")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="the certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, if it is in another file")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a limit, by its name")
    parser.add_argument("--insecure", action="store_true", help="listen on other addresses than loopback")
    parser.add_argument("--console-read-only", action="store_true", help="a console that changes nothing")
    parser.add_argument("--registry", action="store_true", help="the schema registry alone, at the root")
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")
    options = parser.parse_args(argv)
    try:
        run(options, mount)
    except MainstemError as error:
        return report_error(error)
    return 0


def run(options: argparse.Namespace, mount: Mount | None = None) -> None:
    """Bind first, so that a taken port is reported before anything heavy is loaded."""
    tls = TlsFiles(options.tls_cert, options.tls_key) if options.tls_cert is not None else None
    if tls is not None:
        tls.check()
    is_secured = tls is not None and options.tokens is not None
    listening = listen_tcp(options.http, insecure=options.insecure, is_secured=is_secured)
    if options.stop_with_parent:
        stop_with_parent()

    from mainstem.client.log import Log
    from mainstem.clock import SystemClock
    from mainstem.gateway.access.cors import checked_origins
    from mainstem.gateway.access.limits import GatewayLimits, files_for_streams, limits_of, served_names
    from mainstem.gateway.access.tokens import TokenFile
    from mainstem.gateway.monitoring.alert_webhook import AlertWebhook
    from mainstem.gateway.monitoring.history import History
    from mainstem.gateway.monitoring.monitor import Monitor
    from mainstem.gateway.monitoring.ring_file import RingFile
    from mainstem.gateway.operation.log_metrics import LogMetrics
    from mainstem.gateway.server.app import create_app, create_registry_app
    from mainstem.gateway.server.front_page import add_front_page
    from mainstem.gateway.views.forwarding import ForwardingBackend
    from mainstem.tracing.export import export_traces

    export_traces("mainstem-registry" if options.registry else "mainstem-gateway")
    is_safe = options.insecure or options.tokens is not None
    names = served_names(parse_address(options.http).host, options.host_name, is_safe=is_safe)
    tokens = TokenFile(options.tokens) if options.tokens is not None else None
    scheme = "http" if tls is None else "https"
    with Log(options.bootstrap, timeout_s=_LOG_TIMEOUT_S, client_id="mainstem-gateway") as log:
        metrics = None
        if options.metrics_socket is not None:
            metrics = LogMetrics(options.metrics_socket, options.supervisor_metrics)
        origins = checked_origins(options.cors_origin, has_tokens=tokens is not None)
        limits = limits_of(options.set, GatewayLimits(host_names=names, origins=origins))
        limits = replace(limits, stream_files_max=files_for_streams(limits, raise_open_files_limit()))
        if options.registry:
            app = create_registry_app(log, limits, tokens)
        else:
            views = ForwardingBackend(options.view_host)
            history = History(None if options.history is None else RingFile(options.history))
            webhook, clock = None, SystemClock()
            if os.environ.get(_WEBHOOK_VARIABLE):
                webhook = AlertWebhook(os.environ[_WEBHOOK_VARIABLE], f"{scheme}://{options.http}", clock)
            monitor = Monitor(log, metrics, views, history, clock, webhook)
            app = create_app(log, views, limits, metrics, tokens, monitor)
            app.state.console_read_only = options.console_read_only
            (mount or add_front_page)(app)
        # What was made up to here stays: the collector need not look through it. And it looks after 20,000 objects, not
        # after 700, or it looks through long answers again and again while they are made.
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()
        serve(app, listening, f"ready: http {Address(*listening.getsockname()[:2])}", tls, websockets=mount is not None)


if __name__ == "__main__":
    sys.exit(main())
