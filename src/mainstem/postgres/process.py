"""A capture's process: ``python -m mainstem.postgres.process --app FILE --capture NAME --bootstrap HOST:PORT``.

Prints ``ready: postgres NAME`` once the topics are there, and nothing else on standard output. SIGTERM and SIGINT stop
it cleanly; with ``--stop-with-parent`` the end of its standard input does. Exit codes are those of ``exit_codes``.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final

from mainstem.client.log import Log
from mainstem.errors import InputError, MainstemError
from mainstem.exit_codes import DONE, report_error
from mainstem.pipelines.load import load_app

if TYPE_CHECKING:
    from mainstem.postgres.connector import Connector

_LOOK_S: Final = 0.5
_STOP_S: Final = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit code."""
    parser = argparse.ArgumentParser(prog="mainstem.postgres.process", description="Capture a PostgreSQL database.")
    parser.add_argument("--app", required=True, metavar="FILE", help="the Python file that declares the App")
    parser.add_argument("--capture", required=True, metavar="NAME", help="which of its captures")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the log's address")
    parser.add_argument("--stop-with-parent", action="store_true", help="end when standard input ends")
    arguments = parser.parse_args(argv)
    try:
        _run(arguments)
    except MainstemError as error:
        return report_error(error)
    return DONE


def _run(arguments: argparse.Namespace) -> None:
    from mainstem.postgres.connector import Connector

    app = load_app(arguments.app)
    captured = app.captures.get(arguments.capture)
    if captured is None:
        raise InputError(f"app {app.name} has no capture {arguments.capture!r}")
    with Log(arguments.bootstrap, client_id="mainstem-postgres") as log:
        connector = Connector(captured.settings, log, tell, app=app.name)
        if arguments.stop_with_parent:
            threading.Thread(target=_stop_at_end_of_input, args=(connector,), daemon=True).start()
        ready = functools.partial(print, "ready: postgres", arguments.capture, flush=True)
        run_until_signal(connector, ready)


def tell(line: str) -> None:
    """A line for the user, on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def run_until_signal(connector: Connector, on_ready: Callable[[], None]) -> None:
    """Run the connector until SIGTERM, SIGINT or ``stop``. Raises what ended it. For the main thread.

    A log or a database that does not answer holds up a stop: then the process ends after ``_STOP_S``. That loses
    nothing, as no kill does.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: connector.stop())
    running: Future[None] = Future()
    threading.Thread(target=_run_into, args=(running, connector, on_ready), name="capture", daemon=True).start()
    while not connector.is_stopping and not running.done():
        wait([running], _LOOK_S)
    if not wait([running], _STOP_S).done and connector.is_stopping:
        tell("the log or the database does not answer: the capture ends at its last commit, and goes on from there")
        os._exit(DONE)
    running.result()


def _run_into(running: Future[None], connector: Connector, on_ready: Callable[[], None]) -> None:
    try:
        connector.run(on_ready)
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        running.set_exception(error)
    else:
        running.set_result(None)


def _stop_at_end_of_input(connector: Connector) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    connector.stop()


if __name__ == "__main__":
    sys.exit(main())
