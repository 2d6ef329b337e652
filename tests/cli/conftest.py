"""Commands against a real log in this process."""

from __future__ import annotations

import pytest

from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands


@pytest.fixture
def command(
    mainstem_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", mainstem_broker.bootstrap)
    monkeypatch.delenv("MAINSTEM_DEBUG", raising=False)
    return Commands(capsys)
