"""Each fault that is put into the log on purpose is found by the simulation within a few seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.log.simulation.mutants import MUTANTS, Mutant, find

SEEDS = 200
"""More than any mutant has taken by far, so that a change of the histories does not let one through."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_simulation_finds(mutant: Mutant) -> None:
    assert find(mutant, SEEDS) is not None


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
