"""The gateway and view host processes: their ready line, their one error line, and that they end with their parent."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mainstem.errors import AddressInUseError
from mainstem.gateway.access.tokens import Grants, new_token, write_tokens
from mainstem.gateway.server.serving import listen_unix
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.certificates import Authority
from tests.support.eventually import eventually

APP = """
import mainstem as ms
app = ms.App("process-tests")
things = app.topic("things", schema="id STRING", key="id")
app.view("things", things, ms.KeyValue())
"""


def gateway(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mainstem.gateway.server.process", "--stop-with-parent", *arguments]


@contextmanager
def running(argv: list[str], stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and its ready line; killed at the end if it still runs."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=20)


def failed(argv: list[str], code: int = 1) -> str:
    """The one line that a process which cannot start says."""
    alone = [word for word in argv if word != "--stop-with-parent"]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_the_gateway_says_where_it_listens_and_serves(mainstem_broker: EmbeddedBroker) -> None:
    with running(gateway("--bootstrap", mainstem_broker.bootstrap, "--http", "127.0.0.1:0")) as (_, line):
        assert line.startswith("ready: http 127.0.0.1:")
        url = f"http://{line.removeprefix('ready: http ')}/healthz"
        eventually(lambda: httpx.get(url, trust_env=False, timeout=30).json()["status"] == "ok", "the log answers")


def test_the_gateway_ends_cleanly_with_its_parent(mainstem_broker: EmbeddedBroker) -> None:
    with running(gateway("--bootstrap", mainstem_broker.bootstrap, "--http", "127.0.0.1:0")) as (process, line):
        assert line.startswith("ready:")
        process.communicate("", timeout=20)
        assert process.returncode == 0


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = failed(gateway("--bootstrap", "127.0.0.1:1", "--http", f"127.0.0.1:{port}"), code=4)
    assert line == f"error: 127.0.0.1:{port} is in use by another process; choose another address"


def test_an_address_that_is_not_loopback_is_refused() -> None:
    line = failed(gateway("--bootstrap", "127.0.0.1:1", "--http", "0.0.0.0:0"))
    assert "listens on loopback only" in line
    assert "--insecure" in line


def test_with_tokens_and_tls_it_may_listen_anywhere(mainstem_broker: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("gateway")
    token, text = new_token("root", Grants(admin=("*",)))
    write_tokens(tmp_path / "tokens.json", [token])
    options = ["--tokens", str(tmp_path / "tokens.json"), "--tls-cert", str(certificate), "--tls-key", str(key)]
    with running(gateway("--bootstrap", mainstem_broker.bootstrap, "--http", "0.0.0.0:0", *options)) as (_, line):
        port = line.rpartition(":")[2]
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusting, trust_env=False, timeout=60) as api:
            assert api.get("/config").status_code == 401
            assert api.get("/config", headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_tokens_alone_do_not_make_another_address_safe(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.json", [])
    argv = gateway("--bootstrap", "127.0.0.1:1", "--http", "0.0.0.0:0", "--tokens", str(tmp_path / "tokens.json"))
    assert "and TLS" in failed(argv)


@pytest.mark.parametrize(
    ("option", "words"),
    [("--tokens", "be read"), ("--tls-cert", "no certificate"), ("--cors-origin", "invalid origin")],
)
def test_an_option_that_cannot_be_used_is_one_clear_line(option: str, words: str, tmp_path: Path) -> None:
    assert words in failed(gateway("--bootstrap", "127.0.0.1:1", "--http", "127.0.0.1:0", option, str(tmp_path / "no")))


def test_an_address_that_is_none_is_refused() -> None:
    assert "is not HOST:PORT" in failed(gateway("--bootstrap", "127.0.0.1:1", "--http", "8080"))


def test_a_view_host_says_where_it_listens_and_replaces_a_dead_socket(
    mainstem_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    argv = view_host(tmp_path, mainstem_broker.bootstrap)
    with running(argv) as (_, line):
        assert line == f"ready: views {tmp_path / 's'}"
        transport = httpx.HTTPTransport(uds=str(tmp_path / "s"))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
            assert [view["name"] for view in client.get("/views").json()["views"]] == ["things"]


def test_a_view_host_says_nothing_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.replace("KeyValue", "SQL"))
    # Its own log: other tests leave records in a shared one that a view host warns of.
    with (
        EmbeddedBroker() as broker,
        running(view_host(tmp_path, broker.bootstrap), stderr=subprocess.PIPE) as (process, _),
    ):
        _, said = process.communicate(timeout=60)  # its standard input ends
    assert (process.returncode, said) == (0, "")


def test_a_socket_on_which_someone_answers_is_not_taken_over(tmp_path: Path) -> None:
    with listen_unix(tmp_path / "s") as first:
        first.listen()
        with pytest.raises(AddressInUseError, match="another process serves these views already"):
            listen_unix(tmp_path / "s")


def test_a_missing_app_is_one_clear_line(tmp_path: Path) -> None:
    assert "no such file" in failed(view_host(tmp_path, "127.0.0.1:1"))


def view_host(directory: Path, bootstrap: str) -> list[str]:
    argv = [sys.executable, "-m", "mainstem.gateway.server.view_host_process", "--stop-with-parent"]
    argv += ["--app", str(directory / "app.py"), "--bootstrap", bootstrap]
    return [*argv, "--data", str(directory), "--socket", str(directory / "s")]
