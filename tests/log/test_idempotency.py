from __future__ import annotations

import pytest

from mainstem.errors import InvalidRecordError
from mainstem.record.writer import ProducerStamp
from tests.log.features_support import ALL, FeatureNode, expect_key, idempotency_key
from tests.log.support import read_all, values


@pytest.fixture
def node() -> FeatureNode:
    return FeatureNode(**ALL)


def test_the_second_append_is_answered_with_the_first_ones_offset(node: FeatureNode) -> None:
    node.put((None, b"before"))
    assert node.put((None, b"a", idempotency_key("x"))) == 1
    assert node.put((None, b"again", idempotency_key("x"))) == 1
    assert node.put((None, b"b", idempotency_key("y"))) == 2
    assert node.log.log_end_offset == 3


def test_outside_the_window_it_is_appended_again(node: FeatureNode) -> None:
    node.put((None, b"a", idempotency_key("x")))
    node.clock.advance(60)
    assert node.put((None, b"b", idempotency_key("x"))) == 0
    node.clock.advance(0.001)
    assert node.put((None, b"c", idempotency_key("x"))) == 1
    assert node.put((None, b"d", idempotency_key("x"))) == 1


@pytest.mark.parametrize("end", ["kill_and_start", "restart"])
def test_it_survives_a_restart(node: FeatureNode, end: str) -> None:
    node.put((None, b"a", idempotency_key("x")))
    node.log.flush()
    getattr(node, end)()
    assert node.put((None, b"b", idempotency_key("x"))) == 0
    node.log.flush()
    assert values(node.log) == [b"a"]


def test_it_is_rebuilt_from_the_log_within_the_window(node: FeatureNode) -> None:
    node.put((None, b"a", idempotency_key("old")))
    node.clock.advance(61)
    node.put((None, b"b", idempotency_key("new")))
    node.log.flush()
    node.store.data.clear()
    node.restart()
    assert node.put((None, b"c", idempotency_key("new"))) == 1
    assert node.put((None, b"c", idempotency_key("old"))) == 2


def test_a_batch_that_is_sent_again_whole_is_answered_as_one(node: FeatureNode) -> None:
    batch = [(None, b"%d" % at, idempotency_key(str(at))) for at in range(3)]
    assert node.put(*batch) == 0
    assert node.put(*batch) == 0
    assert node.put(*batch[:2]) == 0
    assert node.log.log_end_offset == 3


def test_a_batch_that_is_there_in_part_is_refused_naming_that_part(node: FeatureNode) -> None:
    node.put((None, b"a", idempotency_key("a")))
    with pytest.raises(InvalidRecordError) as refused:
        node.put((None, b"b", idempotency_key("b")), (None, b"a", idempotency_key("a")))
    assert refused.value.records == {1: "mainstem-idempotency-key: in the log already, at offset 0"}
    with pytest.raises(InvalidRecordError):
        node.put((None, b"a", idempotency_key("a")), (None, b"without"))
    assert node.log.log_end_offset == 1


def test_a_key_stands_once_in_a_batch(node: FeatureNode) -> None:
    with pytest.raises(InvalidRecordError, match="same as record 0"):
        node.put((None, b"a", idempotency_key("a")), (None, b"b", idempotency_key("a")))


def test_a_retry_is_answered_before_its_condition_is_looked_at(node: FeatureNode) -> None:
    headers = (*expect_key(-1), *idempotency_key("x"))
    assert node.put((b"k", b"a", headers)) == 0
    assert node.put((b"k", b"a", headers)) == 0


def test_an_idempotent_producers_sequence_moves_on(node: FeatureNode) -> None:
    """What is answered again takes the producer's sequence numbers, also after a restart."""
    node.put((None, b"a", idempotency_key("x")))
    assert node.put((None, b"a", idempotency_key("x")), producer=ProducerStamp(9, 0, 0)) == 0
    assert node.put((None, b"b"), producer=ProducerStamp(9, 0, 1)) == 2
    assert node.put((None, b"a", idempotency_key("x")), producer=ProducerStamp(9, 0, 2)) == 0
    assert node.put((None, b"a", idempotency_key("x")), producer=ProducerStamp(9, 0, 2)) == 0
    node.log.flush()
    node.kill_and_start()
    assert node.put((None, b"c"), producer=ProducerStamp(9, 0, 3)) == 4
    node.log.flush()
    assert [(each.offset, each.value) for each in read_all(node.log)] == [(0, b"a"), (2, b"b"), (4, b"c")]


def test_what_the_log_start_has_passed_is_forgotten(node: FeatureNode) -> None:
    node.put((None, b"a", idempotency_key("x")))
    node.put((None, b"b"))
    node.log.flush()
    node.log.delete_records(1)
    assert node.put((None, b"c", idempotency_key("x"))) == 2


def test_keys_out_of_their_window_are_swept(node: FeatureNode) -> None:
    for at in range(50):
        node.put((None, b"a", idempotency_key(str(at))))
    node.clock.advance(30)
    node.put((None, b"b", idempotency_key("new")))
    node.clock.advance(31)
    node.tick()
    remembered = [key for key in node.store.data if key.startswith(b"i")]
    assert len(remembered) == 1


def test_without_a_window_the_header_says_nothing() -> None:
    node = FeatureNode(mainstem_conditional_append="true")
    assert node.put((None, b"a", idempotency_key("x"))) == 0
    assert node.put((None, b"a", idempotency_key("x"))) == 1


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_batch_without_records_has_no_say_in_the_greatest_timestamp(timestamp_type: str) -> None:
    node = FeatureNode(**ALL, message_timestamp_type=timestamp_type)
    node.put((None, b"a", idempotency_key("x")), producer=ProducerStamp(9, 0, 0))
    node.clock.advance(5)
    assert node.put((None, b"a", idempotency_key("x")), producer=ProducerStamp(9, 0, 1)) == 0
    node.log.flush()
    assert node.log.log_end_offset == 2
    greatest = node.log.max_timestamp()
    assert greatest is not None
    assert greatest.offset == 0


def test_in_a_transaction_it_is_refused(node: FeatureNode) -> None:
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    with pytest.raises(InvalidRecordError, match="not for transactions") as refused:
        node.put((None, b"a"), (None, b"b", idempotency_key("x")), producer=stamp)
    assert list(refused.value.records) == [1]
    assert node.log.log_end_offset == 0
