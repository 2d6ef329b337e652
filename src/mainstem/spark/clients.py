"""One connection to each log for each Python process of Spark: planners, workers and the driver.

Spark keeps its worker processes for the next task; so a client that is kept in the process saves each task the
connection and the look at the metadata. A client is handed to one thread at a time by ``borrowed``; a fork starts with
none. A client whose use failed is closed, and the next use connects afresh.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.spark.options.options import LogOptions
from mainstem.spark.per_process import PerProcess

if TYPE_CHECKING:
    from mainstem.client.log import Log


@dataclass(slots=True)
class _Idle:
    """The clients that are not borrowed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    clients: dict[LogOptions, list[WireClient]] = field(default_factory=dict)


_IDLE = PerProcess(_Idle)


@contextmanager
def borrowed(log: LogOptions) -> Iterator[WireClient]:
    """A client of the log for the block's time."""
    client = _take(log)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    idle = _IDLE.value
    with idle.lock:
        idle.clients.setdefault(log, []).append(client)


def _take(log: LogOptions) -> WireClient:
    idle = _IDLE.value
    with idle.lock:
        if clients := idle.clients.get(log):
            return clients.pop()
    return WireClient(
        log.bootstrap, client_id=log.client_id, timeout_s=log.timeout_s, reuse_buffers=True, security=log.security
    )


def opened(log: LogOptions) -> Log:
    """The user's client of the same log; the caller closes it."""
    from mainstem.client.log import Log  # librdkafka is loaded by those who need it: planners are short-lived

    return Log(log.bootstrap, timeout_s=log.timeout_s, client_id=log.client_id, security=log.security)
