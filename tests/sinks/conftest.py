"""The databases as a fixture: a test that asks for ``sink_database`` runs on each."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.pipelines.kinds import SINK_NAMES
from tests.sinks.databases import SinkDatabase, database_of


@pytest.fixture(params=SINK_NAMES)
def sink_database(request: pytest.FixtureRequest, tmp_path: Path) -> SinkDatabase:
    """An empty database, of each product in turn."""
    return database_of(request.param, request, tmp_path)
