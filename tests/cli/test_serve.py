"""``mainstem serve`` as a process: ready, served, stopped; and what stands in its way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands
from tests.support.descriptors import is_readable
from tests.support.eventually import eventually

SERVE = [sys.executable, "-m", "mainstem.cli.start", "serve"]


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A node and the line that it printed when it was ready."""
    argv = [*SERVE, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def failed(*arguments: str) -> tuple[int, str]:
    """Exit code and error line of a node that cannot start."""
    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.returncode, line.removeprefix("mainstem: error: ")


def test_http_alone_serves_a_log_that_runs_already(tmp_path: Path, mainstem_broker: EmbeddedBroker) -> None:
    where = ("--data", str(tmp_path), "--http-for", mainstem_broker.bootstrap, "--no-console", "--json")
    with serving(*where) as (_, line):
        ready = json.loads(line)["ready"]
        assert ready["kafka"] == mainstem_broker.bootstrap
        url = f"http://{ready['http']}"
        eventually(lambda: httpx.get(f"{url}/healthz", trust_env=False, timeout=60).is_success, "the log answers")
        assert httpx.get(f"{url}/metrics", trust_env=False, timeout=60).status_code == 404
    assert not (tmp_path / "meta.properties").exists()


def test_a_node_serves_log_and_http_and_stops_cleanly(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path), "--json", "--set", "num.partitions=2") as (process, line):
        ready = json.loads(line)["ready"]
        with Log(ready["kafka"], timeout_s=20) as log:
            assert log.create_topic("t").partitions == 2
            position = log.append("t", "x")
        records = httpx.get(f"http://{ready['http']}/topics/t/records", trust_env=False, timeout=30).json()
        assert records["position"] == str(log_end(ready["kafka"])) or records["records"][0]["value"] == "x"
        assert position.topics == {"t"}
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error.strip()) == (0, "mainstem: stopping")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def log_end(bootstrap: str) -> object:
    with Log(bootstrap, timeout_s=20) as log:
        return log.end("t")


def test_the_log_comes_back_at_its_address_when_it_is_killed(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path), "--no-http") as (process, line):
        address = line.split()[2]
        with Log(address, timeout_s=30) as log:
            log.create_topic("t", partitions=1)
            log.append("t", "before")
            subprocess.run(["kill", "-9", log_pid(process.pid)], check=True, timeout=10)
            assert process.stderr is not None
            assert "log ended with SIGKILL; it starts again" in process.stderr.readline()
            log.append("t", "after")
            assert [record.value for record in log.read("t")] == [b"before", b"after"]


def log_pid(parent: int) -> str:
    """The log process, the one child of a node without HTTP."""
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0]


def test_a_killed_node_leaves_no_process_behind(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path)) as (process, line):
        assert line.startswith("ready: kafka ")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ends = [os.pidfd_open(int(child)) for child in children]
        process.kill()
        assert len(ends) == 2
        for end in ends:
            assert is_readable(end, 30), "a child still runs"
            os.close(end)


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = failed("--data", str(tmp_path), "--listen", address, "--no-http")
    assert code == 4
    assert address in line


def test_a_data_directory_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path), "--no-http") as (_, line):
        assert line.startswith("ready: kafka ")
        code, error = failed("--data", str(tmp_path), "--listen", "127.0.0.1:0", "--no-http")
    assert code == 4
    assert str(tmp_path) in error


def test_a_data_directory_that_cannot_be_written_is_one_clear_line(command: Commands, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command.run("serve", "--data", str(tmp_path / "file" / "data"), "--listen", "127.0.0.1:0")
    assert (done.code, "the data directory cannot be used" in done.error) == (4, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--listen", "nowhere"], "is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "with a port up to 65535"),
        (["--listen", "192.0.2.7:0", "--insecure"], "use an address of this machine"),
        (["--listen", "127.0.0.1:0", "--set", "no.such.setting=1"], "no.such.setting"),
        (["--listen", "127.0.0.1:0", "--set", "num.partitions"], "NAME=VALUE"),
    ],
)
def test_a_setting_that_is_wrong_is_one_clear_line(
    command: Commands, tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = command.run("serve", "--data", str(tmp_path), "--no-http", *arguments)
    assert (done.code, done.out) == (1, "")
    assert words in done.error


def test_the_schema_registry_has_an_address_of_its_own(tmp_path: Path, mainstem_broker: EmbeddedBroker) -> None:
    where = ("--data", str(tmp_path), "--http-for", mainstem_broker.bootstrap, "--no-http", "--json")
    with serving(*where, "--registry", "127.0.0.1:0") as (_, line):
        ready = json.loads(line)["ready"]
        assert ready.keys() == {"kafka", "registry"}
        url = f"http://{ready['registry']}"
        types = httpx.get(f"{url}/schemas/types", trust_env=False, timeout=60)
        assert sorted(types.json()) == ["AVRO", "JSON", "PROTOBUF"]
