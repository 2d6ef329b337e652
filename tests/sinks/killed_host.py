"""A host of one sink in a process of its own, to be killed: ``python -m tests.sinks.killed_host TOPIC BOOTSTRAP DIR``.

The DSN comes from the environment. It prints ``started`` and then applies until the signal comes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from mainstem.pipelines.app import App
from mainstem.pipelines.kinds import Postgres
from mainstem.views.host.host import ViewHost
from tests.sinks.hosting import DDL


def main(topic: str, bootstrap: str, directory: str) -> None:
    app = App("killed")
    app.sink(app.topic(topic, DDL, key="id", partitions=2), Postgres(table="orders"))
    with ViewHost(tuple(app.views.values()), bootstrap, Path(directory)):
        print("started", flush=True)  # noqa: T201
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
