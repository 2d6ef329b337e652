"""Fetches that wait, without a broker: when they read."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mainstem.broker.later import Later
from mainstem.broker.storage.delayed_fetch import DelayedFetches
from mainstem.broker.storage.fetch_sessions import FetchSession
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic
from mainstem.protocol.schema import Message

LOG = cast("PartitionLog", "the log of partition 0")


def waiting(fetches: DelayedFetches, *partitions: int) -> Later[Message]:
    """A fetch of these partitions that has an answer when one of them changes; all are in ``LOG``."""
    session = FetchSession(fetches, by_id=False, privileged=False)
    asked = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in partitions]
    session.update([FetchTopic(topic="t", partitions=asked)])
    for partition in session.partitions.values():
        session.found(partition, LOG)
        session.has_read(partition)
    session.watch()
    return fetches.delay(session, lambda is_over: FetchResponse(responses=[]), timeout_s=60)


@pytest.mark.parametrize(
    ("fetching", "partitions", "at_once"), [(1, 1, True), (4, 1, True), (5, 1, False), (1, 2, False)]
)
def test_a_fetch_of_one_partition_that_few_wait_for_is_answered_in_the_same_turn(
    fetching: int, partitions: int, at_once: bool
) -> None:
    async def scene() -> tuple[list[bool], list[bool]]:
        fetches = DelayedFetches()
        answers = [waiting(fetches, *range(partitions)) for _ in range(fetching)]
        fetches.wake(LOG)
        before = [answer.done() for answer in answers]
        await asyncio.sleep(0)
        return before, [answer.done() for answer in answers]

    before, after = asyncio.run(scene())
    assert before == [at_once] * fetching
    assert after == [True] * fetching
