"""A host of one sink in a process of its own (`views.forked`), to be killed.

The database comes from the environment. It prints ``started`` and then applies, and rebuilds again and again, until the
signal comes; after each rebuild it prints ``rebuilt``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mainstem.errors import MainstemError
from mainstem.pipelines.app import App
from mainstem.views.host.host import ViewHost
from tests.sinks.databases import sink_from_environment
from tests.sinks.hosting import DDL


def main(topic: str, bootstrap: str, directory: str) -> None:
    app = App("killed")
    app.sink(app.topic(topic, DDL, key="id", partitions=2), sink_from_environment())
    with ViewHost(tuple(app.views.values()), bootstrap, Path(directory)) as host:
        print("started", flush=True)  # noqa: T201
        while True:
            with suppress(MainstemError):  # the view is not open yet, or the database is away
                host.rebuild("orders")
                print("rebuilt", flush=True)  # noqa: T201
