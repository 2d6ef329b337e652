from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mainstem.errors import QueryError
from mainstem.model import Position
from mainstem.views.read_options import ReadOptions


@pytest.mark.parametrize("timeout_s", [-0.1, 300.1, math.inf, math.nan])
def test_a_time_out_beyond_its_bounds_is_refused(timeout_s: float) -> None:
    with pytest.raises(QueryError, match="from 0 to 300 s"):
        ReadOptions(timeout_s=timeout_s)


@pytest.mark.parametrize("max_lag_ms", [-1, 86_400_001])
def test_a_lag_beyond_its_bounds_is_refused(max_lag_ms: int) -> None:
    with pytest.raises(QueryError, match="from 0 to 86400000"):
        ReadOptions(max_lag_ms=max_lag_ms)


def test_a_past_state_cannot_be_fresh_as_well() -> None:
    for fresh in (ReadOptions(max_lag_ms=1), ReadOptions(at_least=Position())):
        with pytest.raises(QueryError, match="give one of them"):
            replace(fresh, as_of=0)
