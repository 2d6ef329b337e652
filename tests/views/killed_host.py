"""A view host in a process of its own (`views.forked`), to be killed.

It says ``started`` and then applies until the signal comes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from mainstem.pipelines.app import App
from mainstem.views.host.host import ViewHost
from tests.views.hosting import DDL, KINDS


def main(topic: str, bootstrap: str, directory: str) -> None:
    sys.setswitchinterval(1e-4)
    app = App("killed")
    flights = app.topic(topic, DDL)
    for name, kind in KINDS.items():
        app.view(name, flights, kind)
    with ViewHost(tuple(app.views.values()), bootstrap, Path(directory)):
        print("started", flush=True)  # noqa: T201
        signal.pause()
