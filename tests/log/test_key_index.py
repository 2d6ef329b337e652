from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.errors import ConditionFailedError, IndexNotReadyError
from mainstem.log.partition.config import LogConfig
from tests.log.features_support import ALL, FeatureNode, expect_key
from tests.log.support import read_all
from tests.log.test_compaction import run as compact_log

INDEXED = {"mainstem_key_index": "true"}
BIG = b"v" * 100_000


def offsets(node: FeatureNode, key: bytes) -> list[int]:
    return node.index.offsets(key, 0, node.log.log_end_offset, 10_000)


def scanned(node: FeatureNode, key: bytes) -> list[int]:
    return [each.offset for each in read_all(node.log, node.log.log_start_offset) if each.key == key]


def test_a_keys_offsets_are_found_without_a_scan() -> None:
    node = FeatureNode(**INDEXED)
    node.put((b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"a", None))
    node.put((b"a", b"4"))
    assert offsets(node, b"a") == [0, 3, 4]
    assert node.index.offsets(b"a", 1, 4, 10) == [3]
    assert node.index.offsets(b"a", 0, 5, 2) == [0, 3]
    assert offsets(node, b"c") == []
    assert (node.index.last_offset(b"a"), node.index.last_offset(b"c")) == (4, -1)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\xff" * 9, b"x" * 64, b"x" * 65, b"x" * 5000])
def test_keys_that_begin_alike_are_told_apart(key: bytes) -> None:
    node = FeatureNode(**INDEXED)
    node.put((key, b"1"))
    node.put((key + b"\x00", b"2"), (key + b"\x00" * 8, b"3"), (key + b"\xff" * 8, b"4"))
    assert offsets(node, key) == [0]
    assert offsets(node, key + b"\xff" * 8) == [3]


@pytest.mark.parametrize("end", ["restart", "kill_and_start"])
def test_it_catches_up_with_what_it_missed(end: str) -> None:
    node = FeatureNode(**INDEXED)
    node.put((b"a", b"1"))
    kept = dict(node.store.data)
    node.put((b"a", b"2"), (b"b", b"3"))
    node.log.flush()
    node.store.data = kept  # killed between the write to the log and that to the index
    getattr(node, end)()
    assert offsets(node, b"a") == [0, 1]
    assert offsets(node, b"b") == [2]


def test_it_reads_nothing_of_the_log_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FeatureNode(**ALL)
    node.put((b"a", b"1"))
    node.put((b"a", b"2"))
    node.log.flush()
    read = []
    monkeypatch.setattr("mainstem.log.key_index.key_index.read_batch", lambda header, batch: read.append(header))
    node.kill_and_start()
    assert (offsets(node, b"a"), read) == ([0, 1], [])


def test_what_was_written_without_it_behind_a_power_cut_is_found() -> None:
    """The index knows of records that were lost; others took their offsets while the topic had no index."""
    for seed in range(20):
        node = FeatureNode(seed, **INDEXED)
        node.put((b"a", b"1"))
        node.log.flush()
        node.put((b"b", b"2"), (b"c", b"3"))
        configs, node.configs = node.configs, {}
        node.cut_power_and_start()
        for _ in range(3):
            node.put((b"x", b"4"))
        node.log.flush()
        node.configs = configs
        node.restart()
        for key in (b"a", b"b", b"c", b"x"):
            assert offsets(node, key) == scanned(node, key)


def test_it_is_built_anew_when_it_is_gone() -> None:
    node = FeatureNode(**INDEXED)
    node.put((b"a", b"1"), (b"b", b"2"))
    node.log.flush()
    node.store.data.clear()
    node.restart()
    assert offsets(node, b"a") == [0]


def test_a_store_that_fails_costs_no_append_and_is_mended() -> None:
    node = FeatureNode(**ALL)
    node.put((b"a", b"1"))
    node.store.fails = True
    node.put((b"a", b"2"))
    with pytest.raises(IndexNotReadyError):
        node.put((b"a", b"3", expect_key(1)))
    broken = node.store
    node.tick(1)  # it is opened again, and still fails
    with pytest.raises(IndexNotReadyError):
        node.index.last_offset(b"a")
    node.tick()  # so it is removed
    assert node.store is not broken
    assert offsets(node, b"a") == [0, 1]
    node.put((b"a", b"3", expect_key(1)))


def turn_on(node: FeatureNode, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    node.log.update_config(LogConfig.of(named))
    node.directory.features.attach(node.log)


def test_turned_on_for_a_long_topic_it_is_built_beside_the_appends() -> None:
    node = FeatureNode()
    for at in range(50):
        node.put((b"k%d" % (at % 3), BIG))
    node.log.flush()
    turn_on(node, **ALL)
    with pytest.raises(IndexNotReadyError):
        node.index.last_offset(b"k0")
    with pytest.raises(IndexNotReadyError):
        node.put((b"k0", b"x", expect_key(48)))
    node.directory.features.tick()  # the build begins, with what is there now
    assert node.index.build is not None
    node.put((b"k0", b"beside"))
    node.log.flush()
    node.directory.features.tick()  # and is taken over
    for key in (b"k0", b"k1", b"k2"):
        assert offsets(node, key) == scanned(node, key)
    node.put((b"k0", b"x", expect_key(50)))


def test_a_kill_in_the_middle_of_a_build_leaves_nothing_of_it() -> None:
    node = FeatureNode()
    for _ in range(50):
        node.put((b"k", BIG))
    node.log.flush()
    turn_on(node, **INDEXED)
    node.configs = {"mainstem.key.index": "true"}
    node.directory.features.tick()
    node.put((b"k", b"beside"))
    node.log.flush()
    node.kill_and_start()
    with pytest.raises(IndexNotReadyError):
        node.index.last_offset(b"k")
    node.tick()
    assert offsets(node, b"k") == list(range(51))
    assert len([key for key in node.store.data if key.startswith(b"k")]) == 51


def test_a_damaged_log_has_no_index_that_could_say_absent() -> None:
    node = FeatureNode()
    for _ in range(50):
        node.put((b"k", BIG))
    node.log.flush()
    turn_on(node, **INDEXED)
    [path] = node.files(".log")
    node.faulty.flip_bit(path, 2_000_000)
    node.tick(10)
    with pytest.raises(IndexNotReadyError):
        node.index.last_offset(b"k")


def test_turned_off_its_entries_are_removed() -> None:
    node = FeatureNode(**ALL)
    node.put((b"a", b"1"))
    turn_on(node)
    assert node.log.features is None
    assert node.store.data == {}
    node.put((b"a", b"2"))
    node.log.flush()
    turn_on(node, **INDEXED)
    assert offsets(node, b"a") == [0, 1]


def test_a_deleted_topics_entries_are_removed() -> None:
    node = FeatureNode(**ALL)
    node.put((b"a", b"1"))
    node.directory.delete(node.log.topic_partition)
    assert node.store.data == {}


def compacted(node: FeatureNode) -> FeatureNode:
    """Until nothing is left to do; a tombstone is marked by one run, and goes with a later one."""
    for _ in range(3):
        node.log.flush()
        compact_log(node)
        node.clock.advance(3600)
    return node


def test_a_tombstone_counts_until_compaction_has_taken_it() -> None:
    node = FeatureNode(**ALL, cleanup_policy="compact", segment_bytes="300", delete_retention_ms="1")
    node.put((b"a", b"1"))
    node.put((b"b", b"1"))
    node.put((b"b", None))
    assert node.index.last_offset(b"b") == 2
    for at in range(20):
        node.put((b"filler%d" % at, b"v"))
    compacted(node)
    assert scanned(node, b"b") == []
    assert (node.index.last_offset(b"a"), node.index.last_offset(b"b")) == (0, -1)
    node.put((b"b", b"2", expect_key(-1)))


@pytest.mark.parametrize("seed", range(4))
def test_after_compactions_it_says_what_the_log_holds(seed: int) -> None:
    chance = random.Random(seed)
    configs = {"cleanup_policy": "compact", "segment_bytes": "400", "delete_retention_ms": "1"}
    node = FeatureNode(seed, **ALL, **configs)
    keys = [b"k%d" % at for at in range(6)]
    for step in range(45):
        rows = [(chance.choice(keys), chance.choice([b"v", b"w" * 40, None])) for _ in range(chance.randint(1, 4))]
        node.put(*rows)
        if step % 15 == 14:
            compacted(node)
            if chance.random() < 0.5:
                node.kill_and_start()
            for key in keys:
                there = scanned(node, key)
                assert node.index.last_offset(key) == max(there, default=-1)
                assert set(there) <= set(offsets(node, key))
    node.store.data.clear()
    node.restart()
    for key in keys:
        assert offsets(node, key) == scanned(node, key)


def test_entries_of_records_that_retention_took_are_rebuilt_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.log.key_index.key_index._GARBAGE_MIN", 10)
    node = FeatureNode(**INDEXED)
    for at in range(30):
        node.put((b"k%d" % at, b"v"))
    node.log.flush()
    node.log.delete_records(25)
    node.tick()
    assert len([key for key in node.store.data if key.startswith(b"k")]) == 5
    assert offsets(node, b"k29") == [29]
    assert offsets(node, b"k1") == []


@pytest.mark.parametrize("seed", [6, 19, 24, 34])
def test_entries_of_records_that_a_power_cut_took_are_ignored(seed: int) -> None:
    """By these seeds the cut takes the first record's bytes and leaves those of the second: the offsets are a gap."""
    node = FeatureNode(seed, **ALL)
    node.log.flush()
    node.directory.write_checkpoints()
    node.put((b"a", b"v", (("mainstem-idempotency-key", b"once"),)))
    node.put((None, b"v"))
    for _ in range(2):
        node.cut_power_and_start()
        assert node.log.log_end_offset == 2
        assert read_all(node.log, 0) == []
        assert node.index.last_offset(b"a") == -1
        assert node.index.remembered_offset(b"once") is None
    assert node.put((b"a", b"v", expect_key(-1))) == 2
    node.kill_and_start()
    assert node.index.last_offset(b"a") == 2
    assert offsets(node, b"a") == [2]


_KEYS = st.sampled_from([b"a", b"b", b"c", b"x" * 100])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.none() | _KEYS, min_size=1, max_size=4)),
        st.tuples(st.just("expect"), _KEYS, st.integers(-2, 0)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("delete"), st.integers(0, 40)),
        st.tuples(st.just("kill")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("cut"), st.integers(0, 6)),
        st.tuples(st.just("rebuild")),
    ),
    max_size=30,
)


class Model:
    """What the log holds, offset by offset: a plain dict."""

    def __init__(self, node: FeatureNode) -> None:
        self.node = node
        self.records: dict[int, bytes | None] = {}

    def last(self, key: bytes) -> int:
        start = self.node.log.log_start_offset
        return max((at for at, each in self.records.items() if each == key and at >= start), default=-1)

    def put(self, keys: list[bytes | None]) -> None:
        base = self.node.put(*((key, b"v") for key in keys))
        self.records.update({base + at: key for at, key in enumerate(keys)})

    def expect(self, key: bytes, error: int) -> None:
        expected = max(-1, self.last(key) + error)
        if expected == self.last(key):
            self.records[self.node.put((key, b"v", expect_key(expected)))] = key
            return
        with pytest.raises(ConditionFailedError) as failed:
            self.node.put((key, b"v", expect_key(expected)))
        assert failed.value.actual == self.last(key)

    def flush(self) -> None:
        self.node.log.flush()
        self.node.directory.write_checkpoints()

    def delete(self, before: int) -> None:
        self.node.log.delete_records(min(before, self.node.log.high_watermark))

    def reread(self) -> None:
        node = self.node
        self.records = {each.offset: each.key for each in read_all(node.log, node.log.log_start_offset)}

    def kill(self) -> None:
        self.node.kill_and_start()
        self.reread()

    def restart(self) -> None:
        self.node.restart()
        self.reread()

    def cut(self, lost_writes: int) -> None:
        self.node.store.lose(lost_writes)
        self.node.cut_power_and_start()
        self.reread()

    def rebuild(self) -> None:
        self.flush()
        self.node.store.data.clear()
        self.restart()

    def check(self) -> None:
        node = self.node
        for key in (b"a", b"b", b"c", b"x" * 100):
            assert node.index.last_offset(key) == self.last(key)
            there = sorted(at for at, each in self.records.items() if each == key and at >= node.log.log_start_offset)
            assert offsets(node, key) == there


@settings(max_examples=150)
@given(st.integers(0, 1000), _STEPS)
def test_it_says_what_a_plain_model_says(seed: int, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    model = Model(FeatureNode(seed, **ALL))
    model.flush()  # the partition itself is durable
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
        model.check()
