from __future__ import annotations

import pytest

from mainstem.log.partition.leader_epochs import EpochEntry, LeaderEpochs

EPOCHS = LeaderEpochs([EpochEntry(1, 0), EpochEntry(4, 50), EpochEntry(6, 90)])


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [(-1, -1, -1), (0, 0, 0), (1, 1, 50), (2, 1, 50), (4, 4, 90), (5, 4, 90), (6, 6, 120), (7, 7, 120), (8, -1, -1)],
)
def test_an_epoch_ends_where_the_next_begins(asked: int, epoch: int, end: int) -> None:
    assert EPOCHS.end_offset_for(asked, log_end_offset=120, current_epoch=7) == (epoch, end)


def test_the_same_or_an_older_epoch_is_no_news() -> None:
    epochs = LeaderEpochs([EpochEntry(4, 50)])
    assert not epochs.assign(4, 60)
    assert not epochs.assign(3, 60)
    assert epochs.assign(5, 60)


def test_an_epoch_that_wrote_nothing_is_replaced() -> None:
    epochs = LeaderEpochs([EpochEntry(4, 50)])
    epochs.assign(5, 50)
    assert epochs.entries == (EpochEntry(5, 50),)


def test_cutting_the_end_forgets_what_began_there() -> None:
    epochs = LeaderEpochs(EPOCHS.entries)
    epochs.truncate_end(90)
    assert epochs.latest == 4


def test_cutting_the_start_moves_the_epoch_that_wrote_there() -> None:
    epochs = LeaderEpochs(EPOCHS.entries)
    epochs.truncate_start(60)
    assert epochs.entries == (EpochEntry(4, 60), EpochEntry(6, 90))


def test_without_entries_the_current_epoch_begins_at_the_end() -> None:
    assert LeaderEpochs().latest == -1
    assert LeaderEpochs().end_offset_for(0, log_end_offset=10, current_epoch=1) == (0, 10)
