"""A metrics store that writes its file at every step, to be killed: ``python -m tests.views.killed_metrics DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

from mainstem.pipelines.kinds import Metrics
from mainstem.testing import ManualClock
from mainstem.views.stores.metrics.metrics import MetricsStore
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import apply, flight

KIND = Metrics(by=("origin",), values=("miles",))
STEP = 50


def main(directory: str) -> None:
    clock = ManualClock()
    store = MetricsStore(Path(directory), StoreDefinition("flights", KIND), clock)
    for step in range(100_000):
        apply(store, [flight("k", f"O{n % 40}", "B", n) for n in range(STEP)], step * STEP)
        clock.advance(60)
        store.settle()
        print(step, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
