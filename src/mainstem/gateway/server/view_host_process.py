"""A view host's process: it applies an App's views and answers their reads on a Unix socket.

``python -m mainstem.gateway.server.view_host_process --app FILE --bootstrap HOST:PORT --data DIR --socket PATH``.
Prints ``ready: views PATH`` when it accepts, one line ``error: …`` when it cannot start. Stores lie in
``DATA/views/<app>``. ``MAINSTEM_VERIFY_SHARE`` is the share of a processor that verifies the views in the background
(0.02; 0: none does). ``MAINSTEM_VIEW_MEMORY_MAX`` is how many bytes each process may hold before queries are ended
(half of the machine's).

SQL over a SQL or lake view runs in a process of that view (`views.stores.sql.query_process`). A query that runs here
and cannot be interrupted ends the process, with exit code 3: its parent starts it again
(`views.stores.sql.query_watch`).
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # while modules load, as in `gateway.server.process`

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import ConfigError, MainstemError
from mainstem.exit_codes import NOT_NOW, report_error
from mainstem.open_files import raise_open_files_limit
from mainstem.pipelines.load import load_app

if TYPE_CHECKING:
    from mainstem.views.stores.sql.query_watch import WatchedQuery
    from mainstem.views.verification.sampling import Sampling

# A thread that computes must hand the interpreter lock over soon: appliers and stores take it for every record.
_SWITCH_INTERVAL_S = 1e-4
_VERIFY_SHARE = "MAINSTEM_VERIFY_SHARE"
_SHARE = 0.02
_LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal, or until standard input ends; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mainstem.gateway.server.view_host_process", description="Applies and serves the views of an App"
    )
    parser.add_argument("--app", required=True, metavar="FILE", help="the Python file that declares the App")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the log")
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="the node's data directory")
    parser.add_argument("--socket", required=True, type=Path, metavar="PATH", help="the Unix socket to listen on")
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")
    options = parser.parse_args(argv)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        run(options)
    except MainstemError as error:
        return report_error(error)
    return 0


def run(options: argparse.Namespace) -> None:
    """Serve the views; the host stops, with its stores closed, when serving ends."""
    from mainstem.views.stores.sql.query_watch import WATCH, memory_limit

    WATCH.memory_max = memory_limit() or WATCH.memory_max
    WATCH.on_runaway = _end_process
    app = load_app(options.app)

    from mainstem.gateway.server.host_app import create_host_app
    from mainstem.gateway.server.serving import listen_unix, serve, stop_with_parent
    from mainstem.tracing.export import export_traces
    from mainstem.views.host.host import ViewHost
    from mainstem.views.stores.sql.query_process import interrupt_queries

    raise_open_files_limit()
    export_traces("mainstem-views")
    listening = listen_unix(options.socket)
    if options.stop_with_parent:
        stop_with_parent()
    views, pipelines = tuple(app.views.values()), tuple(app.pipelines.values())
    directory, sampling = options.data / "views" / app.name, _sampling()
    captures = tuple(app.captures.values())
    host = ViewHost(views, options.bootstrap, directory, pipelines=pipelines, captures=captures, sampling=sampling)
    gc.freeze()
    gc.enable()
    host.start()
    try:
        serve(create_host_app(host), listening, f"ready: views {options.socket}")
    finally:
        WATCH.stop()
        interrupt_queries()
        host.stop()
        gc.unfreeze()  # DuckDB reports objects that still exist at exit as leaked


def _end_process(_query: WatchedQuery, reason: str) -> None:
    _LOG.critical("the view host ends, to be started again: %s", reason)
    os._exit(NOT_NOW)


def _sampling() -> Sampling | None:
    from mainstem.views.verification.sampling import Sampling

    text = os.environ.get(_VERIFY_SHARE, "")
    try:
        share = float(text or _SHARE)
    except ValueError as error:
        raise ConfigError(f"{_VERIFY_SHARE}={text!r} is not a number from 0 to 1, such as 0.02") from error
    return Sampling(share) if share else None


if __name__ == "__main__":
    sys.exit(main())
