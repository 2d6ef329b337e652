from __future__ import annotations

import itertools
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from mainstem.client.log import Log
from mainstem.model import Position

_NUMBERS = itertools.count(1)


def test_a_group_shows_what_it_committed_and_how_far_it_is_behind(
    log: Log, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(partitions=2), f"group-{next(_NUMBERS)}"
    log.append_many(topic, [("k", "x")] * 10)
    [(tp, end)] = [(tp, offset) for tp, offset in log.end(topic).items() if offset]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, tp.partition, 4)], asynchronous=False)
    consumer.close()
    info = log.groups()[group]
    assert (info.committed, info.lag) == (Position({tp: 4}), end - 4)
