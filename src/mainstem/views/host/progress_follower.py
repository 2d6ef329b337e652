"""Follows ``__mainstem_progress`` and keeps a Coverage up to date: one thread, from start to stop.

It reads the topic from its beginning, so that after it has caught up every pipeline that ever reported is known.
"""

from __future__ import annotations

import logging

from mainstem.client.log import Log
from mainstem.client.topic_follower import TopicFollower
from mainstem.errors import SchemaError
from mainstem.model import Record
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.views.feed.coverage import Coverage
from mainstem.views.subscriptions.changes import Changes

_LOG = logging.getLogger("mainstem.views")


class ProgressFollower(TopicFollower):
    """Keeps a Coverage up to date."""

    def __init__(self, log: Log, coverage: Coverage, changes: Changes) -> None:
        super().__init__(log, PROGRESS_TOPIC)
        self._coverage = coverage
        self._changes = changes

    def take(self, record: Record) -> None:
        try:
            progress = Progress.from_record(record)
        except SchemaError as error:
            _LOG.warning("%s", error)
            return
        if progress is None:
            self._coverage.drop((record.key or b"").decode(errors="replace"))
        else:
            self._coverage.add(progress)
        self._changes.notify()
