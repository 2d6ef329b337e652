"""Workers for tests: the product's own in a thread, and one that any Kafka client could be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mainstem.client.http.request_reply import CORRELATION_ID, REPLY_TOPIC
from mainstem.client.http.worker import Worker
from mainstem.client.log import Log
from mainstem.model import Record


@contextmanager
def working(log: Log, topic: str, function: Callable[[Record], Any], kind: type[Worker] = Worker) -> Iterator[Worker]:
    """A worker that answers, until the end of the block."""
    with kind(log, topic, function) as worker:
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join(60)


def answer_by_hand(log: Log, topic: str, value: Any, **headers: str) -> int:
    """Answer every request that is in the topic now, as the page on requests says; how many there were."""
    requests = [dict(record.headers) for record in log.read(topic)]
    for request in requests:
        where = (request[REPLY_TOPIC] or b"").decode()
        log.append(where, value, key=request[CORRELATION_ID], headers=headers)
    return len(requests)
