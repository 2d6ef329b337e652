"""Seeded histories on a disk that loses power: nothing acknowledged may change, and every answer is the model's.

What a history does, and what is checked after each step, is in ``tests/log/simulation``; docs/internals/simulation.md
says it in prose. A failing seed is run again alone: ``run_with_one_cut(SEED)``, and its ``trace`` tells what happened.
``MAINSTEM_CUT_SEEDS`` is how many histories have one cut (500).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator

import pytest

from tests.log.simulation.runs import (
    cut_everywhere,
    cut_recovery_everywhere,
    run_long,
    run_with_many_cuts,
    run_with_one_cut,
)

_SEEDS = int(os.environ.get("MAINSTEM_CUT_SEEDS", "500"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What the log says of each damage would cost a third of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_each(seeds: range, run: Callable[[int], object]) -> None:
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def test_bytes_of_a_write_that_was_taken_back_do_not_come_back_before_synced_records() -> None:
    run_with_one_cut(4620)  # a full disk in the middle of a write, a new segment, a flush, a power cut


@pytest.mark.parametrize("seeds", [range(at, min(at + 100, _SEEDS)) for at in range(0, _SEEDS, 100)], ids=str)
def test_one_cut_in_each_of_many_histories_loses_nothing(seeds: range) -> None:
    run_each(seeds, run_with_one_cut)


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_a_cut_at_any_storage_call_loses_nothing(seed: int) -> None:
    assert cut_everywhere(seed) > 40


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(3000, 3100, 50)], ids=str)
def test_cuts_in_recoveries_of_recoveries_lose_nothing(seeds: range) -> None:
    run_each(seeds, run_with_many_cuts)


@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(4000, 4030, 10)], ids=str)
def test_long_histories_with_kills_and_full_disks_lose_nothing(seeds: range) -> None:
    run_each(seeds, run_long)


@pytest.mark.parametrize("seed", range(5000, 5003))
def test_a_cut_at_any_storage_call_of_a_recovery_loses_nothing(seed: int) -> None:
    assert cut_recovery_everywhere(seed) > 40


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_replays_the_same_way(seed: int) -> None:
    first, second = run_with_one_cut(seed), run_with_one_cut(seed)
    assert first.trace == second.trace
    assert first.disk.calls == second.disk.calls
    assert first.model.batches == second.model.batches
    assert run_with_one_cut(seed + 1).trace != first.trace
