"""Commands to a running pipeline: an operator appends them to the log, and the pipeline's App carries them out.

``__mainstem_pipeline_commands`` is compacted. A record's key is the pipeline's name, its value a JSON document with the
action and the time. So a command reaches the App on whatever machine it runs, also through Apache Kafka, and the newest
one holds: a paused pipeline stays paused when its App starts again. With its state, a pipeline publishes the offset of
the last command that was carried out; by that, who asked knows that it was.
"""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.errors import InputError, PipelineNotRunningError, SchemaError, UnknownTopicError
from mainstem.model import Record
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.overview import NOT_SEEN, Overview
from mainstem.pipelines.state import ONCE, Status
from mainstem.schema.topic_schemas import SYSTEM_TOPIC_CONFIGS

COMMANDS_TOPIC: Final = "__mainstem_pipeline_commands"
_POLL_S: Final = 0.2
_SEEN_AGAIN_S: Final = 5.0
"""How long a restart waits for an overdue heartbeat: an App repeats it within seconds after an outage of the log."""


class Action(enum.StrEnum):
    """The action that a command asks for."""

    PAUSE = "pause"
    """End the query after its running micro-batch and keep its checkpoint, until it is resumed."""
    RESUME = "resume"
    """Start the query from its checkpoint."""
    RESTART = "restart"
    """End the query at once and start it from its checkpoint, also while it waits after a failure."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``offset`` is its place in the topic, which orders the commands of a pipeline."""

    pipeline: str
    action: Action
    at_ms: int
    offset: int

    @classmethod
    def from_record(cls, record: Record) -> Command | None:
        """Read a record of the topic; None for a tombstone. Raises SchemaError when it does not parse."""
        if record.value is None:
            return None
        try:
            document = json.loads(record.value)
            action, at_ms = Action(document["action"]), int(document["at_ms"])
            return cls((record.key or b"").decode(), action, at_ms, record.offset)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise SchemaError(
                f"{record.topic}/{record.partition}:{record.offset} is not a command to a pipeline: {error}"
            ) from error


def newest_commands(log: Log) -> dict[str, Command]:
    """The newest command to each pipeline. Raises LogUnavailableError."""
    found: dict[str, Command] = {}
    try:
        for name, command in EntryReader(log, COMMANDS_TOPIC, Command.from_record):
            if command is None:
                found.pop(name, None)
            else:
                found[name] = command
    except UnknownTopicError:
        return {}
    return found


def ask(log: Log, pipeline: str, action: Action, *, sleep: Callable[[float], None] = time.sleep) -> Command:
    """Append a command to a pipeline of any App of this log, and return it; it is not carried out yet.

    A pause and a resumption hold for the next start of an App that does not run. A restart first waits a few seconds
    for the heartbeat of a pipeline that is not seen and did not end: after an outage of the log the heartbeat is late.

    Raises:
        UnknownPipelineError: No such pipeline has run on this log.
        PipelineNotRunningError: A restart of a pipeline whose App does not run.
        InputError: The pipeline is a capture of a database, which takes no commands.
        LogUnavailableError: The log cannot be reached.
    """
    overview = Overview(log)
    state = overview.require(pipeline)
    if state.get("database"):
        raise InputError(f"{pipeline} is a capture of a database: stop and start its mainstem connect instead")
    if action is Action.RESTART:
        state = _seen_again(overview, state, sleep)
    if action is Action.RESTART and not _is_running(state):
        raise PipelineNotRunningError(
            f"pipeline {pipeline} is {state['status']}: start its App with mainstem run APP.py, then ask again"
        )
    log.create_topic(COMMANDS_TOPIC, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
    at_ms = time.time_ns() // 1_000_000
    value = json.dumps({"action": action, "at_ms": at_ms}).encode()
    ((_, end),) = log.append(COMMANDS_TOPIC, value, key=pipeline).items()
    return Command(pipeline, action, at_ms, end - 1)


def wait_until_done(
    log: Log, command: Command, timeout_s: float, *, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """The pipeline's status once its App has carried the command out; None when no App runs it, or it runs once.

    Raises PipelineNotRunningError when the App has not done it within ``timeout_s``. The command then still holds.
    """
    overview, ends_s = Overview(log), time.monotonic() + timeout_s
    while True:
        state = overview.require(command.pipeline)
        done = state.get("command")
        if done is not None and done >= command.offset:
            return str(state["status"])
        if not _is_running(state):
            return None
        if time.monotonic() > ends_s:
            raise PipelineNotRunningError(
                f"the App of pipeline {command.pipeline} has not carried out {command.action} within {timeout_s:g} s; "
                "it still holds, so look again with: mainstem pipelines list"
            )
        sleep(_POLL_S)


def _seen_again(overview: Overview, state: dict[str, Any], sleep: Callable[[float], None]) -> dict[str, Any]:
    """The pipeline's state, after a wait if its heartbeat is overdue."""
    ends_s = time.monotonic() + _SEEN_AGAIN_S
    while state["status"] == NOT_SEEN and state.get("trigger", ONCE) != ONCE and time.monotonic() < ends_s:
        sleep(_POLL_S)
        state = overview.require(state["name"])
    return state


def _is_running(state: dict[str, Any]) -> bool:
    """Whether an App runs the pipeline and takes commands."""
    status = state["status"]
    return status != NOT_SEEN and not Status(status).is_over and state["trigger"] != ONCE
