"""A metrics store that writes its file at every step, in a process of its own (`views.forked`), to be killed."""

from __future__ import annotations

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
