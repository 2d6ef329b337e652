"""The log process: its one line, its stop, and one clear line for each reason not to run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from mainstem.exit_codes import MACHINE, REFUSED
from tests.broker.harness import TIMEOUT_S, Client, LogProcess, child_environment

HEAVY = (
    "pyspark",
    "numba",
    "pyarrow",
    "pandas",
    "numpy",
    "fastapi",
    "uvicorn",
    "starlette",
    "duckdb",
    "rocksdict",
    "kio",
)


def run_to_its_end(process: LogProcess, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        process.argv(*more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        env=child_environment(),
        check=False,
    )


def refusal(process: LogProcess, *more: str, code: int = MACHINE) -> str:
    """The one line with which the process refuses to run."""
    done = run_to_its_end(process, *more)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process = LogProcess(tmp_path / "data").start()
    os.kill(process.pid, number)
    assert process._process is not None
    process._process.wait(60)  # a second signal could come when the first one's handler is gone
    assert process.stop() == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_end_of_its_standard_input_stops_it_when_asked_to(tmp_path: Path) -> None:
    process = LogProcess(tmp_path / "data").start("--stop-with-parent")
    assert process._process is not None
    process._process.stdin.close()
    assert process._process.wait(TIMEOUT_S) == 0


def test_without_being_asked_it_outlives_its_standard_input(tmp_path: Path) -> None:
    process = LogProcess(tmp_path / "data").start()
    assert process._process is not None
    process._process.stdin.close()
    socket.create_connection(("127.0.0.1", int(process.bootstrap.split(":")[1])), timeout=TIMEOUT_S).close()
    assert process.stop() == 0


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = LogProcess(tmp_path / "data")
        process.bootstrap = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "is in use" in refusal(process)
    assert LogProcess(tmp_path / "data").start().stop() == 0


def test_a_directory_that_another_process_owns_is_one_clear_line(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data"):
        assert str(tmp_path / "data") in refusal(LogProcess(tmp_path / "data"))


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert str(tmp_path / "file") in refusal(LogProcess(tmp_path / "file" / "data"))


def test_a_directory_that_is_not_writable_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    argv = LogProcess(tmp_path / "data").argv()
    if os.geteuid() == 0:  # root may write everywhere, unless it gives that up
        argv = ["setpriv", "--bounding-set=-dac_override", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (MACHINE, "")
    assert done.stderr.splitlines() == [f"error: cannot make the directory {tmp_path / 'data'}: Permission denied"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "nonsense=1"], "unknown setting 'nonsense'"),
        (["--set", "num.partitions=0"], "num.partitions='0'"),
        (["--set", "log.segment.bytes=x"], "segment.bytes='x'"),
        (["--set", "num.partitions"], "NAME=VALUE"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--listen", "127.0.0.1:0,SASL_PLAINTEXT://0.0.0.0:0"], "no encryption"),
        (["--listen", "SSL://127.0.0.1:0"], "ssl.keystore.location"),
        (["--listen", "TLS://127.0.0.1:0"], "security protocol"),
        (["--set", "advertised.listeners=SSL://a:1"], "nothing listens"),
        (["--set", "super.users=alice"], "User:alice"),
        (["--listen", "no.such.host.invalid:0", "--insecure"], "no.such.host.invalid"),
    ],
)
def test_an_impossible_setting_is_one_clear_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    assert says in refusal(LogProcess(tmp_path / "data"), *arguments, code=REFUSED)


def test_it_listens_elsewhere_when_someone_insists(tmp_path: Path) -> None:
    process = LogProcess(tmp_path / "data")
    process.bootstrap = "0.0.0.0:0"
    assert process.start("--insecure").stop() == 0


def test_the_log_process_loads_nothing_heavy() -> None:
    code = f"import sys, mainstem.broker.process; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.strip() == "[]"


def test_who_asks_for_a_change_is_told_when_that_is_wanted_and_nothing_secret_is(tmp_path: Path) -> None:
    argv = LogProcess(tmp_path / "data").argv("--log-format", "json", "--log-level", "INFO")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment()
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().rpartition(" ")[2].strip()
        host, _, port = address.rpartition(":")

        async def ask() -> None:
            client = await Client((host, int(port)), cast("Any", None)).connect()
            await client.create_topic("t")
            await client.produce("t", b"a secret value")
            client.close()

        asyncio.run(ask())
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT_S)
    events = [json.loads(line) for line in errors.decode().splitlines()]
    (change,) = [event for event in events if event["event"] == "request answered"]
    assert (change["api"], change["client_id"], change["principal"]) == ("CREATE_TOPICS", "test", "User:ANONYMOUS")
    assert [event["event"] for event in events][-1] == "stopped"
    assert b"secret value" not in errors


def test_only_its_owner_can_enter_its_data_directory_and_read_what_is_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    process = LogProcess(data).start()
    host, port = process.bootstrap.split(":")

    async def use() -> None:
        client = await Client((host, int(port)), cast("Any", None)).connect()
        await client.create_topic("t")
        await client.produce("t", b"secret")
        client.close()

    asyncio.run(use())
    assert process.stop() == 0
    assert data.stat().st_mode & 0o777 == 0o700
    files = [path for path in data.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in files)
    assert [path for path in files if path.stat().st_mode & 0o077] == []


def test_a_data_directory_with_other_things_in_it_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "letter.txt").touch()
    assert "chmod 700" in refusal(LogProcess(home))
    assert sorted(path.name for path in home.iterdir()) == ["letter.txt"]


def test_a_full_disk_at_the_first_start_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    process = LogProcess(tmp_path / "data")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", *process.argv()],  # a write beyond 0 bytes fails
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        env=child_environment(),
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.startswith(f"error: cannot write {tmp_path}/data/meta.properties")) == (MACHINE, True)
