"""Failures of background work are logged and counted."""

from __future__ import annotations

import pytest

from mainstem.background import failed, failures


def test_a_failure_is_logged_with_its_traceback_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    before = failures().get("a test", 0)
    failed("a test", ValueError("unforeseen"))
    assert failures()["a test"] == before + 1
    assert "unforeseen" in caplog.text
    assert caplog.records[-1].exc_info is not None
