"""Kill whoever makes a snapshot at each of its steps, in a process of its own (`views.forked`).

Step n is the n-th time that it changes a file or a directory of the snapshots, as Python's audit events tell (to read
or fsync one changes nothing that a kill could take back); the process that does it is SIGKILLed just before, and leaves
``directory``/n behind. Says how many steps there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainstem.views.stores.store_snapshots import KEPT_MAX, StoreSnapshots
from tests.views.support import KINDS, apply, history

EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "shutil.copyfile"})
EVERY = 20
RECORDS = history(5, EVERY * (KEPT_MAX + 1))


def make_snapshots(kind: str, directory: Path, first: int, last: int) -> None:
    """Apply that part of the history, with a snapshot every 20 records."""
    [chosen] = [entry for entry in KINDS if entry.name == kind]
    store = chosen.open(directory / "store")
    snapshots = StoreSnapshots(directory / "snapshots", every_records=EVERY)
    for at in range(first, last, EVERY):
        apply(store, RECORDS[at : at + EVERY], at)
        snapshots.applied(store, EVERY, 1 << 40)
    store.close()


def make_one_too_many(kind: str, directory: Path, killed_at: int) -> None:
    """Make the last snapshot, for which an older one has to go, and be killed at it."""
    _kill_at(killed_at, str(directory / "snapshots"))
    make_snapshots(kind, directory, len(RECORDS) - EVERY, len(RECORDS))


def _kill_at(step: int, under: str) -> None:
    seen = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        is_reading = event == "open" and arguments[1] in ("r", "rb", None)
        is_within = event in EVENTS and any(str(argument).startswith(under) for argument in arguments)
        is_in_a_tree = event in ("os.remove", "os.rmdir") and arguments[1] >= 0  # relative: how a tree is deleted
        if is_in_a_tree or (is_within and not is_reading):
            seen += 1
            if seen > step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def main(kind: str, directory: str) -> None:
    base = Path(directory) / "base"
    if _in_a_child(make_snapshots, kind, base, 0, len(RECORDS) - EVERY) != 0:
        sys.exit("the snapshots before the last could not be made")
    step = 0
    while True:
        shutil.copytree(base, Path(directory) / f"{step}")
        status = _in_a_child(make_one_too_many, kind, Path(directory) / f"{step}", step)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            print(step)  # noqa: T201
            return
        step += 1


def _in_a_child(work: Callable[..., None], *arguments: object) -> int:
    """Do ``work`` in a fork; the stores' threads live and die there."""
    pid = os.fork()
    if pid == 0:
        work(*arguments)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
