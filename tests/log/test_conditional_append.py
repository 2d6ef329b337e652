from __future__ import annotations

import pytest

from mainstem.errors import ConditionFailedError, InvalidRecordError
from mainstem.record.writer import ProducerStamp
from tests.log.features_support import ALL, FeatureNode, expect_end, expect_key
from tests.log.support import values


@pytest.fixture
def node() -> FeatureNode:
    return FeatureNode(**ALL)


def test_an_append_that_expects_the_end_is_taken_at_the_end_alone(node: FeatureNode) -> None:
    assert node.put((None, b"a", expect_end(0))) == 0
    with pytest.raises(ConditionFailedError) as failed:
        node.put((None, b"b", expect_end(0)))
    assert (failed.value.expected, failed.value.actual) == (0, 1)
    assert node.put((None, b"b", expect_end(1))) == 1
    assert node.log.log_end_offset == 2


def test_of_two_appends_on_one_expectation_one_is_refused(node: FeatureNode) -> None:
    node.put((b"k", b"1", expect_key(-1)))
    with pytest.raises(ConditionFailedError) as failed:
        node.put((b"k", b"1", expect_key(-1)))
    assert failed.value.actual == 0
    node.put((b"other", b"x"))
    node.put((b"k", b"2", expect_key(0)))
    with pytest.raises(ConditionFailedError) as failed:
        node.put((b"k", b"2", expect_key(0)))
    assert failed.value.actual == 2
    assert "record 0" in str(failed.value)


def test_a_tombstone_counts(node: FeatureNode) -> None:
    node.put((b"k", None))
    with pytest.raises(ConditionFailedError):
        node.put((b"k", b"1", expect_key(-1)))
    node.put((b"k", b"1", expect_key(0)))


def test_a_batch_is_refused_whole(node: FeatureNode) -> None:
    with pytest.raises(ConditionFailedError) as failed:
        node.put((b"a", b"1"), (b"b", b"1", expect_key(5)), (b"c", b"1"))
    assert list(failed.value.records) == [1]
    assert node.log.log_end_offset == 0
    assert node.index.last_offset(b"a") == -1


def test_a_record_sees_those_before_it_in_its_batch(node: FeatureNode) -> None:
    node.put((b"a", b"0"))
    node.put((b"a", b"1"), (b"a", b"2", expect_key(1)), (b"b", b"3", expect_end(3)))
    with pytest.raises(ConditionFailedError) as failed:
        node.put((b"a", b"4"), (b"a", b"5", expect_key(2)))
    assert (failed.value.actual, list(failed.value.records)) == (4, [1])


def test_the_loser_of_a_restart_in_between_is_refused(node: FeatureNode) -> None:
    node.put((b"k", b"1", expect_key(-1)))
    node.log.flush()
    node.kill_and_start()
    with pytest.raises(ConditionFailedError):
        node.put((b"k", b"2", expect_key(-1)))
    node.put((b"k", b"2", expect_key(0)))


def test_a_repeat_of_a_producers_batch_is_answered_although_its_condition_holds_no_more(node: FeatureNode) -> None:
    stamp = ProducerStamp(9, 0, 0)
    assert node.put((b"k", b"1", expect_key(-1)), producer=stamp) == 0
    assert node.put((b"k", b"1", expect_key(-1)), producer=stamp) == 0
    assert node.log.log_end_offset == 1


def test_a_refused_batch_does_not_move_the_producers_sequence(node: FeatureNode) -> None:
    with pytest.raises(ConditionFailedError):
        node.put((b"k", b"1", expect_key(5)), producer=ProducerStamp(9, 0, 0))
    assert node.put((b"k", b"1", expect_key(-1)), producer=ProducerStamp(9, 0, 0)) == 0


def test_the_headers_say_nothing_where_the_topic_does_not_allow_them() -> None:
    node = FeatureNode()
    assert node.put((b"k", b"1", expect_key(77)), (None, b"2", expect_end(77))) == 0
    assert node.log.features is None
    assert node.store.data == {}


def test_a_key_condition_needs_a_key_and_an_index() -> None:
    node = FeatureNode(mainstem_conditional_append="true")
    with pytest.raises(InvalidRecordError, match=r"mainstem\.key\.index"):
        node.put((b"k", b"1", expect_key(-1)))
    node.put((b"k", b"1", expect_end(0)))
    assert node.store.data == {}
    with pytest.raises(InvalidRecordError, match="a record with a key"):
        FeatureNode(**ALL).put((None, b"1", expect_key(-1)))


def test_what_delete_records_took_is_absent(node: FeatureNode) -> None:
    node.put((b"k", b"1"))
    node.put((b"l", b"1"))
    node.log.flush()
    node.log.delete_records(1)
    node.put((b"k", b"2", expect_key(-1)))


def test_a_power_cut_takes_the_record_and_its_entry_together() -> None:
    for seed in range(20):
        node = FeatureNode(seed, **ALL)
        node.put((b"k", b"1"))
        node.log.flush()
        node.put((b"k", b"2", expect_key(0)))  # not flushed: the cut may take it, while the index keeps it
        node.cut_power_and_start()
        there = len(values(node.log))
        assert node.index.last_offset(b"k") == there - 1
        node.put((b"other", b"x"))  # may take the lost record's offset
        assert node.index.last_offset(b"k") == there - 1
        node.put((b"k", b"3", expect_key(there - 1)))


def test_in_a_transaction_conditions_are_refused(node: FeatureNode) -> None:
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    for headers in (expect_key(-1), expect_end(0)):
        with pytest.raises(InvalidRecordError, match="not for transactions"):
            node.put((b"k", b"a", headers), producer=stamp)
    node.put((b"k", b"a"), producer=stamp)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transactions_record_counts_whether_it_commits_or_not(node: FeatureNode, commit: bool) -> None:
    node.put((b"k", b"a"), producer=ProducerStamp(9, 0, 0, is_transactional=True))
    node.log.append_marker(9, 0, commit=commit, coordinator_epoch=0, timestamp_ms=node.clock.time_ms())
    with pytest.raises(ConditionFailedError) as failed:
        node.put((b"k", b"b", expect_key(-1)))
    assert failed.value.actual == 0
    assert node.put((b"k", b"b", (*expect_key(0), *expect_end(2)))) == 2
    node.log.flush()
    node.kill_and_start()
    assert node.index.last_offset(b"k") == 2
