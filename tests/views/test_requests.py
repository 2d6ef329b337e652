from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstem.errors import QueryError
from mainstem.views.requests import Neighbors, Path, Range, SearchQuery, Sql


@pytest.mark.parametrize(
    "make",
    [
        lambda: Range(limit=0),
        lambda: Range(limit=100_001),
        lambda: Sql("SELECT 1", limit=-1),
        lambda: Sql("SELECT 1", timeout_s=0),
        lambda: Sql("SELECT 1", timeout_s=301),
        lambda: Sql("SELECT 1", timeout_s=float("nan")),
        lambda: SearchQuery("x", limit=0),
        lambda: Neighbors("A", hops=0),
        lambda: Neighbors("A", hops=17),
        lambda: Neighbors("A", direction="up"),  # type: ignore[arg-type]
        lambda: Path("A", "B", direction="up"),  # type: ignore[arg-type]
    ],
)
def test_a_request_out_of_its_limits_is_refused_when_it_is_made(make: Callable[[], Any]) -> None:
    with pytest.raises(QueryError):
        make()
