from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.views.stores.store import ViewStore
from tests.views.support import KINDS, KindUnderTest


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> KindUnderTest:
    """Each kind of view; an archive where the test is not about the latest value of each key."""
    chosen: KindUnderTest = request.param
    if chosen.keeps_everything and request.node.get_closest_marker("latest_values"):
        pytest.skip("an archive keeps every record")
    chosen.prepare(request)
    return chosen


@pytest.fixture
def store(kind: KindUnderTest, tmp_path: Path) -> Iterator[ViewStore]:
    """An empty store of each kind."""
    opened = kind.open(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _yielding() -> Iterator[None]:
    """As in a view host's process: a thread that computes hands the interpreter's lock over soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)
