"""What holds for every test, and which tests stay together when they run on several cores.

* Property tests have no deadline, since a busy machine is no defect.
* With ``-n`` the tests of one file run in one process, and so do those of a directory whose tests share something
  that is slow to start: a Spark session, an Apache Kafka. The slowest directories begin first, so that both cores end
  together.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ("tests.support.browser",)  # Chromium, for whichever test asks for a page

settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("house")

_TESTS = Path(__file__).parent
_TOGETHER = ("spark", "conformance", "client", "gateway", "console")
_FIRST = ("spark", "torture", "history", "endtoend", "conformance")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name each test's group, for ``--dist loadgroup``."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    items.sort(key=lambda item: _rank(item.path))  # a stable sort: within a directory the order stays
    for item in items:
        path = item.path.relative_to(_TESTS)
        item.add_marker(pytest.mark.xdist_group(path.parts[0] if path.parts[0] in _TOGETHER else str(path)))


def _rank(path: Path) -> int:
    directory = path.relative_to(_TESTS).parts[0]
    return _FIRST.index(directory) if directory in _FIRST else len(_FIRST)
