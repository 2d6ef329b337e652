"""These tests are run by a command of their own (``make cluster-test``): they take minutes and some 5 GB of memory."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all that is marked ``cluster`` unless the command line asks for that mark."""
    if "cluster" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("cluster") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("cluster") is None]
