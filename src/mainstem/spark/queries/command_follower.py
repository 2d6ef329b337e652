"""Follows the commands to pipelines, and keeps the newest one of each for the runner's thread.

The follower's thread replaces whole entries of one dictionary, and the runner's thread only reads it.
"""

from __future__ import annotations

import logging

from mainstem.client.log import Log
from mainstem.client.topic_follower import TopicFollower
from mainstem.errors import SchemaError
from mainstem.model import Record
from mainstem.pipelines.control.commands import COMMANDS_TOPIC, Command

_LOG = logging.getLogger("mainstem.spark")


class CommandFollower(TopicFollower):
    """The newest command of each pipeline. Use it in a ``with`` block."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, COMMANDS_TOPIC)
        self._newest: dict[str, Command] = {}

    def newest(self, pipeline: str) -> Command | None:
        """The newest command to the pipeline, as far as it has come."""
        return self._newest.get(pipeline)

    def take(self, record: Record) -> None:
        try:
            command = Command.from_record(record)
        except SchemaError as error:
            _LOG.warning("%s", error)
            return
        if command is not None:
            self._newest[command.pipeline] = command

    def __enter__(self) -> CommandFollower:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
