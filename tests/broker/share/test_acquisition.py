"""A share partition, step by step, and whatever happens: what it promises of each record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.share import acquisition
from mainstem.broker.share.acquisition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    AcquireMode,
    AcquireParams,
    AcquisitionLimits,
    Extent,
)
from mainstem.broker.share.in_flight import UNKNOWN_BATCH, InFlight, RecordState, Run
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode

ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)


class Driver:
    """A share partition over a log of batches of five records each, with a clock that stands still until told."""

    def __init__(self, batches: int = 10, start: int = 0, **limits: Any) -> None:
        self.state = InFlight(start)
        self.limits = AcquisitionLimits(**limits)
        self.extents = [Extent(number * 5, number * 5 + 4) for number in range(batches)]
        self.now_s = 0.0

    def apply(self, changes: list[Run]) -> None:
        self.state = self.state.applied(changes)
        self.state.check()

    def acquire(
        self, member: str, records_max: int = 500, *, exact: bool = False, batch_size: int = 500
    ) -> list[Acquired]:
        offset = self.state.next_fetch_offset
        mode = AcquireMode.RECORD_LIMIT if exact else AcquireMode.BATCH_OPTIMIZED
        params = AcquireParams(member, records_max, batch_size, mode, self.now_s + self.limits.lock_duration_s)
        read = [extent for extent in self.extents if extent.last >= offset]
        changes, acquired = acquisition.acquire(self.state, offset, read, params, self.limits)
        self.apply(changes)
        return acquired

    def acknowledge(self, member: str, first: int, last: int, *types: int) -> None:
        batch = Acknowledgement(first, last, types)
        self.apply(acquisition.acknowledge(self.state, member, [batch], self.limits, self.now_s))

    def release(self, member: str) -> None:
        self.apply(acquisition.release_member(self.state, member, self.limits))

    def expire(self, after_s: float = 0.0) -> None:
        self.now_s += after_s
        self.apply(acquisition.expire(self.state, self.now_s, self.limits))


def refused(driver: Driver, *arguments: Any) -> ErrorCode:
    with pytest.raises(RemoteError) as raised:
        driver.acknowledge(*arguments)
    return ErrorCode(raised.value.code)


def test_two_members_get_different_batches() -> None:
    driver = Driver()
    assert driver.acquire("a", 10) == [Acquired(0, 9, 1)]
    assert driver.acquire("b", 10) == [Acquired(10, 19, 1)]


def test_a_batch_that_is_begun_is_taken_whole() -> None:
    assert Driver().acquire("a", 7) == [Acquired(0, 9, 1)]


def test_a_record_limit_is_kept_exactly_and_the_rest_is_for_the_next() -> None:
    driver = Driver()
    assert driver.acquire("a", 7, exact=True) == [Acquired(0, 6, 1)]
    assert driver.acquire("b", 7, exact=True) == [Acquired(7, 9, 1), Acquired(10, 13, 1)]


@pytest.mark.parametrize("exact", [True, False])
def test_what_was_acquired_at_once_stays_a_unit_when_it_is_delivered_again(exact: bool) -> None:
    """As Kafka 4.3.1 answers: in batches of the first delivery, in either mode of the second one."""
    driver = Driver()
    driver.acquire("a", 10)
    driver.acquire("a", 10)
    driver.release("a")
    assert driver.acquire("b", 20, exact=exact) == [Acquired(0, 9, 2), Acquired(10, 19, 2)]


def test_a_limit_cuts_the_last_of_the_units_that_are_delivered_again() -> None:
    driver = Driver()
    driver.acquire("a", 10)
    driver.acquire("a", 10)
    driver.release("a")
    assert driver.acquire("b", 13, exact=True) == [Acquired(0, 9, 2), Acquired(10, 12, 2)]
    assert driver.acquire("b", 13, exact=True)[0] == Acquired(13, 19, 2)


def test_a_unit_of_several_batches_is_begun_and_then_taken_whole() -> None:
    driver = Driver()
    driver.acquire("a", 20, exact=True)
    driver.release("a")
    assert driver.acquire("b", 3) == [Acquired(0, 19, 2)]


def test_the_rest_of_a_batch_behind_a_limit_is_in_flight() -> None:
    driver = Driver()
    driver.acquire("a", 3, exact=True)
    assert refused(driver, "a", 0, 4, RELEASE) == ErrorCode.INVALID_RECORD_STATE


def test_what_is_acquired_is_parted_at_batches_of_the_size_that_was_asked_for() -> None:
    assert Driver().acquire("a", 20, batch_size=7) == [Acquired(0, 9, 1), Acquired(10, 19, 1)]


def test_accepting_in_order_moves_the_start_offset() -> None:
    driver = Driver()
    driver.acquire("a", 10)
    driver.acknowledge("a", 0, 3, ACCEPT)
    assert driver.state.start_offset == 4
    driver.acknowledge("a", 6, 9, REJECT)
    assert (driver.state.start_offset, driver.state.delivery_complete_count) == (4, 4)
    driver.acknowledge("a", 4, 5, ACCEPT)
    assert driver.state == InFlight(10)


def test_one_type_for_each_offset() -> None:
    driver = Driver()
    driver.acquire("a", 5)
    driver.acknowledge("a", 0, 4, ACCEPT, RELEASE, REJECT, GAP, ACCEPT)
    assert driver.acquire("b", 1, exact=True) == [Acquired(1, 1, 2)]


def test_a_released_record_comes_before_new_ones_with_its_deliveries_counted() -> None:
    driver = Driver()
    driver.acquire("a", 10)
    driver.acknowledge("a", 3, 3, RELEASE)
    assert driver.acquire("b", 5) == [Acquired(3, 3, 2), Acquired(10, 14, 1)]


def test_the_last_delivery_archives_a_record_that_is_released_again() -> None:
    driver = Driver(deliveries_max=2)
    driver.acquire("a", 5)
    driver.release("a")
    driver.acquire("a", 5)
    driver.release("a")
    while driver.acquire("a", 5, exact=True)[0].first < 5:
        driver.release("a")
    assert driver.state.start_offset == 5


def test_a_record_on_its_last_try_comes_alone() -> None:
    driver = Driver(deliveries_max=3)
    for _ in range(2):
        driver.acquire("a", 5)
        driver.release("a")
    sizes = [sum(acquired.size for acquired in driver.acquire("a", 500)) for _ in range(3)]
    assert sizes == [1, 1, 1]


def test_records_that_fail_often_are_tried_fewer_at_once() -> None:
    driver = Driver(deliveries_max=10)
    driver.extents = [Extent(0, 99)]
    for _ in range(5):
        driver.acquire("a")
        driver.release("a")
    assert driver.acquire("a") == [Acquired(0, 49, 6)]


def test_a_lock_ends_when_its_time_is_over() -> None:
    driver = Driver(lock_duration_s=30.0)
    driver.acquire("a", 5)
    driver.expire(after_s=29.0)
    assert driver.state.next_deadline_s == 30.0
    driver.expire(after_s=1.0)
    assert driver.acquire("b", 5) == [Acquired(0, 4, 2)]
    assert refused(driver, "a", 0, 4, ACCEPT) == ErrorCode.INVALID_RECORD_STATE


def test_renewal_begins_the_lock_anew() -> None:
    driver = Driver(lock_duration_s=30.0)
    driver.acquire("a", 5)
    driver.expire(after_s=20.0)
    driver.acknowledge("a", 0, 1, RENEW)
    driver.expire(after_s=10.0)
    assert driver.state.next_fetch_offset == 2
    assert driver.state.next_deadline_s == 50.0


def test_no_more_is_locked_than_is_allowed() -> None:
    driver = Driver(locks_max=10)
    assert driver.acquire("a", 12) == [Acquired(0, 9, 1)]
    assert driver.acquire("b", 5) == []
    driver.acknowledge("a", 7, 7, RELEASE)
    assert driver.acquire("b", 5) == [Acquired(7, 7, 2)]
    driver.acknowledge("a", 0, 6, ACCEPT)
    assert driver.acquire("b", 5) == [Acquired(10, 14, 1)]


def test_offsets_that_compaction_took_are_passed_over() -> None:
    driver = Driver()
    driver.acquire("a", 15)
    driver.release("a")
    driver.extents = [Extent(8, 9), Extent(20, 24)]
    assert driver.acquire("a") == [Acquired(8, 9, 2), Acquired(20, 24, 1)]
    assert driver.state.start_offset == 8
    driver.acknowledge("a", 8, 9, ACCEPT)
    assert driver.state.start_offset == 20


def test_batches_that_are_for_nobody_are_passed_over() -> None:
    driver = Driver()
    driver.extents = [Extent(0, 4, deliverable=False), Extent(5, 9), Extent(10, 10, deliverable=False)]
    assert driver.acquire("a") == [Acquired(5, 9, 1)]
    assert driver.state.start_offset == 5
    driver.acknowledge("a", 5, 9, ACCEPT)
    assert driver.state == InFlight(11)


def test_the_log_start_moves_past_what_is_in_flight() -> None:
    driver = Driver()
    driver.acquire("a", 10)
    driver.state = driver.state.applied((), start_offset=7)
    driver.state.check()
    assert driver.state.start_offset == 7
    driver.acknowledge("a", 0, 9, ACCEPT)
    assert driver.state.start_offset == 10
    assert driver.state.applied((), start_offset=50) == InFlight(50)


def test_a_limit_that_was_lowered_archives_what_is_over_it() -> None:
    driver = Driver(deliveries_max=8)
    for _ in range(4):
        driver.acquire("a", 5)
        driver.release("a")
    driver.limits = AcquisitionLimits(deliveries_max=3)
    assert driver.acquire("a", 5) == [Acquired(5, 9, 1)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("b", 0, 4, ACCEPT), ErrorCode.INVALID_RECORD_STATE),
        (("a", 0, 50, ACCEPT), ErrorCode.INVALID_REQUEST),
        (("a", 4, 0, ACCEPT), ErrorCode.INVALID_REQUEST),
        (("a", -3, 0, ACCEPT), ErrorCode.INVALID_REQUEST),
        (("a", 0, 4), ErrorCode.INVALID_REQUEST),
        (("a", 0, 4, ACCEPT, ACCEPT), ErrorCode.INVALID_REQUEST),
        (("a", 0, 4, 5), ErrorCode.INVALID_REQUEST),
        (("a", 0, 4, -1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_acknowledged_is_refused(arguments: tuple[Any, ...], code: ErrorCode) -> None:
    driver = Driver()
    driver.acquire("a", 5)
    before = driver.state
    assert refused(driver, *arguments) == code
    assert driver.state == before


def test_a_record_is_acknowledged_once() -> None:
    driver = Driver()
    driver.acquire("a", 5)
    driver.acknowledge("a", 2, 2, ACCEPT)
    assert refused(driver, "a", 2, 2, ACCEPT) == ErrorCode.INVALID_RECORD_STATE


_MEMBERS = st.sampled_from(["a", "b", "c"])
_STEPS = st.one_of(
    st.tuples(st.just("acquire"), _MEMBERS, st.integers(1, 30), st.booleans(), st.integers(1, 12)),
    st.tuples(
        st.just("acknowledge"), _MEMBERS, st.integers(0, 60), st.lists(st.integers(0, 4), min_size=1, max_size=12)
    ),
    st.tuples(st.just("release"), _MEMBERS),
    st.tuples(st.just("expire"), st.integers(0, 40)),
    st.tuples(st.just("log start"), st.integers(0, 60)),
    st.tuples(st.just("compact"), st.integers(0, 10)),
)


class Witness:
    """Keeps for each record what was seen of it, without any of the code that is tested."""

    def __init__(self, deliveries_max: int) -> None:
        self.driver = Driver(batches=12, deliveries_max=deliveries_max, locks_max=25)
        self.deliveries_max = deliveries_max
        self.done: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self.replica = InFlight(0)  # what a replay of the written changes gives
        self.start_offset = 0

    def step(self, name: str, *arguments: Any) -> None:
        driver = self.driver
        before = driver.state
        changes: list[Run] = []
        log_start = -1
        if name == "acquire":
            member, records_max, exact, batch_size = arguments
            offset = before.next_fetch_offset
            mode = AcquireMode.RECORD_LIMIT if exact else AcquireMode.BATCH_OPTIMIZED
            params = AcquireParams(member, records_max, batch_size, mode, driver.now_s + 30.0)
            read = [extent for extent in driver.extents if extent.last >= offset]
            changes, acquired = acquisition.acquire(before, offset, read, params, driver.limits)
            self.delivered(acquired, records_max if exact else None)
        elif name == "acknowledge":
            member, first, types = arguments
            batch = Acknowledgement(first, first + len(types) - 1, types)
            try:
                changes = acquisition.acknowledge(before, member, [batch], driver.limits, driver.now_s)
            except RemoteError:
                return
            self.done.update(first + index for index, type_ in enumerate(types) if type_ in (ACCEPT, REJECT, GAP))
        elif name == "release":
            changes = acquisition.release_member(before, arguments[0], driver.limits)
        elif name == "expire":
            driver.now_s += arguments[0]
            changes = acquisition.expire(before, driver.now_s, driver.limits)
        elif name == "log start":
            log_start = arguments[0]
        elif name == "compact":
            driver.extents = [extent for extent in driver.extents if extent.first != arguments[0] * 5]
        driver.state = before.applied(changes, log_start)
        known = [run.to(RecordState.AVAILABLE) if run.state is RecordState.ACQUIRED else run for run in changes]
        written = [run._replace(batch=UNKNOWN_BATCH) for run in known]
        self.replica = self.replica.applied(written, log_start)

    def delivered(self, acquired: list[Acquired], records_max: int | None) -> None:
        offsets = [offset for range_ in acquired for offset in range(range_.first, range_.last + 1)]
        assert records_max is None or len(offsets) <= records_max
        for range_ in acquired:
            for offset in range(range_.first, range_.last + 1):
                held = next(iter(self.driver.state.within(offset, offset)), None)
                assert held is None or held.state is RecordState.AVAILABLE, "one holder a record"
                self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert range_.delivery_count == self.deliveries[offset] <= self.deliveries_max
        assert not self.done.intersection(offsets), "what was acknowledged is not delivered again"

    def check(self) -> None:
        state = self.driver.state
        state.check()
        assert state.start_offset >= self.start_offset, "the start offset never goes back"
        self.start_offset = state.start_offset
        assert state.written() == self.replica, "the state is a replay of what was written"


@settings(max_examples=300)
@given(st.lists(_STEPS, max_size=40), st.integers(2, 6))
def test_whatever_happens_a_share_partition_keeps_its_promises(steps: list[tuple[Any, ...]], limit: int) -> None:
    witness = Witness(limit)
    for step in steps:
        witness.step(*step)
        witness.check()


@settings(max_examples=100)
@given(st.lists(_STEPS, max_size=30), st.integers(2, 6))
def test_every_record_is_delivered_in_the_end_unless_it_was_tried_too_often(
    steps: list[tuple[Any, ...]], limit: int
) -> None:
    witness = Witness(limit)
    for step in steps:
        witness.step(*step)
        witness.check()
    for _ in range(2000):
        witness.step("expire", 31)
        witness.step("acquire", "z", 500, False, 500)
        held = [run for run in witness.driver.state.runs if run.member_id == "z"]
        for run in held:
            witness.step("acknowledge", "z", run.first, [ACCEPT] * run.size)
        witness.check()
        if not held:
            break
    last = max((extent.last for extent in witness.driver.extents), default=-1)
    assert not witness.driver.state.runs
    assert witness.driver.state.start_offset > last
