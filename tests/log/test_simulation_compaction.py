"""Seeded histories of a compacted topic: no compaction, and no cut in one, may change a table of committed values."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from mainstem.log.cleaning.cleaning import Cleaning
from mainstem.log.recovery import partition_recovery
from tests.log.simulation.compacted import cut_compaction_everywhere, run_compacted
from tests.log.simulation.mutants import Mutant, find, nothing, setter, wrapper


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 60, 20)], ids=str)
def test_compaction_takes_nothing_that_a_table_needs(seeds: range) -> None:
    for seed in seeds:
        run_compacted(seed)


def test_a_cut_at_any_storage_call_of_a_compaction_loses_nothing() -> None:
    assert sum(cut_compaction_everywhere(seed) for seed in range(100, 105)) > 200


MUTANTS = (
    Mutant(
        "how transactions ended is not looked for behind what is compacted",
        wrapper(Cleaning, "compaction_job", lambda original: lambda *args: original(*args)._replace(later=[])),
        (run_compacted,),
    ),
    Mutant(
        "what a crash has left of a swap is not finished",
        setter(partition_recovery, "finish_swaps", nothing),
        (cut_compaction_everywhere,),
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_simulation_finds(mutant: Mutant) -> None:
    assert find(mutant, 60) is not None
