"""A pytest plugin: how the processes of ``-n`` share the tests.

* The tests of one file run in one process, and so do those of a directory in ``_TOGETHER``: they share something that
  is slow to start, like a Spark session or an Apache Kafka.
* What takes longest begins first (``_LONGEST_FIRST``), so that the processes end at about the same time.
* At most two processes run tests that start Spark (``_STARTS_SPARK``): it gives a Python worker ten seconds to start,
  whatever one sets, and a machine of two cores does not start three of them in that time.
* A test that ends its process has failed. xdist would run it again in the next process, which would end too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("spark", "client", "console", "house", "mcp")
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
_STARTS_SPARK = (
    "spark",
    "torture",
    "endtoend",
    "examples",
    "cli/test_run_once.py",
    "house/test_docs_run.py",
    "node/test_pages_with_nodes.py",
)
_SPARK_AT_A_TIME = 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort, in a process of ``-n``; a stable sort."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    path = _path(nodeid)
    return next((rank for rank, place in enumerate(_LONGEST_FIRST) if path.is_relative_to(place)), len(_LONGEST_FIRST))


def _starts_spark(nodeid: str) -> bool:
    return any(_path(nodeid).is_relative_to(place) for place in _STARTS_SPARK)


def _path(nodeid: str) -> Path:
    path = Path(nodeid.partition("::")[0])
    return path.relative_to("tests") if path.is_relative_to("tests") else path


class Sharing(LoadScopeScheduling):
    """Hands out whole files, and whole directories of ``_TOGETHER``."""

    def _split_scope(self, nodeid: str) -> str:
        path = _path(nodeid)
        return path.parts[0] if path.parts[0] in _TOGETHER else str(path)

    def _assign_work_unit(self, node: Any) -> None:
        """Give the process the next file, or the next that does not start Spark when others run two that do."""
        others = [units for other, units in self.assigned_work.items() if other is not node]
        if sum(_runs_spark(units) for units in others) >= _SPARK_AT_A_TIME:
            plain = next((scope for scope in self.workqueue if not _starts_spark(scope)), None)
            if plain is not None:
                self.workqueue.move_to_end(plain, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Forget a process that has ended; the test that it was running, which counts as done."""
        units = self.assigned_work[node].values()
        unfinished = ((unit, nodeid) for unit in units for nodeid, is_done in unit.items() if not is_done)
        unit, crashed = next(unfinished, ({}, None))
        if crashed is not None:
            unit[crashed] = True
        super().remove_node(node)
        return crashed


def _runs_spark(units: dict[str, dict[str, bool]]) -> bool:
    return any(_starts_spark(scope) and not all(done.values()) for scope, done in units.items())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """How tests are shared out when ``-n`` asks for several processes."""
    config.option.loadscopereorder = False  # ours is the order above
    return Sharing(config, log)
