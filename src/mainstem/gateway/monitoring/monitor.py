"""``Monitor``: every five seconds one snapshot of the node, for the history and the problems.

It asks the log's metrics, the view hosts, the pipelines' states and, where the log's metrics are not known, the ends of
the topics. The requests are awaited; reading and writing happen in a thread of its own. A part that does not answer in
time is left out of the snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final, TypeVar

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.errors import MainstemError
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.monitoring.alert_webhook import AlertWebhook
from mainstem.gateway.monitoring.history import History
from mainstem.gateway.monitoring.marks import Marks
from mainstem.gateway.monitoring.problem_watch import ProblemWatch
from mainstem.gateway.monitoring.ring_file import FINE
from mainstem.gateway.monitoring.snapshots import Document, NodeSnapshot, SeriesReader, dead_letter_topic, read_metrics
from mainstem.gateway.operation.log_metrics import LogMetrics
from mainstem.gateway.views.backend import ViewBackend
from mainstem.model import Position
from mainstem.pipelines.overview import Overview

_TIMEOUT_S: Final = 4.0
_HOUR_MS: Final = 3_600_000
_PARTITIONS_MAX: Final = 1_000
_Found = TypeVar("_Found")


class Monitor:
    """The history and the problems of one node; used by one event loop."""

    def __init__(
        self,
        log: Log,
        metrics: LogMetrics | None,
        views: ViewBackend,
        history: History | None = None,
        clock: Clock | None = None,
        webhook: AlertWebhook | None = None,
    ) -> None:
        self.history = history or History()
        self.marks = Marks(log, self.history)
        self.problems = ProblemWatch(self._an_hour_ago)
        self.clock = clock or SystemClock()
        self._log = log
        self._metrics = metrics
        self._views = views
        self._pipelines = Overview(log, self.clock)
        self._asking = Workers(2)
        self._keeping = Workers(1)
        self._sending = Workers(1)
        self._webhook = webhook
        self._telling: asyncio.Task[None] | None = None
        self._series = SeriesReader()

    async def run(self) -> None:
        """Sample until the task is cancelled."""
        try:
            while True:
                step_ms = FINE.step_s * 1000
                await asyncio.sleep((step_ms - self.clock.time_ms() % step_ms) / 1000)
                try:
                    await self.sample()
                except Exception as error:  # noqa: BLE001 the next sample is taken
                    failed("history", error)
                if self._telling is None or self._telling.done():
                    self._telling = asyncio.create_task(self.tell(), name="alert webhook")
        finally:
            self.history.close()

    async def sample(self) -> None:
        """Take one snapshot, and keep what is in it."""
        page, views, pipelines = await asyncio.gather(
            _in_time(self._page()),
            _in_time(self._views.statuses()),
            _in_time(self._asking.run(self._pipelines.latest)),
        )
        ends = await _in_time(self._asking.run(self._ends, pipelines or [], page is None))
        await self._keeping.run(self._keep, page, views, pipelines, ends or Position())

    async def tell(self) -> None:
        """Send what has changed to the webhook, if there is one; a receiver that is slow holds up no sample."""
        if self._webhook is not None:
            try:
                await self._sending.run(self._webhook.tell, self.problems.current)
            except Exception as error:  # noqa: BLE001 the next change is sent
                failed("alert webhook", error)

    def _keep(
        self, page: bytes | None, views: list[Document] | None, pipelines: list[Document] | None, ends: Position
    ) -> None:
        at_ms = self.clock.time_ms()
        self.history.load(at_ms)
        metrics = None if page is None else read_metrics(page)
        snapshot = NodeSnapshot(at_ms, metrics, views, pipelines, ends)
        values = self._series.read(snapshot)
        self.problems.look(snapshot, values)
        self.history.record(at_ms, values)

    async def _page(self) -> bytes | None:
        return None if self._metrics is None else bytes((await self._metrics.page()).body)

    def _ends(self, pipelines: list[Document], with_topics: bool) -> Position:
        """The ends of the topics of dead letters; of all topics too where the log's metrics are not known."""
        wanted = {dead_letter_topic(pipeline) for pipeline in pipelines}
        if not wanted and not with_topics:
            return Position()
        partitions, chosen = 0, []
        for name, topic in self._log.topics().items():
            if name in wanted or (with_topics and not topic.is_internal and not name.startswith("__")):
                partitions += topic.partitions
                if partitions > _PARTITIONS_MAX:
                    break
                chosen.append(name)
        return self._log.end(*chosen) if chosen else Position()

    def _an_hour_ago(self, series: str) -> float | None:
        now_ms = self.clock.time_ms()
        found = self.history.read([series], now_ms - _HOUR_MS, now_ms, series_max=1, points_max=720)
        points = found.series.get(series)
        return points[0][1] if points else None


async def _in_time(asked: Awaitable[_Found]) -> _Found | None:
    """The answer; None where it is an error, or late."""
    with suppress(MainstemError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT_S):
            return await asked
    return None


def start(monitor: Monitor) -> asyncio.Task[Any]:
    """Begin to sample, in a task of the running loop."""
    return asyncio.create_task(monitor.run(), name="history")
