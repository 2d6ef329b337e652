"""A backup's process: ``python -m mainstem.backup.process --data DIR --url URL``.

Prints ``ready: backup URL`` at once: a store that cannot be reached must not hold up the node. SIGTERM and SIGINT stop
it after its round; with ``--stop-with-parent`` the end of its standard input does. An error of the store is
printed, shown in the metrics, and tried again. Exit codes are those of ``exit_codes``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mainstem.backup.continuous import EVERY_S, KEEP_S, Backup, BackupOptions
from mainstem.backup.status import STATUS_FILE, BackupStatus
from mainstem.clock import SystemClock
from mainstem.errors import MainstemError
from mainstem.exit_codes import DONE, report_error
from mainstem.object_stores.opening import check_url, open_store

_STOP_S: Final = 8.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit code."""
    parser = argparse.ArgumentParser(prog="mainstem.backup.process", description="Back up a data directory.")
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="the data directory")
    parser.add_argument("--url", required=True, metavar="URL", help="where to")
    parser.add_argument("--every", type=float, default=EVERY_S, metavar="SECONDS", help="between two rounds")
    parser.add_argument("--keep", type=float, default=KEEP_S, metavar="SECONDS", help="for points in time")
    parser.add_argument("--stop-with-parent", action="store_true", help="end when standard input ends")
    arguments = parser.parse_args(argv)
    try:
        check_url(arguments.url)
        print(f"ready: backup {arguments.url}", flush=True)  # noqa: T201
        options = BackupOptions(arguments.every, arguments.keep)
        run(arguments.data, arguments.url, options, stop_with_parent=arguments.stop_with_parent)
    except MainstemError as error:
        return report_error(error)
    return DONE


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def run(
    data: Path,
    url: str,
    options: BackupOptions,
    *,
    say: Callable[[str], None] = _say,
    on_ready: Callable[[], None] = lambda: None,
    stop_with_parent: bool = False,
) -> None:
    """Back up until a signal. For the main thread. Raises what ``Backup`` raises.

    ``on_ready`` is called before the first round, when no other backup of the directory can run.
    """
    status = BackupStatus(data / "run" / STATUS_FILE, SystemClock())
    backup = Backup(data, open_store(url), options, status, say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stop(backup))
    if stop_with_parent:
        threading.Thread(target=_stop_at_end_of_input, args=(backup,), daemon=True).start()
    with backup:
        on_ready()
        backup.run()


def _stop(backup: Backup) -> None:
    """A store that does not answer holds up a stop: then the process ends. That loses nothing, as no kill does."""
    backup.stop()
    end = threading.Timer(_STOP_S, os._exit, (DONE,))
    end.daemon = True
    end.start()


def _stop_at_end_of_input(backup: Backup) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    _stop(backup)


if __name__ == "__main__":
    sys.exit(main())
