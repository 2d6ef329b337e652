"""Housekeeping while the broker serves: rounds of retention, of segments and of committed offsets.

Concurrency: a task on the event loop, which yields to other work every few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.storage.remote.remote_storage import RemoteStorage
from mainstem.clock import Clock
from mainstem.log.node.node_log import NodeLog
from mainstem.log.node.retention import Retention

_FIRST_ROUND_AFTER_S: Final = 30.0
_TURN_S: Final = 0.002


async def keep_retention(config: BrokerConfig, clock: Clock, log: NodeLog, remote: RemoteStorage) -> None:
    """Apply retention every ``log.retention.check.interval.ms``; the first time soon after the start, as in Kafka."""
    interval_s = int(config.get("log.retention.check.interval.ms")) / 1000
    retention = Retention(log.directory, clock, log.config_of, remote.begin)
    await asyncio.sleep(min(interval_s, _FIRST_ROUND_AFTER_S))
    while True:
        await _in_turns(retention.round())
        await asyncio.sleep(interval_s)


async def keep_offsets(
    config: BrokerConfig, clock: Clock, expire_offsets: Callable[[int, int], Iterator[None]]
) -> None:
    """Remove expired committed offsets every ``offsets.retention.check.interval.ms``.

    ``expire_offsets`` takes the time and how long offsets are kept, both in ms, and yields between groups.
    """
    interval_s = int(config.get("offsets.retention.check.interval.ms")) / 1000
    retention_ms = int(config.get("offsets.retention.minutes")) * 60_000
    while True:
        await asyncio.sleep(interval_s)
        await _in_turns(expire_offsets(clock.time_ms(), retention_ms))


async def _in_turns(steps: Iterator[None]) -> None:
    """Run all steps, a few milliseconds of them at a time."""
    loop = asyncio.get_running_loop()
    turn_ends_s = loop.time() + _TURN_S
    for _ in steps:
        if loop.time() >= turn_ends_s:
            await asyncio.sleep(_TURN_S)
            turn_ends_s = loop.time() + _TURN_S
