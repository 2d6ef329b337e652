"""The command line as a whole: help, exit codes, one line for every error, pipes and interrupts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainstem import exit_codes
from mainstem.cli import settings
from mainstem.client.log import Log
from mainstem.errors import ConfigError, LogUnavailableError, StorageError, UnknownTopicError
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands

MAINSTEM = [sys.executable, "-m", "mainstem.cli.main"]


def test_help_names_every_command(command: Commands) -> None:
    text = command.run("--help").out
    for name in ("serve", "run", "demo", "load", "topics", "append", "read", "views", "doctor", "bench", "version"):
        assert f"  {name} " in text


def test_the_version_is_told(command: Commands) -> None:
    assert command.run("version").out.startswith("mainstem 0.")
    assert set(command.run("version", "--json").json) == {"version", "python"}
    assert command.run("--version").out == command.run("version").out


@pytest.mark.parametrize("arguments", [("serv",), ("load",), ("load", "--nope"), ("read", "t", "--limit", "x")])
def test_a_wrong_command_line_is_one_line_and_code_2(command: Commands, arguments: tuple[str, ...]) -> None:
    done = command.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "--help" in done.error


def test_a_word_where_a_number_belongs_is_refused_in_plain_words(command: Commands) -> None:
    error = command.run("topics", "create", "t", "--partitions", "x").error
    assert "'--partitions': use a whole number; see mainstem topics create --help" in error


def test_no_command_shows_what_there_is(command: Commands) -> None:
    assert command.run("topics").code == 2


@pytest.mark.parametrize(
    ("error", "code"), [(UnknownTopicError("x"), 1), (LogUnavailableError("x"), 3), (StorageError("x"), 4)]
)
def test_an_error_has_the_exit_code_of_its_kind(error: Exception, code: int) -> None:
    assert exit_codes.exit_code_of(error) == code  # type: ignore[arg-type]


def test_a_log_that_is_not_there_is_one_line_and_code_3(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.cli.connect._TIMEOUT_S", 0.2)
    done = command.run("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert (done.code, "127.0.0.1:1" in done.error) == (3, True)


def test_a_gateway_that_is_not_there_is_one_line_and_code_3(command: Commands) -> None:
    done = command.run("views", "list", "--url", "http://127.0.0.1:1")
    assert (done.code, "is the gateway running?" in done.error) == (3, True)


def test_a_defect_is_one_line_too(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.cli.records.topics.connect", lambda _: 1 / 0)
    done = command.run("topics", "list")
    assert (done.code, done.error.startswith("a defect: ZeroDivisionError")) == (1, True)


def test_output_that_nobody_reads_ends_the_command_quietly(
    command: Commands, mainstem_topic: str, mainstem_broker: EmbeddedBroker
) -> None:
    for number in range(3):
        command.run("append", mainstem_topic, str(number) * 100_000)
    argv = [*MAINSTEM, "read", mainstem_topic, "--bootstrap", mainstem_broker.bootstrap]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.read(10)
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(20) == exit_codes.OUTPUT_CLOSED


def test_an_output_that_is_full_is_one_line_and_code_4(mainstem_topic: str, mainstem_broker: EmbeddedBroker) -> None:
    argv = [*MAINSTEM, "topics", "describe", mainstem_topic, "--bootstrap", mainstem_broker.bootstrap]
    for more in ([], ["--json"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*argv, *more], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode == exit_codes.MACHINE
        assert done.stderr == b"mainstem: error: the output cannot be written: no space left on device\n"


def test_half_of_a_surrogate_pair_ends_no_reading(command: Commands, mainstem_topic: str, mainstem_log: Log) -> None:
    mainstem_log.append(mainstem_topic, rb'{"a":"\ud800"}')
    mainstem_log.append(mainstem_topic, b'{"a":"next"}')
    lines = command.run("read", mainstem_topic, "--json").out.splitlines()
    assert [json.loads(line)["value"]["a"] for line in lines] == ["\ud800", "next"]


def test_an_argument_that_is_no_utf8_is_refused(command: Commands, mainstem_topic: str) -> None:
    done = command.run("append", mainstem_topic, "caf\udce9")
    assert (done.code, done.error) == (1, "'caf\\udce9' is not UTF-8; give values of other bytes by standard input")


def test_an_interrupt_is_quiet_and_code_130(mainstem_topic: str, mainstem_broker: EmbeddedBroker) -> None:
    argv = [*MAINSTEM, "read", mainstem_topic, "--follow", "--bootstrap", mainstem_broker.bootstrap]
    with subprocess.Popen([*argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        subprocess.run(
            [*MAINSTEM, "append", mainstem_topic, "x", "--bootstrap", mainstem_broker.bootstrap],
            capture_output=True,
            timeout=30,
            check=True,
        )
        assert follower.stdout is not None
        assert follower.stdout.readline() == "0:0\t(null)\tx\n"
        follower.send_signal(signal.SIGINT)
        _, error = follower.communicate(timeout=20)
    assert (follower.returncode, error.strip()) == (130, "")


def test_the_address_of_the_gateway_is_not_that_of_the_mcp_server(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text('http = "127.0.0.1:1"\nurl = "http://a:1"\n')
    options = {"http": "http", "url": "url"}
    found = settings.defaults({"serve": options, "mcp": options}, path)
    assert (found["serve"].get("http"), found["mcp"]) == ("127.0.0.1:1", {"url": "http://a:1"})


def test_a_settings_file_gives_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text('bootstrap = "a:1"\n[serve]\nno-http = true\n')
    found = settings.defaults({"serve": {"no-http": "no_http"}, "load": {}}, path)
    assert found["load"] == {"bootstrap": "a:1"}
    assert found["serve"] == {"bootstrap": "a:1", "no_http": True}


def test_a_settings_file_gives_defaults_to_groups_and_to_single_commands_of_them(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text('bootstrap = "a:1"\n[topics]\njson = true\n[topics.create]\npartitions = 2\nbootstrap = "b:1"\n')
    options = {"json": "json", "bootstrap": "bootstrap"}
    commands = {"topics": {}, "topics.list": options, "topics.create": {**options, "partitions": "count"}}
    found = settings.defaults(commands, path)["topics"]
    assert found["list"] == {"bootstrap": "a:1", "json": True}
    assert found["create"] == {"bootstrap": "b:1", "json": True, "count": 2}


def test_a_key_of_a_group_may_have_the_name_of_a_command_in_it(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text("[topics]\npartitions = 3\n[topics.create]\npartitions = 2\n")
    count = {"partitions": "count"}
    commands = {"topics": {}, "topics.create": count, "topics.alter": count, "topics.partitions": {"json": "json"}}
    found = settings.defaults(commands, path)["topics"]
    assert (found["create"], found["alter"], found["partitions"]) == ({"count": 2}, {"count": 3}, {})
    path.write_text("[topics.partitions]\njson = true\n")
    assert settings.defaults(commands, path)["topics"]["partitions"] == {"json": True}


@pytest.mark.parametrize("argv", [("topics", "list", "--all"), ("groups", "list"), ("pipelines",), ("read", "TOPIC")])
def test_every_command_takes_the_address_of_the_settings_file(
    command: Commands,
    mainstem_broker: EmbeddedBroker,
    mainstem_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
) -> None:
    (tmp_path / "mainstem.toml").write_text(f'bootstrap = "{mainstem_broker.bootstrap}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSTEM_BOOTSTRAP")
    monkeypatch.setattr("mainstem.cli.connect._TIMEOUT_S", 10)
    assert command.run(*[mainstem_topic if word == "TOPIC" else word for word in argv]).code == 0


def test_a_settings_file_of_a_log_directory_and_a_gateway_holds_for_groups(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mainstem.toml").write_text(f'data = "{tmp_path / "nowhere"}"\nurl = "http://127.0.0.1:1"\n')
    monkeypatch.chdir(tmp_path)
    assert "nowhere" in command.run("log", "verify").error
    assert "127.0.0.1:1" in command.run("views", "list").error


@pytest.mark.parametrize("text", ["bootstrap = ", "nonsense = 1", "serve = 1", "[topics]\nlist = 1"])
def test_a_settings_file_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        settings.defaults({"serve": {}, "topics": {}, "topics.list": {}}, path)


def test_the_doctor_says_what_to_do(command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    done = command.run("doctor", "--data", str(tmp_path / "data"), "--json")
    java = next(check for check in done.json["checks"] if check["name"] == "Java")
    assert (done.code, java["state"]) == (5, "failed")
    assert "install a JRE" in java["advice"]
    assert not (tmp_path / "data").exists()


def test_the_doctor_draws_a_table(command: Commands, tmp_path: Path) -> None:
    assert "Python" in command.run("doctor", "--data", str(tmp_path)).out


def test_a_bench_measures_a_log(command: Commands, mainstem_broker: EmbeddedBroker) -> None:
    done = command.run("bench", "--bootstrap", mainstem_broker.bootstrap, "--records", "100", "--json")
    assert set(done.json) >= {"produce", "consume", "latency"}


def test_json_is_one_line(command: Commands, mainstem_topic: str) -> None:
    assert len(command.run("topics", "describe", mainstem_topic, "--json").out.splitlines()) == 1
    assert json.loads(command.run("topics", "describe", mainstem_topic, "--json").out)["name"] == mainstem_topic
