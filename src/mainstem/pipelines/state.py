"""The state record: the state of a pipeline's query, published in the log.

The driver appends one record for each pipeline to the compacted topic ``__mainstem_pipeline_states``: its key is the
pipeline's name, its value this document. It appends when something has changed, at most about once a second, and
otherwise a heartbeat every ``HEARTBEAT_MS``. So a reader of the topic knows the state of every query on every machine.
A driver that died sends no heartbeats: ``is_lost``.

Counts start with the driver's current run. Times are milliseconds since the epoch, by the driver's clock.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mainstem.errors import SchemaError
from mainstem.model import Record

STATES_TOPIC: Final = "__mainstem_pipeline_states"
HEARTBEAT_MS: Final = 10_000
LOST_AFTER_MS: Final = 3 * HEARTBEAT_MS
ALWAYS: Final = "as soon as there is data"
ONCE: Final = "once"
"""The triggers of a query."""
RECENT_MAX: Final = 20
"""How many micro-batches a state record remembers."""


class Status(enum.StrEnum):
    """The status of a query."""

    STARTING = "starting"
    RUNNING = "running"
    """It processes records."""
    WAITING = "waiting"
    """It has processed all records and waits for new ones."""
    RESTARTING = "restarting"
    """It failed and restarts after a pause."""
    FAILED = "failed"
    """It failed and does not restart."""
    PAUSED = "paused"
    """An operator paused it: it keeps its checkpoint and goes on when it is resumed."""
    STOPPED = "stopped"
    FINISHED = "finished"
    """It processed all records that existed when it started, then ended, as requested."""

    @property
    def is_over(self) -> bool:
        """Whether the query has ended: it publishes nothing until it is started again."""
        return self in (Status.FAILED, Status.STOPPED, Status.FINISHED)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch. ``lag`` is how many records the log held beyond it when it ended, as far as Spark says.

    ``durations_ms`` are Spark's phases by Spark's names: ``latestOffset``, ``walCommit``, ``queryPlanning``,
    ``addBatch``, ``commitOffsets``, and ``triggerExecution`` for the whole.
    """

    batch_id: int
    at_ms: int
    input_rows: int
    durations_ms: Mapping[str, int]
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The query's last failure. ``next_try_ms`` is None when the query runs again, or will not restart."""

    text: str
    at_ms: int
    next_try_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of the query since the driver started, and the size of its state."""

    micro_batches: int = 0
    input_rows: int = 0
    written_rows: int = 0
    restarts: int = 0
    state_rows: int = 0


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The state of one pipeline. ``input_rows_per_second`` is Spark's, of the last micro-batch.

    ``nulled_values``: how many values became null because they do not fit their columns, by topic and column.
    ``watermark_held_by`` says in words which of several inputs holds the watermark back; None when none does.
    ``command`` is the offset of the last command that was carried out (``control.commands``); None before the first.
    """

    pipeline: str
    app: str
    status: Status
    trigger: str
    started_ms: int
    seen_ms: int
    counts: Counts = Counts()
    nulled_values: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    input_rows_per_second: float = 0.0
    watermark: str | None = None
    watermark_held_by: str | None = None
    failure: Failure | None = None
    recent: tuple[MicroBatch, ...] = field(default=())
    command: int | None = None
    database: Mapping[str, Any] = field(default_factory=dict)
    """Of a capture: where the database's log and its slot are, and how far each table's snapshot is."""

    def is_lost(self, now_ms: int) -> bool:
        """Whether the driver's heartbeat is overdue."""
        return not self.status.is_over and now_ms - self.seen_ms > LOST_AFTER_MS

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the state record."""
        document = dataclasses.asdict(self)
        del document["pipeline"]
        return self.pipeline.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_record(cls, record: Record) -> PipelineState | None:
        """Read a record of the topic; None for a tombstone (the pipeline was dropped).

        Raises SchemaError when the record is not a valid state record.
        """
        if record.value is None:
            return None
        try:
            document = json.loads(record.value)
            failure = document["failure"]
            return cls(
                pipeline=(record.key or b"").decode(),
                app=str(document["app"]),
                status=Status(document["status"]),
                trigger=str(document["trigger"]),
                started_ms=int(document["started_ms"]),
                seen_ms=int(document["seen_ms"]),
                counts=Counts(**document["counts"]),
                nulled_values={topic: dict(columns) for topic, columns in document.get("nulled_values", {}).items()},
                input_rows_per_second=float(document["input_rows_per_second"]),
                watermark=document["watermark"],
                watermark_held_by=document.get("watermark_held_by"),
                failure=None if failure is None else Failure(**failure),
                recent=tuple(_micro_batch(entry) for entry in document["recent"]),
                command=None if document.get("command") is None else int(document["command"]),
                database=dict(document.get("database", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise SchemaError(
                f"{record.topic}/{record.partition}:{record.offset} is not a pipeline's state: {error}"
            ) from error


def _micro_batch(entry: Mapping[str, Any]) -> MicroBatch:
    return MicroBatch(
        int(entry["batch_id"]), int(entry["at_ms"]), int(entry["input_rows"]), dict(entry["durations_ms"]), entry["lag"]
    )
