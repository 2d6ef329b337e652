"""A lake, loaded into a topic: its records as they were, each once. The log is a real one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from mainstem.client.log import Log
from mainstem.connectors import load_progress
from mainstem.connectors.files import load
from mainstem.connectors.loads import LoadOptions
from mainstem.errors import InputError
from mainstem.model import Position, Record
from mainstem.pipelines.kinds import Lake
from mainstem.record.arrow_columns import SCHEMA as RECORDS
from mainstem.views.stores.lake.lake import LakeLimits, LakeStore
from mainstem.views.stores.store import Bookmark, StoreDefinition, no_dead_letters
from tests.broker.harness import child_environment

PARTITIONS = 3
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]


def rows(first: int, count: int) -> list[Row]:
    """Records of every sort: without key, tombstones, headers, values that are no JSON."""
    return [
        (
            None if n % 5 == 0 else f"k{n % 11}".encode(),
            None if n % 7 == 0 else b"\xff value %d" % n,
            None if n % 3 == 0 else [("h", b"%d" % n), ("h", None)],
            1_600_000_000_000 + n * 7,
        )
        for n in range(first, first + count)
    ]


def apply(store: LakeStore, partition: int, first: int, records: Sequence[Row]) -> None:
    """Records of one partition, with gaps between their offsets as transactions leave them."""
    columns = {
        "key": [row[0] for row in records],
        "value": [row[1] for row in records],
        "partition": [partition] * len(records),
        "offset": [2 * (first + n) for n in range(len(records))],
        "timestamp": [row[3] * 1000 for row in records],
        "timestamp_type": [0] * len(records),
        "headers": [None if row[2] is None else [{"key": k, "value": v} for k, v in row[2]] for row in records],
    }
    schema = pa.schema([field for field in RECORDS if field.name in columns])
    batch = pa.record_batch([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
    position = store.position | Position.of("source", partition, 2 * (first + len(records)))
    store.apply(batch, Bookmark(position, {"source": "its id"}), no_dead_letters)
    store.commit()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LakeStore]:
    store = LakeStore(tmp_path / "lake", StoreDefinition("lake", Lake()), LakeLimits())
    for part in range(2):
        for partition in range(PARTITIONS):
            apply(store, partition, part * 20, rows(partition * 100 + part * 20, 20))
    yield store
    store.close()


def contents(log: Log, topic: str, partition: int) -> list[Row]:
    found: list[Record] = [record for record in log.read(topic) if record.partition == partition]
    return [(r.key, r.value, [*r.headers] or None, r.timestamp_ms) for r in found]


def test_records_come_back_as_they_were_in_their_partitions(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-restored"
    loaded = load(mainstem_log, tmp_path / "lake", topic)
    assert (loaded.records, loaded.records_before) == (120, 0)
    for partition in range(PARTITIONS):
        assert contents(mainstem_log, topic, partition) == rows(partition * 100, 40)


def test_a_topic_made_of_a_lake_keeps_records_however_old_they_are(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str
) -> None:
    load(mainstem_log, tmp_path / "lake", f"{mainstem_topic}-old")
    assert mainstem_log.describe_topic(f"{mainstem_topic}-old").configs["retention.ms"] == "-1"


def test_a_second_run_appends_only_what_the_lake_has_got_since(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-again"
    load(mainstem_log, tmp_path / "lake", topic)
    for number in range(8):
        apply(lake, 1, 40 + number, rows(140 + number, 1))
    lake.settle()  # files are merged meanwhile
    assert len(lake.statistics().files) < 14
    loaded = load(mainstem_log, tmp_path / "lake", topic)
    assert (loaded.records, loaded.records_before) == (8, 120)
    assert contents(mainstem_log, topic, 1) == rows(100, 48)


def test_a_load_that_was_cut_short_goes_on_where_it_was(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"{mainstem_topic}-short"
    monkeypatch.setattr(load_progress, "_COMMIT_BYTES", 1)

    def cut(progress: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt

    steps = 0
    with pytest.raises(KeyboardInterrupt):
        load(mainstem_log, tmp_path / "lake", topic, on_progress=cut)
    loaded = load(mainstem_log, tmp_path / "lake", topic)
    assert 0 < loaded.records_before < 120
    for partition in range(PARTITIONS):
        assert contents(mainstem_log, topic, partition) == rows(partition * 100, 40)


PROGRAM = """
import sys
from mainstem.client.log import Log
from mainstem.connectors import files, load_progress

load_progress._COMMIT_BYTES = 1
bootstrap, source, topic = sys.argv[1:]
with Log(bootstrap, timeout_s=60) as log:
    files.load(log, source, topic, on_progress=lambda progress: print(progress.records, flush=True))
"""


def kill_after(blocks: int, bootstrap: str, source: Path, topic: str) -> None:
    """Load in a process of its own, and kill it by SIGKILL after so many blocks, or at its end."""
    argv = [sys.executable, "-c", PROGRAM, bootstrap, str(source), topic]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=child_environment()) as child:
        watchdog = threading.Timer(120, child.kill)
        watchdog.start()
        assert child.stdout is not None
        for _ in range(blocks):
            child.stdout.readline()
        child.kill()
        watchdog.cancel()


def test_a_load_that_is_killed_again_and_again_loads_each_record_once(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-killed"
    for blocks in (3, 2):
        kill_after(blocks, mainstem_log.bootstrap, tmp_path / "lake", topic)
    done = load(mainstem_log, tmp_path / "lake", topic)
    assert done.records_before > 0
    assert done.records_before + done.records == 120
    for partition in range(PARTITIONS):
        assert contents(mainstem_log, topic, partition) == rows(partition * 100, 40)


def test_a_topic_with_another_number_of_partitions_gets_records_by_their_keys(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-two"
    load(mainstem_log, tmp_path / "lake", topic, LoadOptions(partitions=2))
    read = [*contents(mainstem_log, topic, 0), *contents(mainstem_log, topic, 1)]
    assert sorted(map(repr, read)) == sorted(repr(row) for n in range(PARTITIONS) for row in rows(n * 100, 40))
    homes = [{row[0] for row in contents(mainstem_log, topic, partition)} - {None} for partition in range(2)]
    assert homes[0] & homes[1] == set()


def test_a_directory_that_is_no_lake_and_options_of_files_are_refused(
    lake: LakeStore, mainstem_log: Log, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="is a lake: name its directory"):
        load(mainstem_log, tmp_path, "never")
    with pytest.raises(InputError, match="key"):
        load(mainstem_log, tmp_path / "lake", "never", LoadOptions(key=("id",)))
    assert "never" not in mainstem_log.topics()
