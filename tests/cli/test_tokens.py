"""``mainstem tokens``: made once, listed by name, revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.gateway.access.tokens import digest_of, read_tokens
from tests.cli.commands import Commands


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tokens.json"
    monkeypatch.setenv("MAINSTEM_HTTP_TOKENS", str(path))
    return path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def test_a_token_is_made_listed_and_revoked(command: Commands, file: Path) -> None:
    made = command.run("tokens", "create", "shop", "--read", "view:*", "--write", "topic:orders")
    assert read_tokens(file)["shop"].sha256 == digest_of(made.out.strip())
    assert made.out.strip() not in file.read_text()
    [row] = command.run("tokens", "list", "--json").json["tokens"]
    assert row == {"name": "shop", "read": ["view:*"], "write": ["topic:orders"], "admin": []}
    assert command.run("tokens", "revoke", "shop", "--yes").out == "revoked shop\n"
    assert read_tokens(file) == {}


def test_what_cannot_be_is_one_line(command: Commands, file: Path) -> None:
    assert "needs a scope" in command.run("tokens", "create", "shop").error
    assert "topic:NAME" in command.run("tokens", "create", "shop", "--read", "orders").error
    command.run("tokens", "create", "shop", "--read", "*")
    assert "revoke it first" in command.run("tokens", "create", "shop", "--read", "*").error
    assert "token 'other' is not in" in command.run("tokens", "revoke", "other", "--yes").error
    file.chmod(0o644)
    assert "chmod 600" in command.run("tokens", "list").error


def test_a_missing_file_says_which_command_makes_it(command: Commands, tmp_path: Path) -> None:
    error = command.run("tokens", "list", "--file", str(tmp_path / "none.json")).error
    assert error.endswith("No such file or directory; mainstem tokens create makes the file")
