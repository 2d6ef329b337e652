"""What the log does beside requests goes on after a failure, which is counted and logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.planted import DefectiveLog
from tests.hostile.support import Raw, address_of, metric
from tests.support.eventually import eventually

FAILURES = 'mainstem_chore_failures_total{chore="offset expiry"}'
OTHER_FAILURES = 'mainstem_chore_failures_total{chore="retention"}'


def test_a_chore_that_fails_is_counted_logged_and_begun_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {"offsets_retention_check_interval_ms": "50"}
    with DefectiveLog("a chore that raises", tmp_path / "data", **settings) as log, Raw(address_of(log)) as good:
        shown = ""

        def has_worked() -> bool:
            nonlocal shown
            good.ping()
            shown += capfd.readouterr().err
            return "of the planted chore is done" in shown

        eventually(has_worked, "the chore works again")
        assert (metric(log, FAILURES), metric(log, OTHER_FAILURES)) == (2, 0)
    for number in (1, 2):
        assert f"planted in round {number}" in shown
    assert shown.count("offset expiry failed; tried again in") == 2
