from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.views.store import ViewStore
from tests.views.support import KINDS, KindUnderTest


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> KindUnderTest:
    """Each kind of view."""
    chosen: KindUnderTest = request.param
    return chosen


@pytest.fixture
def store(kind: KindUnderTest, tmp_path: Path) -> Iterator[ViewStore]:
    """An empty store of each kind."""
    opened = kind.open(tmp_path / "store")
    yield opened
    opened.close()
