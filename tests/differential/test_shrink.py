"""Shrinking keeps what is needed, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.differential.shrink import shrink


@pytest.mark.parametrize("needed", [{3}, {0, 29}, {5, 6, 7}, {1, 10, 20, 28}])
def test_only_what_is_needed_stays(needed: set[int]) -> None:
    def still_shows(items: Sequence[int]) -> bool:
        return needed <= set(items)

    assert shrink(range(30), still_shows, tries=1000) == sorted(needed)


def test_the_tries_are_bounded() -> None:
    tried = []

    def still_shows(items: Sequence[int]) -> bool:
        tried.append(items)
        return False

    assert shrink(range(30), still_shows, tries=7) == list(range(30))
    assert len(tried) == 7
