"""Where backups go in tests: a directory, a bucket of a real S3 server, and a container of Microsoft's own Azurite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.azure_server import CONTAINER, AzureServer
from tests.support.s3_server import BUCKET, S3Server

_Server = TypeVar("_Server", S3Server, AzureServer)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs in this process write their checkpoint, for which a backup waits, ten times a second, not once."""
    monkeypatch.setattr("mainstem.broker.server._CHECKPOINT_INTERVAL_S", 0.1)


@pytest.fixture
def s3_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    yield from _served(S3Server(tmp_path / "s3"), monkeypatch)


@pytest.fixture
def azure_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureServer]:
    yield from _served(AzureServer(tmp_path / "azure"), monkeypatch)


def _served(server: _Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """Run the server, with what its clients need in the environment."""
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.fixture(params=["directory", "s3", "azure"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return f"file://{tmp_path / 'copies'}"
    request.getfixturevalue(f"{request.param}_server")
    return f"s3://{BUCKET}/log" if request.param == "s3" else f"az://{CONTAINER}/log"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A log of its own for each test: a backup is of the whole directory."""
    with EmbeddedBroker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap) as client:
        yield client
