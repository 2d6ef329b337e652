"""A key-value store in a process of its own (`views.forked`), to be killed.

It applies few and many records in turn, for ever, and prints the position after each.
"""

from __future__ import annotations

from pathlib import Path

from mainstem.pipelines.kinds import KeyValue
from mainstem.views.stores.key_value.key_value import KeyValueStore
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import KeyAndValue, apply, flight, tombstone

STEPS = (6_000, 3, 5_500, 5_500, 1)


def record(number: int) -> KeyAndValue:
    """The record at an offset; its key comes again after 9,001 others."""
    return tombstone(f"k{number % 9001}") if number % 11 == 0 else flight(f"k{number % 9001}", "A", "B", number)


def open_store(path: Path) -> KeyValueStore:
    return KeyValueStore(path, StoreDefinition("routes", KeyValue()))


def main(directory: str) -> None:
    store = open_store(Path(directory))
    first = sum(store.position.values())
    while True:
        for step in STEPS:
            apply(store, [record(number) for number in range(first, first + step)], first)
            first += step
            print(first, flush=True)  # noqa: T201
