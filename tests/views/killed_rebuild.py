"""A view host that is killed at one step of a rebuild, in a process of its own (`views.forked`).

The view catches up and is rebuilt. The process sends itself
SIGKILL just before it asks the operating system for the step. Python's audit events show the steps; no part of the host
is replaced.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from mainstem.pipelines.app import App
from mainstem.views.host.host import ViewHost
from tests.views.hosting import DDL, KINDS

FORMER, NEW = "v000001", "v000002"
# For each step the audit events that lead to it, in order. The process ends at the last one, before it takes effect.
STEPS = {
    "note the definition": [("os.rename", f"{NEW}/definition.json")],
    "sync the new version": [("open", f"{NEW}/definition.json")],
    "write the pointer": [("open", "current.tmp")],
    "rename the pointer": [("os.rename", "current")],
    "sync the directory": [("os.rename", "current"), ("open", ".")],
    "remove the former version": [("shutil.rmtree", FORMER)],
    "remove its second file": [("shutil.rmtree", FORMER), ("os.remove", None), ("os.remove", None)],
}


def kill_at(step: str, directory: Path) -> None:
    """End this process when ``step`` of the view in ``directory`` is next."""
    left = list(STEPS[step])

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not left or event != left[0][0]:
            return
        name = left[0][1]
        target = arguments[1] if event == "os.rename" else arguments[0]
        if name is None or (not isinstance(target, int) and os.fsdecode(target) == str(directory / name)):
            left.pop(0)
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(topic: str, bootstrap: str, directory: str, view: str, step: str) -> None:
    app = App("killed")
    app.view(view, app.topic(topic, DDL), KINDS[view])
    with ViewHost(tuple(app.views.values()), bootstrap, Path(directory)) as host:
        host.wait(view, lambda status: status.state == "live")
        kill_at(step, Path(directory) / view)
        host.rebuild(view)
