"""A capture's process: ``python -m mainstem.postgres.process --app FILE --capture NAME --bootstrap HOST:PORT``.

Prints ``ready: postgres NAME`` once the topics are there, and nothing else on standard output. SIGTERM and SIGINT stop
it cleanly; with ``--stop-with-parent`` the end of its standard input does. Exit codes are those of ``exit_codes``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem.client.log import Log
from mainstem.errors import InputError, MainstemError
from mainstem.exit_codes import DONE, report_error
from mainstem.pipelines.load import load_app

if TYPE_CHECKING:
    from mainstem.postgres.connector import Connector


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
        stop_on_signals(connector)
        if arguments.stop_with_parent:
            threading.Thread(target=_stop_at_end_of_input, args=(connector,), daemon=True).start()
        connector.run(lambda: print("ready: postgres", arguments.capture, flush=True))  # noqa: T201 - for the supervisor


def tell(line: str) -> None:
    """A line for the user, on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def stop_on_signals(connector: Connector) -> None:
    """Let SIGTERM and SIGINT stop it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: connector.stop())


def _stop_at_end_of_input(connector: Connector) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    connector.stop()


if __name__ == "__main__":
    sys.exit(main())
