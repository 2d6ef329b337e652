"""Refusals of graduate and adopt: one clear error each, and the source as it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from mainstem.clock import SystemClock
from mainstem.durable_files import unfinished_directory
from mainstem.kafka_directory import adoption, graduation
from mainstem.kafka_directory.adoption import adopt, plan_adoption
from mainstem.kafka_directory.graduation import GRADUATION, commit, graduate, plan_graduation
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.record.writer import NewRecord, build_batch
from tests.cli.commands import Commands

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "wb")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def append(data: Path, count: int = 30) -> None:
    """Records of 200 bytes, in segments of ten."""
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    if "events" not in node.metadata.topics:
        node.create_topic("events", 2, {"segment.bytes": "2000", "index.interval.bytes": "100"})
    log = node.get(TopicPartition("events", 0))
    for number in range(count):
        log.append(build_batch([NewRecord(b"k%d" % number, b"v" * 140, (), 1000 + number)]))
    log.flush()
    node.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    append(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def kafka(tmp_path: Path, data: Path) -> Path:
    """A directory that Apache Kafka could have left: it is how a graduated one looks before the first start."""
    graduate(data, tmp_path / "kafka")
    return tmp_path / "kafka"


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def content(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def error_of(commands: Commands, *arguments: str) -> str:
    """The one error of a command that is refused."""
    done = commands.run(*arguments)
    assert done.code in (1, 4)
    assert done.out == ""
    return done.error


@pytest.fixture(autouse=True)
def source_is_untouched(data: Path) -> Iterator[None]:
    """A refusal changes nothing of the log."""
    before = content(data)
    yield
    after = content(data)
    before.pop(LOCK), after.pop(LOCK)
    assert after == before


def test_a_log_that_runs_is_refused(data: Path, tmp_path: Path, commands: Commands) -> None:
    lock = OsDisk().lock(data / LOCK)
    text = error_of(commands, "graduate", "--data", str(data), "--to", str(tmp_path / "new"))
    lock.release()
    assert "in use by another Mainstem process" in text
    assert not (tmp_path / "new").exists()


def test_a_target_with_anything_in_it_is_refused(data: Path, tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("x")
    assert "is not empty" in error_of(commands, "graduate", "--data", str(data), "--to", str(tmp_path / "new"))
    assert content(tmp_path / "new") == {"mine": b"x"}


def test_a_target_inside_the_log_is_refused(data: Path, commands: Commands) -> None:
    assert "lies in the data directory" in error_of(commands, "graduate", "--data", str(data), "--to", str(data / "k"))


def test_two_runs_to_one_place_do_not_mix(data: Path, tmp_path: Path, commands: Commands) -> None:
    append(tmp_path / "other", 3)
    with unfinished_directory(tmp_path / "new.graduating"):  # as the first run has it
        text = error_of(commands, "graduate", "--data", str(tmp_path / "other"), "--to", str(tmp_path / "new"))
    assert "is being written by another process" in text
    assert not (tmp_path / "new").exists()


def test_an_empty_working_directory_is_a_target(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kafka", "back"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "kafka")
    graduate(data, Path())
    monkeypatch.chdir(tmp_path / "back")
    adopt(tmp_path / "kafka", Path())
    append(tmp_path / "back", 1)


def test_a_verifiable_topic_says_that_its_history_ends(data: Path, tmp_path: Path) -> None:
    node = NodeLog.open(OsDisk(), SystemClock(), tmp_path / "ledgers", {})
    node.create_topic("ledger", 1, {"mainstem.verifiable": "true"})
    node.close()
    notes = plan_graduation(tmp_path / "ledgers", tmp_path / "kafka").report.notes
    assert "keep the last checkpoint" in next(note.instead for note in notes if "mainstem.verifiable" in note.what)


def test_what_a_killed_run_left_is_replaced(data: Path, tmp_path: Path) -> None:
    left = tmp_path / "new.graduating" / "events-0"
    left.mkdir(parents=True)
    (left / "00000000000000000000.log").write_bytes(b"half")
    graduate(data, tmp_path / "new")
    assert not left.exists()
    assert content(tmp_path / "new")["events-0/00000000000000000000.log"] != b"half"


@pytest.mark.parametrize("step", range(5))
def test_a_run_that_ends_at_any_file_can_be_repeated(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The process ends after so many partitions or small files; neither directory has its name then."""

    class EndedError(BaseException):
        """As SIGKILL: no handler runs."""

    def ending(module: object, name: str) -> None:
        calls, real = count(), getattr(module, name)

        def call(*arguments: object) -> object:
            if next(calls) == step:
                raise EndedError
            return real(*arguments)

        monkeypatch.setattr(module, name, call)

    for module in (graduation, adoption):
        ending(module, "write_file")
    with pytest.raises(EndedError):
        graduate(data, tmp_path / "kafka")
    assert not (tmp_path / "kafka").exists()
    monkeypatch.undo()
    graduate(data, tmp_path / "kafka")
    ending(adoption, "write_file")
    with pytest.raises(EndedError):
        adopt(tmp_path / "kafka", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    monkeypatch.undo()
    adopt(tmp_path / "kafka", tmp_path / "back")
    append(tmp_path / "back", 1)


def test_no_data_directory_is_refused(tmp_path: Path, commands: Commands) -> None:
    text = error_of(commands, "graduate", "--data", str(tmp_path / "none"), "--to", str(tmp_path / "new"))
    assert "is not a Mainstem data directory" in text


def test_a_target_that_cannot_be_written_is_refused(data: Path, commands: Commands) -> None:
    text = error_of(commands, "graduate", "--data", str(data), "--to", "/proc/mainstem/new")
    assert "cannot" in text


def test_a_dry_run_lists_everything_and_makes_nothing(data: Path, tmp_path: Path, commands: Commands) -> None:
    target = tmp_path / "new"
    document = commands.run("graduate", "--data", str(data), "--to", str(target), "--dry-run", "--json").json
    assert not target.exists()
    assert [topic["topic"] for topic in document["topics"]] == ["events"]
    assert document["files"]["linked_files"] == len(list(data.glob("events-0/*.log"))) - 1
    assert {note["what"] for note in document["left_behind"]} >= {"topic events: segment.bytes=2000"}


def test_closed_segments_are_links_and_the_active_one_is_not(data: Path, kafka: Path) -> None:
    links = {path.name: path.stat().st_nlink for path in sorted((kafka / "events-0").glob("*.log"))}
    assert list(links.values()) == [2] * (len(links) - 1) + [1]


def test_a_log_that_went_on_is_not_given_up(tmp_path: Path, commands: Commands) -> None:
    other, target = tmp_path / "other", tmp_path / "new"
    append(other)
    graduate(other, target)
    append(other, 1)
    text = error_of(commands, "graduate", "--data", str(other), "--to", str(target), "--commit")
    assert "is not as it was" in text
    assert (other / "events-0").exists()


def test_a_directory_that_was_not_graduated_commits_nothing(data: Path, kafka: Path, commands: Commands) -> None:
    (kafka / GRADUATION).unlink()
    text = error_of(commands, "graduate", "--data", str(data), "--to", str(kafka), "--commit")
    assert "was not made by mainstem graduate" in text


def test_a_log_that_was_given_up_says_where_it_went(tmp_path: Path, commands: Commands) -> None:
    other, target = tmp_path / "other", tmp_path / "new"
    append(other)
    graduate(other, target)
    commit(other, target)
    text = error_of(commands, "graduate", "--data", str(other), "--to", str(tmp_path / "third"))
    assert str(target) in text
    (other / "events-0").mkdir()  # as if the removal had been ended in the middle
    assert commit(other, target) == ["events-0"]
    adopt(target, other)
    append(other, 1)


def test_an_unclean_end_is_recovered_first(tmp_path: Path) -> None:
    other = tmp_path / "other"
    append(other)
    (other / CLEAN_SHUTDOWN).unlink()
    assert not plan_graduation(other, tmp_path / "new").node.was_clean
    plan = graduate(other, tmp_path / "new")
    assert plan.cluster.leader_epoch > 0  # a recovered log leads with a higher epoch


# adopt


def test_a_kafka_that_runs_is_refused(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    argv = [sys.executable, "-c", HOLDER, str(kafka / LOCK)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text = error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))
        process.communicate(b"\n", timeout=10)
    assert "is in use by Apache Kafka" in text


def test_a_kafka_that_was_killed_is_refused(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    (kafka / CLEAN_SHUTDOWN).unlink()
    assert "was not stopped cleanly" in error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))


def test_a_directory_of_another_version_is_refused(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    properties = (kafka / META_PROPERTIES).read_text()
    (kafka / META_PROPERTIES).write_text(properties.replace("version=1", "version=0"))
    assert "another version" in error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))


def test_a_directory_without_its_metadata_is_refused(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    shutil.rmtree(kafka / "__cluster_metadata-0")
    assert "KRaft" in error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))


def test_damaged_metadata_is_refused(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    (checkpoint,) = (kafka / "__cluster_metadata-0").glob("*.checkpoint")
    flip(checkpoint, 400)
    assert "is damaged" in error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))


def flip(path: Path, at: int) -> None:
    """Flip a bit, in a file of its own: a link would change the log that it came from."""
    changed = bytearray(path.read_bytes())
    changed[at] ^= 1
    path.unlink()
    path.write_bytes(changed)


def test_a_damaged_segment_is_refused_by_name(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    first = sorted((kafka / "events-0").glob("*.log"))[0]
    flip(first, 300)
    text = error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))
    assert str(first) in text
    assert not (tmp_path / "back").exists()


def test_a_batch_of_an_old_format_is_refused_by_name(kafka: Path, tmp_path: Path, commands: Commands) -> None:
    first = sorted((kafka / "events-0").glob("*.log"))[0]
    old = bytearray(first.read_bytes())
    old[16] = 1
    first.unlink()
    first.write_bytes(old)
    assert "before 0.11" in error_of(commands, "adopt", str(kafka), "--data", str(tmp_path / "back"))


def test_a_data_directory_that_holds_a_log_is_refused(kafka: Path, data: Path, commands: Commands) -> None:
    assert "is not empty" in error_of(commands, "adopt", str(kafka), "--data", str(data))


def test_an_adopted_directory_has_the_same_records_and_metadata(kafka: Path, data: Path, tmp_path: Path) -> None:
    back = tmp_path / "back"
    plan = plan_adoption(kafka, back)
    assert not back.exists()
    adopt(kafka, back)
    before = [path.read_bytes() for path in sorted((data / "events-0").glob("*.log"))]
    assert [path.read_bytes() for path in sorted((back / "events-0").glob("*.log"))] == before
    node = NodeLog.open(OsDisk(), SystemClock(), back, {})
    assert node.metadata.topics == plan.cluster.topics
    node.close()
