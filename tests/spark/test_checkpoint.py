"""Spark's checkpoint files, as far as they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainstem.errors import ConfigError, StorageError
from mainstem.model import Position
from mainstem.spark.checkpoints.checkpoint import (
    last_committed,
    local_path,
    maybe_offsets,
    read_offsets,
    remove_checkpoint,
    streams_ours,
)
from mainstem.spark.checkpoints.offsets import StreamOffsets


def write(directory: Path, *lines: str) -> str:
    (directory / "offsets").mkdir()
    (directory / "offsets" / "7").write_text("\n".join(lines))
    return str(directory)


def line(position: str, tables: str = "") -> str:
    return json.dumps(StreamOffsets(Position.parse(position), {}, Position.parse(tables)).to_json())


def test_the_offsets_of_all_sources_are_read(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, "v1", "{}", line("a/0:7", "t/0:3"), "-", '{"other": 1}', line("b/1:9"))
    offsets = read_offsets(checkpoint, 7)
    assert (str(offsets.position), str(offsets.tables)) == ("a/0:7,b/1:9", "t/0:3")


def test_a_topic_that_is_streamed_twice_is_read_as_far_as_both_have(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, "v1", "{}", line("a/0:7,a/1:2"), line("a/0:5,a/1:3,a/2:1,b/0:1"))
    assert str(read_offsets(checkpoint, 7).position) == "a/0:5,a/1:2,b/0:1"


def test_a_source_of_ours_without_a_partition_is_one_of_ours(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, "v1", "{}", '{"other": 1}', line(""))
    assert streams_ours(checkpoint, 7)
    (tmp_path / "offsets" / "8").write_text("\n".join(["v1", "{}", '{"topic":{"0":5}}']))  # as of Spark's Kafka source
    assert not streams_ours(checkpoint, 8)


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not an offset log of version v1"):
        read_offsets(write(tmp_path, "v9", "{}"), 7)


def test_a_missing_micro_batch_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="offsets/7 cannot be read"):
        read_offsets(str(tmp_path), 7)


def test_offsets_of_another_file_system_are_not_asked_for(tmp_path: Path) -> None:
    assert maybe_offsets("hdfs:///user/etl/copy", 0) is None
    assert maybe_offsets(str(tmp_path / "on-the-default-file-system"), 0) is None
    checkpoint = write(tmp_path, "v1", "{}", line("a/0:7"))
    assert maybe_offsets(checkpoint, 7) == read_offsets(checkpoint, 7)
    with pytest.raises(StorageError, match="offsets/8 cannot be read"):
        maybe_offsets(checkpoint, 8)


def test_the_last_committed_micro_batch_is_found(tmp_path: Path) -> None:
    assert last_committed(str(tmp_path)) is None
    (tmp_path / "commits").mkdir()
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert last_committed(str(tmp_path)) == 10


def test_a_checkpoint_may_be_an_address_of_this_machine() -> None:
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    with pytest.raises(ConfigError, match="local or mounted"):
        local_path("s3a://bucket/c")


def test_a_removal_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    for name in ("totals", "__gone-totals"):
        (tmp_path / name / "offsets").mkdir(parents=True)
    remove_checkpoint(str(tmp_path / "totals"))
    remove_checkpoint(str(tmp_path / "totals"))
    assert list(tmp_path.iterdir()) == []
