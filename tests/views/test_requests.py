from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstem.errors import QueryError
from mainstem.views.requests import NeighborsQuery, PathQuery, RangeQuery, SearchQuery, SqlQuery


@pytest.mark.parametrize(
    "make",
    [
        lambda: RangeQuery(limit=0),
        lambda: RangeQuery(limit=100_001),
        lambda: SqlQuery("SELECT 1", limit=-1),
        lambda: SqlQuery("SELECT 1", timeout_s=0),
        lambda: SqlQuery("SELECT 1", timeout_s=301),
        lambda: SqlQuery("SELECT 1", timeout_s=float("nan")),
        lambda: SearchQuery("x", limit=0),
        lambda: NeighborsQuery("A", hops=0),
        lambda: NeighborsQuery("A", hops=17),
        lambda: NeighborsQuery("A", direction="up"),  # type: ignore[arg-type]
        lambda: PathQuery("A", "B", direction="up"),  # type: ignore[arg-type]
    ],
)
def test_a_request_out_of_its_limits_is_refused_when_it_is_made(make: Callable[[], Any]) -> None:
    with pytest.raises(QueryError):
        make()
