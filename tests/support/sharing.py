"""A pytest plugin: how the processes of ``-n`` share the tests.

* The tests of one file run in one process, and so do those of a directory in ``_TOGETHER``: they share something that
  is slow to start, like a Spark session or an Apache Kafka.
* What takes longest begins first (``_LONGEST_FIRST``), so that the processes end at about the same time.
* A test that ends its process has failed. xdist would run it again in the next process, which would end too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("spark", "client", "console")
_LONGEST_FIRST = (
    "spark",
    "torture",
    "history/test_histories.py",
    "conformance",
    "differential",
    "hostile",
    "endtoend",
    "client",
    "console",
    "examples",
    "views",
    "fuzz",
    "log/test_simulation_mutants.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort, in a process of ``-n``; a stable sort."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    path = _path(nodeid)
    return next((rank for rank, place in enumerate(_LONGEST_FIRST) if path.is_relative_to(place)), len(_LONGEST_FIRST))


def _path(nodeid: str) -> Path:
    path = Path(nodeid.partition("::")[0])
    return path.relative_to("tests") if path.is_relative_to("tests") else path


class Sharing(LoadScopeScheduling):
    """Hands out whole files, and whole directories of ``_TOGETHER``."""

    def _split_scope(self, nodeid: str) -> str:
        path = _path(nodeid)
        return path.parts[0] if path.parts[0] in _TOGETHER else str(path)

    def remove_node(self, node: Any) -> str | None:
        """Forget a process that has ended; the test that it was running, which counts as done."""
        units = self.assigned_work[node].values()
        unfinished = ((unit, nodeid) for unit in units for nodeid, is_done in unit.items() if not is_done)
        unit, crashed = next(unfinished, ({}, None))
        if crashed is not None:
            unit[crashed] = True
        super().remove_node(node)
        return crashed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """How tests are shared out when ``-n`` asks for several processes."""
    config.option.loadscopereorder = False  # ours is the order above
    return Sharing(config, log)
