"""A lake in a process of its own (`views.forked`), to be killed.

It applies records for ever, commits each step and compacts, and prints the position after each.
"""

from __future__ import annotations

from pathlib import Path

from mainstem.pipelines.kinds import Lake
from mainstem.views.stores.lake.lake import LakeLimits, LakeStore
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import SCHEMA, KeyAndValue, apply, flight, tombstone

STEP = 40


def record(number: int) -> KeyAndValue:
    return tombstone(f"k{number % 7}") if number % 9 == 0 else flight(f"k{number % 7}", "A", "B", number)


def open_lake(path: Path) -> LakeStore:
    return LakeStore(path, StoreDefinition("routes", Lake(), SCHEMA), LakeLimits(commit_s=0.0))


def main(directory: str) -> None:
    store = open_lake(Path(directory))
    first = sum(store.position.values())
    while True:
        apply(store, [record(number) for number in range(first, first + STEP)], first)
        first += STEP
        for _ in range(2):  # the commit, and what compaction there is
            store.settle()
        print(first, flush=True)  # noqa: T201
