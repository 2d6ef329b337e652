"""The cache of fetch sessions, and one session, without a broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mainstem.broker.storage.fetch_sessions import FetchSession, FetchSessions, ReportedOffsets, Watcher
from mainstem.errors import RemoteError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic


class Watched:
    """Keeps who watches what."""

    def __init__(self) -> None:
        self.pairs: set[tuple[Any, Any]] = set()

    def watch(self, log: PartitionLog, watcher: Watcher) -> None:
        assert (log, watcher) not in self.pairs
        self.pairs.add((log, watcher))

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None:
        self.pairs.remove((log, watcher))


def asked(*numbers: int, topic: str = "t", offset: int = 0) -> FetchTopic:
    return FetchTopic(
        topic=topic,
        partitions=[FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=100) for n in numbers],
    )


def session(size: int, watches: Watched | None = None, *, privileged: bool = False) -> FetchSession:
    made = FetchSession(watches or Watched(), by_id=False, privileged=privileged)
    made.update([asked(*range(size))])
    return made


def log(name: str) -> PartitionLog:
    return cast("PartitionLog", name)


def code_of(error: pytest.ExceptionInfo[RemoteError]) -> int:
    return error.value.code


def test_a_kept_session_is_found_by_its_id_and_its_epoch() -> None:
    cache = FetchSessions(10, 100)
    made = session(3)
    assert cache.keep(made, 0)
    assert cache.use(made.session_id, 1, by_id=False) is made
    for session_id, epoch, by_id, code in [
        (made.session_id + 1, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (made.session_id, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (made.session_id, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ]:
        with pytest.raises(RemoteError) as error:
            cache.use(session_id, epoch, by_id=by_id)
        assert code_of(error) == code


def test_the_epoch_begins_again_at_one_after_the_greatest() -> None:
    made = session(1)
    made.epoch = 2**31 - 1
    assert made.advance() == 1


def test_an_id_is_never_given_twice_at_a_time() -> None:
    ids = iter([7, 7, 7, 8])
    cache = FetchSessions(10, 100, lambda: next(ids))
    first, second = session(1), session(1)
    cache.keep(first, 0)
    cache.keep(second, 0)
    assert (first.session_id, second.session_id) == (7, 8)


@pytest.mark.parametrize(
    ("old_size", "old_privileged", "used_s", "now_s", "size", "privileged", "kept"),
    [
        (5, False, 0, 121, 1, False, True),  # not used for two minutes
        (5, False, 119, 121, 6, False, True),  # in use, old, and smaller
        (5, False, 119, 121, 5, False, False),  # in use, old, and as large
        (1, False, 0, 100, 6, False, False),  # young
        (5, False, 0, 100, 1, True, True),  # young, but a consumer's against a follower's
        (1, True, 119, 121, 6, False, False),  # a follower's against a consumer's
        (1, True, 0, 121, 6, False, True),  # a follower's that is not used any more
    ],
)
def test_who_makes_room_in_a_full_cache(
    old_size: int, old_privileged: bool, used_s: float, now_s: float, size: int, privileged: bool, kept: bool
) -> None:
    cache = FetchSessions(1, 100)
    old, new = session(old_size, privileged=old_privileged), session(size, privileged=privileged)
    assert cache.keep(old, 0)
    cache.touch(old, used_s)
    assert cache.keep(new, now_s) is kept
    assert old.is_closed is kept
    expected = {"sessions": 1, "partitions": size if kept else old_size, "evictions": int(kept)}
    assert cache.statistics() == expected


def test_the_smallest_of_the_old_ones_makes_room() -> None:
    cache = FetchSessions(3, 100)
    sessions = [session(size) for size in (4, 2, 3)]
    for made in sessions:
        cache.keep(made, 0)
        cache.touch(made, 100)
    assert cache.keep(session(9), 150)
    assert [made.is_closed for made in sessions] == [False, True, False]


def test_without_slots_or_room_for_its_partitions_nothing_is_kept() -> None:
    assert not FetchSessions(0, 100).keep(session(1), 0)
    assert FetchSessions(1, 100).keep(session(0), 0)
    assert not FetchSessions(1, 100).keep(session(101), 0)


def test_a_session_that_grows_beyond_the_limit_ends() -> None:
    cache = FetchSessions(10, 5)
    made = session(3)
    cache.keep(made, 0)
    made.update([asked(*range(6))])
    with pytest.raises(RemoteError) as error:
        cache.touch(made, 1)
    assert code_of(error) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert made.is_closed
    assert cache.statistics() == {"sessions": 0, "partitions": 0, "evictions": 0}


def test_a_session_watches_what_it_found_until_it_is_closed() -> None:
    watches = Watched()
    made = session(3, watches)
    first, second, third = made.partitions.values()
    made.found(first, log("a"))
    made.found(second, log("b"))
    assert watches.pairs == set()
    made.watch()
    made.found(second, log("b2"))
    made.found(third, log("c"))
    made.update([], [ForgottenTopic(topic="t", partitions=[0, 9])])
    assert watches.pairs == {("b2", second), ("c", third)}
    made.close()
    assert watches.pairs == set()


def test_what_was_read_to_its_end_is_read_again_only_when_it_changes_or_is_asked_for() -> None:
    made = session(3)
    first, second, third = made.partitions.values()
    for partition in (first, second, third):
        made.has_read(partition)
        made.answered(partition, ReportedOffsets(0, 0, 0), gave_records=False)
    assert list(made.unread) == []
    third.log_changed(at_once=True)
    made.update([asked(0, offset=5)])
    assert list(made.unread) == [third, first]
    assert first.asked.fetch_offset == 5


def test_what_gave_records_goes_behind_what_the_limit_left_out() -> None:
    made = session(3)
    first, second, third = made.partitions.values()
    made.answered(first, ReportedOffsets(9, 9, 0), gave_records=True)
    made.update([asked(0, offset=9)])
    assert list(made.unread) == [second, third, first]


def test_an_error_is_looked_at_again_with_the_next_fetch() -> None:
    made = session(1)
    (only,) = made.partitions.values()
    made.has_read(only)
    made.answered(only, None, gave_records=False)
    assert list(made.unread) == [only]


def test_another_isolation_level_looks_at_everything_anew() -> None:
    made = session(2)
    for partition in made.partitions.values():
        made.has_read(partition)
    made.update([], isolation_level=1)
    assert len(made.unread) == 2


def test_who_listens_is_told_when_another_takes_its_place_and_when_the_session_ends() -> None:
    heard: list[str] = []
    made = session(1)
    made.listen(lambda _: heard.append("first"))
    made.listen(lambda _: heard.append("second"))
    made.close()
    assert heard == ["first", "second"]
