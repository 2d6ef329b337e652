"""``mainstem backup`` and ``mainstem restore``: results, one line for each error, and the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.cli.settings import defaults
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


def test_a_log_is_backed_up_verified_and_restored(commands: Commands, data: Path, tmp_path: Path) -> None:
    url, target = str(tmp_path / "copies"), tmp_path / "restored"
    assert commands.run("backup", url, "--data", str(data), "--once", "--json").json == {
        "point": 1,
        "url": url,
        "left_out": [],
    }
    report = commands.run("backup", "verify", url, "--json").json
    assert (report["ok"], report["points"], report["damages"]) == (True, 1, [])
    assert commands.run("backup", "points", url, "--json").json["position"] == "flights/0:1"
    done = commands.run("restore", url, "--to", str(target), "--json").json
    assert (done["position"], done["newest_position"], done["partitions"]) == ("flights/0:1", "flights/0:1", 2)
    assert (target / "flights-0" / "00000000000000000000.log").read_bytes() == (
        data / "flights-0" / "00000000000000000000.log"
    ).read_bytes()
    again = commands.run("restore", url, "--to", str(target))
    assert again.code == 1
    assert "exists and is not empty" in again.error


def test_what_is_missing_is_said(commands: Commands, data: Path, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    commands.run("backup", url, "--data", str(data), "--once")
    done = commands.run("restore", url, "--to", str(tmp_path / "restored"))
    assert "missing: what the log stored after" in done.out
    assert "from these offsets on: flights/0:1" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("backup", "ftp://host/x", "--once"), 1, "invalid backup URL"),
        (("backup", "copies", "--once", "--data", "nowhere"), 4, "is not a data directory"),
        (("backup", "copies", "--keep", "soon"), 1, "invalid duration 'soon'"),
        (("backup",), 2, "Missing argument 'URL'"),
        (("backup", "verify", "nowhere"), 1, "holds no backup"),
        (("restore", "nowhere", "--to", "restored"), 1, "holds no backup"),
    ],
)
def test_an_error_is_one_line(
    commands: Commands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = commands.run(*arguments)
    assert done.code == code
    assert said in done.error


def test_the_settings_file_names_the_backup_of_serve_and_run(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.toml"
    path.write_text('[backup]\nurl = "s3://b/log"\nkeep = "30d"\n[serve]\ndata = "here"\n')
    served = {"backup": "backup", "backup-every": "backup_every", "backup-keep": "backup_keep", "data": "data"}
    commands = {"serve": served, "run": served, "backup": {}, "backup.to": {"keep": "keep", "every": "every"}}
    found = defaults(commands, path)
    assert found["serve"] == {"backup": "s3://b/log", "backup_keep": "30d", "data": "here"}
    assert found["run"] == {"backup": "s3://b/log", "backup_keep": "30d"}
    assert found["backup"]["to"] == {"keep": "30d", "store_url": "s3://b/log"}
