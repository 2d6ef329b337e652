from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from mainstem.errors import InputError
from mainstem.log.recovery.dump import dump_file
from mainstem.record.writer import NewRecord, build_batch
from tests.log.support import DIRECTORY, NOW_MS, Node, sent_by


@pytest.fixture(scope="module")
def node() -> Node:
    node = Node(index_interval_bytes="100")
    node.log.append(build_batch([NewRecord(b"k", b"v\xff", (("h", None),), NOW_MS), NewRecord(None, None, (), NOW_MS)]))
    for number in range(6):
        node.log.append(sent_by(5, number, b"x" * 60))
    node.log.append_marker(5, 0, commit=False, coordinator_epoch=3, timestamp_ms=NOW_MS)
    node.log.flush()
    node.directory.close()
    return node


def dump(node: Node, suffix: str, **options: bool) -> list[dict[str, Any]]:
    return list(dump_file(node.disk, node.files(suffix)[-1], **options))


def test_batches_are_dumped_with_their_records(node: Node) -> None:
    first, *others, marker = dump(node, ".log")
    assert (first["base_offset"], first["last_offset"], first["is_valid"]) == (0, 1, True)
    assert first["records"][0] == {
        "offset": 0,
        "timestamp_ms": NOW_MS,
        "key": "k",
        "value": "v\\xff",
        "headers": [["h", None]],
    }
    assert first["records"][1]["value"] is None
    assert [batch["base_sequence"] for batch in others] == list(range(6))
    assert marker["is_control"]
    assert marker["records"][0]["marker"] == "abort"


def test_headers_alone_are_dumped_if_asked_for(node: Node) -> None:
    assert not any("records" in batch for batch in dump(node, ".log", records=False))


def test_index_entries_are_dumped_with_whole_offsets(node: Node) -> None:
    positions = {batch["file_position"]: batch["last_offset"] for batch in dump(node, ".log")}
    entries = dump(node, ".index")
    assert entries
    assert all(positions[entry["file_position"]] == entry["offset"] for entry in entries)
    assert dump(node, ".timeindex")[-1]["timestamp_ms"] == NOW_MS


def test_producers_and_seals_are_dumped(node: Node) -> None:
    (producer,) = dump(node, ".snapshot")
    assert (producer["producer_id"], producer["last_sequence"], producer["coordinator_epoch"]) == (5, 5, 3)
    (seal,) = dump(node, ".seal")
    assert seal["end_offset"] == 9


def test_damage_is_named_and_what_follows_is_dumped(node: Node) -> None:
    path = node.files(".log")[0]
    content = node.faulty.content(path)
    copy = DIRECTORY / f"{0:020d}.log.deleted"
    node.overwrite(copy, content[:70] + b"\0" + content[71:])
    damaged, *others = dump_file(node.disk, copy)
    assert damaged == {"file_position": 0, "damaged_bytes": others[0]["file_position"]}
    assert len(others) == 7


def test_another_file_is_refused(node: Node) -> None:
    with pytest.raises(InputError, match=r"partition\.metadata"):
        dump_file(node.disk, DIRECTORY / "partition.metadata")
    with pytest.raises(InputError, match="there is no file"):
        list(dump_file(node.disk, PurePath(DIRECTORY / f"{7:020d}.log")))
