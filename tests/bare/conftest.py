"""The interpreter of an installation without extras."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bare.environment import make_environment


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MAINSTEM_BARE_PYTHON, or that of an environment made for these tests."""
    given = os.environ.get("MAINSTEM_BARE_PYTHON")
    return Path(given) if given else make_environment(tmp_path_factory.mktemp("bare") / "environment")
