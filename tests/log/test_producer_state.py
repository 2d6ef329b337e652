from __future__ import annotations

import pytest

from mainstem.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from mainstem.log.partition.producer_state import ProducerState
from mainstem.record.header import BatchHeader, read_header
from tests.log.support import batch, sent_by

LAST = 2**31 - 1


def header(
    producer_id: int, base_sequence: int, count: int = 1, *, epoch: int = 0, base_offset: int = 0
) -> BatchHeader:
    sent = read_header(sent_by(producer_id, base_sequence, *[b"v"] * count, epoch=epoch))
    return sent._replace(base_offset=base_offset)


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for each in headers:
        state.check([each])
        state.update(each)
    return state


def test_the_next_sequence_is_accepted() -> None:
    state_after(header(1, 0, 3)).check([header(1, 3)])


@pytest.mark.parametrize("sequence", [2, 4, 100])
def test_a_gap_or_an_overlap_is_out_of_order(sequence: int) -> None:
    with pytest.raises(OutOfOrderSequenceError, match="3 comes next"):
        state_after(header(1, 0, 3)).check([header(1, sequence)])


def test_sequences_wrap_behind_the_greatest() -> None:
    state = state_after(header(1, LAST - 1, 2))
    state.check([header(1, 0)])


def test_a_batch_may_wrap_inside() -> None:
    state = state_after(header(1, LAST - 1, 4))
    state.check([header(1, 2)])
    duplicate = state.find_duplicate(header(1, LAST - 1, 4))
    assert duplicate is not None
    assert duplicate.base_sequence == LAST - 1


def test_an_unknown_producer_may_begin_anywhere() -> None:
    ProducerState().check([header(1, 500)])


def test_an_older_epoch_is_fenced() -> None:
    with pytest.raises(InvalidProducerEpochError, match="epoch 3 is fenced"):
        state_after(header(1, 0, epoch=4)).check([header(1, 1, epoch=3)])


def test_a_new_epoch_begins_at_sequence_0() -> None:
    state = state_after(header(1, 0, 5))
    state.check([header(1, 0, epoch=1)])
    with pytest.raises(OutOfOrderSequenceError):
        state.check([header(1, 5, epoch=1)])


@pytest.mark.parametrize("back", range(5))
def test_each_of_the_last_five_batches_is_a_duplicate(back: int) -> None:
    sent = [header(1, number * 2, 2, base_offset=number * 10) for number in range(8)]
    duplicate = state_after(*sent).find_duplicate(sent[-1 - back])
    assert duplicate is not None
    assert duplicate.base_offset == sent[-1 - back].base_offset


def test_an_older_batch_is_out_of_order_and_no_duplicate() -> None:
    sent = [header(1, number) for number in range(8)]
    state = state_after(*sent)
    assert state.find_duplicate(sent[2]) is None
    with pytest.raises(OutOfOrderSequenceError):
        state.check([sent[2]])


def test_the_same_sequences_of_another_epoch_are_no_duplicate() -> None:
    assert state_after(header(1, 0), header(1, 0, epoch=1)).find_duplicate(header(1, 0)) is None


def test_batches_of_one_request_follow_on_one_another() -> None:
    state_after(header(1, 0)).check([header(1, 1, 2), header(2, 7), header(1, 3)])
    with pytest.raises(OutOfOrderSequenceError):
        state_after(header(1, 0)).check([header(1, 1, 2), header(1, 4)])


def test_batches_without_a_producer_leave_no_trace() -> None:
    state = state_after(read_header(batch(b"a", b"b")))
    assert len(state) == 0
    assert state.end_offset == 2


def test_idle_producers_are_forgotten() -> None:
    state = ProducerState()
    state.update(header(1, 0), written_ms=100)
    state.update(header(2, 0), written_ms=300)
    state.expire(299, 200)
    assert [entry.producer_id for entry in state.entries()] == [1, 2]
    state.expire(300, 200)
    assert [entry.producer_id for entry in state.entries()] == [2]


def test_a_producer_of_old_records_is_kept_by_when_it_wrote() -> None:
    state = ProducerState()
    state.update(header(1, 0)._replace(max_timestamp=-1), written_ms=1000)
    state.expire(1199, 200)
    assert len(state) == 1


def test_the_time_of_a_producer_that_was_replayed_begins_with_the_first_look() -> None:
    state = state_after(header(1, 0)._replace(max_timestamp=100))
    state.expire(1000, 200)
    assert len(state) == 1
    state.expire(1200, 200)
    assert len(state) == 0


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    state = ProducerState()
    state.update(header(1, 0), written_ms=100)
    state.entries()[0].transaction_first_offset = 0
    state.expire(300, 200)
    assert len(state) == 1
