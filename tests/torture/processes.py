"""Processes below a process, by Linux' own account of them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path

from tests.support.descriptors import is_readable


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``, whatever their depth."""
    children = _children()
    found, queue = set[int](), [pid]
    while queue:
        queue += (new := children[queue.pop()] - found)
        found |= new
    return found


def jvm_below(pid: int) -> int | None:
    """Spark's JVM."""
    return next((below for below in descendants(pid) if _name(below) == "java"), None)


def workers_below(pid: int) -> list[int]:
    """The Python processes that run tasks: what Spark's daemons have forked."""
    return sorted(child for daemon in _python_roots(pid) for child in _children()[daemon])


def planners_below(pid: int) -> list[int]:
    """The Python processes that plan, read ahead and commit for Spark's driver."""
    return sorted(root for root in _python_roots(pid) if not _children()[root])


def kill_all_with(mark: str) -> None:
    """SIGKILL the processes that have ``mark`` in their environment, and wait until they are gone."""
    while marked := [pid for pid in _pids() if mark.encode() in _environment(pid)]:
        for pid in marked:
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                if mark.encode() in _environment(pid):  # and not another that was given the same number meanwhile
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    is_readable(handle, 30)
                os.close(handle)


def _python_roots(pid: int) -> set[int]:
    """What the fork server below ``pid`` has forked."""
    children = _children()
    servers = [below for below in children[pid] if "fork_server" in _command_line(below)]
    return {child for server in servers for child in children[server]}


def _children() -> dict[int, set[int]]:
    children: dict[int, set[int]] = defaultdict(set)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children[int(stat.read_text().rpartition(")")[2].split()[1])].add(int(stat.parent.name))
    return children


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
