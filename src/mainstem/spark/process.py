"""The pipelines' process: ``python -m mainstem.spark.process --app FILE --bootstrap HOST:PORT --checkpoints DIR``.

Prints ``ready: pipelines NAME …`` once all queries run, and nothing else on standard output. SIGTERM and SIGINT stop it
cleanly; with ``--stop-with-parent`` the end of its standard input does. Exit code: 0 when stopped or done (``--once``),
1 for a wrong App or setting, 3 when the log cannot be reached or a pipeline fails, 4 when something is not installed.
However it ends, Spark's JVM and its workers end with it: each of them watches a pipe or socket to the one above.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from mainstem.errors import MainstemError, MissingDependencyError
from mainstem.exit_codes import DONE, report_error
from mainstem.pipelines.app import App
from mainstem.pipelines.changes import Choices
from mainstem.pipelines.load import load_app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        app = load_app(arguments.app)
        _run(app, arguments)
    except KeyboardInterrupt:
        return DONE  # an interrupt while Spark was starting
    except MainstemError as error:
        return report_error(error)
    return DONE


def _run(app: App, arguments: argparse.Namespace) -> None:
    try:
        from mainstem.spark.runner import Runner  # loads pyspark, when it is clear that there is something to run
        from mainstem.spark.startup.java import end_java
        from mainstem.tracing.export import export_traces
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"{error.name} is not installed; run: pip install 'mainstem[spark]'") from error
    changed = Choices.parse(arguments.changed)
    places = {"master": arguments.master, "checkpoints": arguments.checkpoints}
    os.environ["MAINSTEM_BOOTSTRAP"] = arguments.bootstrap  # where functions of micro-batches find the log
    runner = Runner(app, arguments.bootstrap, changed=changed, **places)
    export_traces("mainstem-pipelines")
    _stop_on_signals(runner.stop)
    if arguments.stop_with_parent:
        threading.Thread(target=_stop_at_end_of_input, args=(runner.stop,), daemon=True).start()

    def on_ready() -> None:
        _stop_on_signals(runner.stop)  # again: PySpark has put its own handler of SIGINT in the place of ours
        print("ready: pipelines", *app.pipelines, flush=True)  # noqa: T201 - what the supervisor waits for

    runner.run(once=arguments.once, on_ready=on_ready)
    end_java()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mainstem.spark.process", description="Run the pipelines of an App on Spark.")
    parser.add_argument("--app", required=True, metavar="FILE", help="the Python file that declares the App")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the log's address")
    parser.add_argument("--master", metavar="URL", help="Spark's master; default: this machine")
    parser.add_argument("--checkpoints", required=True, type=Path, metavar="DIR", help="one directory a pipeline in it")
    parser.add_argument("--once", action="store_true", help="derive what is in the log now, then end")
    parser.add_argument("--changed", action="append", default=[], metavar="CHOICE", help="what becomes of changed ones")
    parser.add_argument("--stop-with-parent", action="store_true", help="end when standard input ends")
    return parser


def _stop_on_signals(stop: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def _stop_at_end_of_input(stop: Callable[[], None]) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not through sys.stdin, whose lock the interpreter wants when it ends
        continue
    stop()


if __name__ == "__main__":
    sys.exit(main())
