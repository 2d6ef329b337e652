"""The systemd unit: the messages of a node to the service manager, ``mainstem health``, and that the unit fits."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from mainstem.cli.main import command_line, execute
from mainstem.cli.service_manager import SOCKET_VARIABLE, notify_ready, notify_stopping
from mainstem.exit_codes import FINAL, NOT_NOW
from mainstem.node.layout import Layout

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "mainstem.service"
_S_MAX = 60


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(_S_MAX)
        listening.bind(str(tmp_path / "notify"))
        yield listening


def _heard(manager: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


def _serve(manager: socket.socket, data: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "mainstem.cli.start", "serve", "--no-http", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, SOCKET_VARIABLE: manager.getsockname()}
    return subprocess.Popen([*argv, "--data", str(data)], env=environment, stdout=subprocess.PIPE, text=True)


def test_a_node_says_when_it_is_ready_and_when_it_stops(
    manager: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert execute(["health", "--data", str(data)]) == NOT_NOW, "no node yet"
    assert str(data) in capsys.readouterr().err
    with _serve(manager, data) as node:
        try:
            ready = _heard(manager)
            assert node.stdout is not None
            line = node.stdout.readline().strip()
            assert line.startswith("ready: kafka 127.0.0.1:")
            assert ready == {"READY": "1", "STATUS": line}
            assert execute(["health", "--data", str(data), "--json"]) == 0
            assert capsys.readouterr().out == '{"ok":true}\n'
        finally:
            node.terminate()
        assert _heard(manager) == {"STOPPING": "1", "STATUS": "stopping"}
        assert node.wait(_S_MAX) == 0
    assert execute(["health", "--data", str(data)]) == NOT_NOW, "the node has stopped"


def test_a_log_that_is_silent_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(tmp_path / "data")
    layout.make_directories()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(layout.socket("metrics")))
        silent.listen()
        assert execute(["health", "--data", str(layout.data), "--timeout", "0.2"]) == NOT_NOW
    assert "no answer in time" in capsys.readouterr().err


def test_messages_go_to_an_abstract_socket_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(_S_MAX)
        listening.bind("")  # the kernel chooses an abstract name
        monkeypatch.setenv(SOCKET_VARIABLE, "@" + listening.getsockname()[1:].decode())
        notify_ready("one\nREADY=0")
        assert _heard(listening) == {"READY": "1", "STATUS": "one READY=0"}, "a status stays one line"
        notify_stopping()
        assert _heard(listening)["STOPPING"] == "1"


@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:1234"])
def test_a_manager_that_cannot_be_reached_is_a_warning(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, address)
    notify_ready("ready")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mainstem: WARNING: ")
    assert address in line


def test_the_unit_fits_the_product() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE))
    program, command, *options = settings["ExecStart"].split()
    assert (Path(program).name, command, options) == ("mainstem", "serve", [])
    assert {int(code) for code in settings["RestartPreventExitStatus"].split()} == FINAL
    assert (settings["Type"], settings["NotifyAccess"], settings["KillMode"]) == ("notify", "main", "mixed")
    assert settings["WorkingDirectory"] == f"/etc/{settings['ConfigurationDirectory']}"
    given = dict(pair.split("=", 1) for pair in settings["Environment"].split())
    serve = typer.main.get_command(command_line("serve"))
    known = {each.envvar for each in serve.commands["serve"].params}  # type: ignore[attr-defined]
    assert {name for name in given if name.startswith("MAINSTEM_")} <= known
    assert given["MAINSTEM_DATA"] == f"/var/lib/{settings['StateDirectory']}"
    assert given["XDG_CACHE_HOME"] == f"/var/cache/{settings['CacheDirectory']}"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8").replace("/opt/mainstem/bin/mainstem", "/bin/true")
    unit.write_text(text, encoding="utf-8")
    argv = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_S_MAX, check=False)
    own = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, own) == (0, [])
