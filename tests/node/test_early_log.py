"""The log process that loads before its arguments are known: it gets them, or it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.node import early_log, roles
from mainstem.node.child import Child
from mainstem.node.roles import Role

_S_MAX = 60


def _role(tmp_path: Path) -> Role:
    return roles.log_role(tmp_path / "data", "127.0.0.1:0", tmp_path / "metrics.sock")


def _end(child: Child) -> None:
    child.terminate()
    assert child.wait_ended(_S_MAX) == 0


def test_the_first_log_of_a_node_is_the_early_process(tmp_path: Path) -> None:
    early_log.begin()
    process = early_log._early
    assert process is not None
    child = Child(_role(tmp_path), tmp_path)
    assert child.pid == process.pid
    assert child.wait_ready().startswith("127.0.0.1:")
    assert early_log.take(_role(tmp_path).argv) is None, "it is taken"
    _end(child)


def test_an_early_process_that_died_is_replaced(tmp_path: Path) -> None:
    early_log.begin()
    process = early_log._early
    assert process is not None
    process.kill()
    process.wait(_S_MAX)
    child = Child(_role(tmp_path), tmp_path)
    assert child.pid != process.pid
    assert child.wait_ready()
    _end(child)


def test_it_ends_when_no_log_is_started() -> None:
    early_log.begin()
    process = early_log._early
    assert process is not None
    early_log.discard()
    assert process.returncode is not None
    assert early_log._early is None
    early_log.discard()


def test_ctrl_c_while_modules_load_ends_all_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mainstem.cli import start

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["mainstem", "serve"])
    monkeypatch.setattr("mainstem.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130
    assert early_log._early is None
    assert capsys.readouterr().err == ""


def test_it_ends_with_its_parent() -> None:
    process = early_log.started([*early_log._PYTHON, "--arguments-from-stdin"], {})
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        process.stdin.write(b"[")  # cut off in the middle
        process.stdin.close()
        assert process.wait(_S_MAX) == 0


@pytest.mark.parametrize(
    ("argv", "starts"),
    [
        (["serve"], True),
        (["serve", "--no-http"], True),
        (["serve", "--http-for", "localhost:9092"], False),
        (["serve", "--http-for=localhost:9092"], False),
        (["serve", "-h"], False),
        (["run", "app.py"], False),
        ([], False),
    ],
)
def test_only_what_starts_a_log_begins_one(
    argv: list[str], starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstem.cli.start import _starts_a_log

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSTEM_CLIENT_CONFIG", raising=False)
    assert _starts_a_log(argv) is starts
    Path("mainstem.toml").write_text("")
    assert not _starts_a_log(argv), "its security options are in the environment of what it starts"
    assert "MAINSTEM_CLIENT_CONFIG" not in os.environ
