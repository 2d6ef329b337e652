"""``mainstem log``: over directories that a log has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainstem.clock import SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.record.writer import NewRecord, build_batch
from tests.cli.commands import Commands


@pytest.fixture
def data(tmp_path: Path) -> Path:
    clock = SystemClock()
    node = NodeLog.open(OsDisk(), clock, tmp_path / "data", {})
    node.create_topic("flights", 1, {})
    node.get(TopicPartition("flights", 0)).append(build_batch([NewRecord(b"UA", b"late", (), clock.time_ms())]))
    node.close()
    return tmp_path / "data"


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def test_a_whole_directory_is_verified(commands: Commands, data: Path) -> None:
    done = commands.run("log", "verify", "--data", str(data))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "no damage"
    report = commands.run("log", "verify", "--data", str(data), "--json").json
    assert (report["ok"], report["damages"]) == (True, [])
    assert report["records"] >= 2


def test_damage_is_named_and_is_the_exit_code(commands: Commands, data: Path) -> None:
    path = data / "flights-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[65] ^= 1
    path.write_bytes(content)
    done = commands.run("log", "verify", "--data", str(data))
    assert done.code == 5
    assert f"flights-0/{path.name}, file position 0, offset 0: " in done.out
    report = commands.run("log", "verify", "--data", str(data), "--json")
    assert report.code == 5
    assert report.json["damages"][0]["offset"] == 0


def test_a_partition_or_a_file_is_dumped(commands: Commands, data: Path) -> None:
    done = commands.run("log", "dump", "flights-0", "--data", str(data))
    assert done.code == 0
    assert "value: late" in done.out
    path = data / "flights-0" / f"{0:020d}.log"
    (line,) = commands.run("log", "dump", str(path), "--json").out.splitlines()
    assert json.loads(line)["records"][0]["key"] == "UA"
    assert "value" not in commands.run("log", "dump", str(path), "--headers-only").out


@pytest.mark.parametrize(
    "arguments", [["verify", "--data", "nowhere"], ["dump", "nothing-0"], ["dump", "README.md", "--data", "."]]
)
def test_what_is_not_there_is_one_clear_error(commands: Commands, arguments: list[str]) -> None:
    done = commands.run("log", *arguments)
    assert done.code != 0
    assert done.error


def test_a_file_of_another_kind_is_one_error_and_nothing_else(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    done = commands.run("log", "dump", str(tmp_path / "x.csv"))
    assert (done.code, done.out) == (1, "")
    assert "is not a log's file: name a .log" in done.error
