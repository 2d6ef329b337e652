"""What holds for every test, and which tests stay together when they run on several cores.

* Property tests have no deadline, since a busy machine is no defect.
* With ``-n`` the tests of one file run in one process, and so do those of a directory whose tests share something
  that is slow to start: a Spark session, an Apache Kafka.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ("tests.support.browser",)  # Chromium, for whichever test asks for a page

settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("house")

_TOGETHER = ("spark", "conformance", "client", "gateway", "console")
_FIRST = ("spark", "torture", "history", "endtoend", "conformance", "gateway")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes the slowest directories come first, so that all of them end at about the same time."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _rank(item.nodeid))  # a stable sort


def _rank(nodeid: str) -> int:
    directory = _directory(nodeid)
    return _FIRST.index(directory) if directory in _FIRST else len(_FIRST)


def _directory(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).relative_to("tests").parts[0]


class _Together(LoadScopeScheduling):
    """Hands out whole files, and whole directories of ``_TOGETHER``."""

    def _split_scope(self, nodeid: str) -> str:
        directory = _directory(nodeid)
        return directory if directory in _TOGETHER else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Together:
    """How tests are shared out when ``-n`` asks for several processes."""
    config.option.loadscopereorder = False  # ours is the order above
    return _Together(config, log)
