from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mainstem.clock import SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.key_index.index_worker import BuildProcess, decode_plan, encode_plan
from mainstem.log.key_index.key_index import BuildPlan
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.config import LogConfig
from mainstem.record.writer import NewRecord, build_batch
from tests.log.support import TOPIC_ID

_ON = LogConfig.of({"mainstem.key.index": "true", "mainstem.conditional.append": "true"})


def filled(path: Path, batches: int = 60) -> LogDirectory:
    """A partition with some mebibytes: too much to be indexed on the spot."""
    directory = LogDirectory.open(OsDisk(), SystemClock(), path, {})
    log = directory.create("t", 0, TOPIC_ID, LogConfig())
    for at in range(batches):
        log.append(build_batch([NewRecord(b"k%d" % (at % 7), b"v" * 10_000, (), 1)] * 10))
    log.flush()
    return directory


def wait_until_ready(directory: LogDirectory) -> None:
    [log] = directory.partitions.values()
    assert log.features is not None
    assert log.features.index is not None
    pause = threading.Event()
    for _ in range(600):
        directory.features.tick()
        if log.features.index.is_ready:
            return
        pause.wait(0.1)
    raise AssertionError("the index did not get ready")


def test_an_index_is_built_by_a_process_of_its_own(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data")
    [log] = directory.partitions.values()
    log.update_config(_ON)
    directory.features.attach(log)
    assert log.features is not None
    index = log.features.index
    assert index is not None
    assert not index.is_ready
    directory.features.tick()
    log.append(build_batch([NewRecord(b"k3", b"beside", (), 1)]))
    wait_until_ready(directory)
    expected = [at * 10 + each for at in range(60) if at % 7 == 3 for each in range(10)]
    assert index.offsets(b"k3", 0, 10_000, 10_000) == [*expected, 600]
    assert index.last_offset(b"k3") == 600
    log.flush()
    directory.close()
    assert not list((tmp_path / "data").glob("key-index-build/*.sst"))


def test_what_a_worker_cannot_read_is_its_result(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data", 2)
    directory.close()
    [file] = (tmp_path / "data" / "t-0").glob("*.log")
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)
    plan = BuildPlan(tmp_path / "data" / "t-0", 0, 20, 1, 1, 0, 0)
    build = BuildProcess(plan, tmp_path / "target")
    pause = threading.Event()
    while (result := build.poll()) is None:
        pause.wait(0.05)
    assert result.files == []
    assert "checksum" in str(result.error)


def test_a_build_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    plan = BuildPlan(tmp_path, 0, 20, 1, 1, 0, 0)
    build = BuildProcess(plan, tmp_path / "target")
    build.stop()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_plan_survives_the_command_line(parts: int) -> None:
    plan = BuildPlan(Path("/data/t-0"), 5, 2**40, 3, parts, 1_700_000_000_000, 1_699_999_000_000)
    assert decode_plan(encode_plan(plan)) == plan
