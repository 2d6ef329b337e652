"""Points that are too old go, with the objects that they alone need; all others can be restored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.backup.continuous import Backup, BackupOptions
from mainstem.backup.manifest import ManifestReader
from mainstem.backup.moments import newest_points, time_text
from mainstem.backup.retention import Keeper
from mainstem.backup.status import BackupStatus
from mainstem.clock import SystemClock
from mainstem.errors import InputError
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.object_stores.opening import open_store
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing import ManualClock
from tests.backup.support import require_prefix, require_same_segments, require_sound, restored

_KEEP_S = 10_000.0


def test_points_and_objects_go_when_their_time_is_over(tmp_path: Path) -> None:
    url, data = str(tmp_path / "copies"), tmp_path / "data"
    clock = ManualClock(SystemClock().time_ms())
    node = NodeLog.open(OsDisk(), clock, data, {})
    node.create_topic("orders", 1, {})
    node.create_topic("gone", 1, {})
    backup = Backup(data, open_store(url), BackupOptions(), BackupStatus(None, clock), lambda _: None, clock)
    backup._keeper = Keeper(clock, _KEEP_S, remove_after_s=0.0, chapter_points=4)
    with backup:
        for number in range(60):
            if number == 20:
                node.delete_topic("gone")
            for topic in ("orders",) if number >= 20 else ("orders", "gone"):
                log = node.get(TopicPartition(topic, 0))
                log.append(build_batch([NewRecord(b"k", b"x" * 500, (), clock.time_ms())]))
                log.flush()
            node.directory.write_checkpoints()
            _set_time(data, clock.time_ms())
            backup.round()
            clock.advance(1000)
        backup.round()
    reader = ManifestReader(open_store(url))
    kept = [(state.number, state.time_ms) for state in newest_points(reader, 1000)]
    assert 10 <= len(kept) <= 16
    assert len(list((tmp_path / "copies" / "points").iterdir())) <= 17
    assert len(list((tmp_path / "copies" / "chapters").iterdir())) <= 4
    assert {key for key, _ in reader.newest().all_files()} == {
        f"{end.topic_id}/0" for end in reader.newest().ends.values()
    }
    named = {piece.object_name for _, file in reader.newest().all_files() for piece in file.pieces}
    assert {each.name for each in open_store(url).list("data/")} == named
    require_sound(url)
    for number, time_ms in kept:
        target = tmp_path / f"at-{number}"
        assert restored(url, target, time_text(time_ms)).number == number
        require_prefix(target, data)
    with pytest.raises(InputError, match="has no point at or before"):
        restored(url, tmp_path / "early", time_text(kept[0][1] - 1))
    restored(url, tmp_path / "newest")
    require_same_segments(tmp_path / "newest", data)
    node.close()


def _set_time(data: Path, time_ms: int) -> None:
    """Let the checkpoint be of the manual clock's time."""
    os.utime(data / "mainstem-checkpoint", (time_ms / 1000, time_ms / 1000))
