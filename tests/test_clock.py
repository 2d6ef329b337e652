"""Times in words."""

from __future__ import annotations

import pytest

from mainstem.clock import utc_time


@pytest.mark.parametrize(
    ("time_ms", "written"),
    [(0, "1970-01-01T00:00:00Z"), (1_795_655_930_798, "2026-11-26T01:18:50Z"), (10**17, f"{10**17} ms")],
)
def test_a_time_is_written_as_commands_take_it(time_ms: int, written: str) -> None:
    assert utc_time(time_ms) == written
