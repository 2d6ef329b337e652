"""The ports that tests draw: no two workers the same, and none twice."""

from __future__ import annotations

import pytest

from tests.support.ports import free_port


def test_two_workers_never_draw_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[set[int]] = []
    for worker in ("gw0", "gw1", "gw7"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        drawn.append({free_port() for _ in range(300)})
    assert [len(each) for each in drawn] == [300, 300, 300]
    assert not drawn[0] & drawn[1] | drawn[0] & drawn[2] | drawn[1] & drawn[2]
