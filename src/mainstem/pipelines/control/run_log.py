"""A pipeline's log and plan in the log: when it started, failed or changed, and Spark's plan of its latest run.

``__mainstem_pipeline_log`` is compacted, so it stays small. A pipeline has a ring of ``ENTRIES_MAX`` keys,
``PIPELINE/log/NUMBER``, and the key ``PIPELINE/plan``. The entry after the last of the ring replaces the oldest one.
Each value is a JSON document of bounded size. The driver writes the topic; the commands, the gateway and the console
read it on whatever machine they run, also through Apache Kafka. Times are milliseconds since the epoch, by the driver's
clock.
"""

from __future__ import annotations

import enum
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.errors import OffsetOutOfRangeError, SchemaError, UnknownTopicError
from mainstem.model import Position, Record
from mainstem.pipelines.entries import EntryReader

RUN_LOG_TOPIC: Final = "__mainstem_pipeline_log"
ENTRIES_MAX: Final = 200
"""The most entries of a pipeline; a new one replaces the oldest."""
ENTRY_BYTES_MAX: Final = 4_000
PLAN_BYTES_MAX: Final = 64_000
"""The most bytes of a text in UTF-8; a longer one is cut."""
_KEPT_BYTES_MAX: Final = 32 << 20
_ENTRY_OVERHEAD: Final = 400
_CUT: Final = " … (cut)"


class RunEvent(enum.StrEnum):
    """The kinds of entries."""

    STARTED = "started"
    RESTARTED = "restarted"
    PAUSED = "paused"
    RESUMED = "resumed"
    FAILED = "failed"
    """It is started again after a pause."""
    GIVEN_UP = "given up"
    """It failed and is not started again."""
    CHANGED = "changed"
    """Its function or its plan differs from the one of its checkpoint."""
    REBUILT = "rebuilt"
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RunLogEntry:
    """One entry. ``number`` counts the pipeline's entries from 0."""

    pipeline: str
    number: int
    at_ms: int
    event: RunEvent
    text: str

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        document = {"number": self.number, "at_ms": self.at_ms, "event": self.event, "text": self.text}
        return f"{self.pipeline}/log/{self.number % ENTRIES_MAX:03}".encode(), _json(document)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Spark's plan of a pipeline's latest run. ``batch_id`` is its micro-batch, None where it is not known."""

    pipeline: str
    at_ms: int
    batch_id: int | None
    text: str

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        return f"{self.pipeline}/plan".encode(), _json(
            {"at_ms": self.at_ms, "batch_id": self.batch_id, "text": self.text}
        )


def parse_run_record(record: Record) -> RunLogEntry | RunPlan | None:
    """Read a record of the topic; None for a tombstone. Raises SchemaError when it does not parse."""
    if record.value is None:
        return None
    try:
        pipeline, _, kind = (record.key or b"").decode().partition("/")
        document = json.loads(record.value)
        at_ms, text = int(document["at_ms"]), str(document["text"])
        if kind == "plan":
            batch_id = document["batch_id"]
            return RunPlan(pipeline, at_ms, None if batch_id is None else int(batch_id), cut(text, PLAN_BYTES_MAX))
        event = RunEvent(document["event"])
        return RunLogEntry(pipeline, int(document["number"]), at_ms, event, cut(text, ENTRY_BYTES_MAX))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise SchemaError(
            f"{record.topic}/{record.partition}:{record.offset} is not an entry of a pipeline's log: {error}"
        ) from error


def cut(text: str, bytes_max: int) -> str:
    """The text, or its beginning when it is longer than ``bytes_max`` bytes of UTF-8."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= bytes_max:
        return encoded.decode()
    return encoded[: bytes_max - len(_CUT.encode())].decode(errors="ignore") + _CUT


class RunLogs:
    """The logs and plans of all pipelines of one log. Each call reads on from where the last one stopped. Thread-safe.

    It keeps at most 32 MiB: beyond that, the entries that were written first are left out.
    """

    def __init__(self, log: Log, *, kept_bytes_max: int = _KEPT_BYTES_MAX) -> None:
        self._log = log
        self._kept_bytes_max = kept_bytes_max
        self._lock = threading.Lock()
        self._read_up_to: Position | None = None
        self._kept: OrderedDict[str, RunLogEntry | RunPlan] = OrderedDict()
        self._bytes = 0

    def entries(self, pipeline: str | None = None) -> list[RunLogEntry]:
        """The entries of a pipeline, or of all, newest first; none before the first. Raises LogUnavailableError."""
        found = [each for each in self._catch_up() if isinstance(each, RunLogEntry)]
        mine = [each for each in found if pipeline is None or each.pipeline == pipeline]
        return sorted(mine, key=lambda each: (each.at_ms, each.number), reverse=True)

    def plan(self, pipeline: str) -> RunPlan | None:
        """The plan of a pipeline's latest run; None before the first. Raises LogUnavailableError."""
        plans = (each for each in self._catch_up() if isinstance(each, RunPlan) and each.pipeline == pipeline)
        return next(plans, None)

    def _catch_up(self) -> list[RunLogEntry | RunPlan]:
        with self._lock:
            try:
                reader = EntryReader[RunLogEntry | RunPlan](
                    self._log, RUN_LOG_TOPIC, parse_run_record, start=self._read_up_to
                )
            except (UnknownTopicError, OffsetOutOfRangeError):  # it was deleted, or deleted and created again
                self._read_up_to, self._bytes = None, 0
                self._kept.clear()
                return []
            for key, entry in reader:
                self._keep(key, entry)
            self._read_up_to = reader.position
            return list(self._kept.values())

    def _keep(self, key: str, entry: RunLogEntry | RunPlan | None) -> None:
        former = self._kept.pop(key, None)
        self._bytes -= _size(former) if former is not None else 0
        if entry is not None:
            self._kept[key] = entry
            self._bytes += _size(entry)
        while self._bytes > self._kept_bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(entry: RunLogEntry | RunPlan) -> int:
    """About how many bytes of memory an entry takes."""
    return len(entry.text) + _ENTRY_OVERHEAD


def keys_of(log: Log, pipeline: str) -> list[bytes]:
    """The keys of a pipeline's entries and plan, removed ones too. Raises LogUnavailableError."""
    prefix = f"{pipeline}/".encode()
    try:
        records = log.read(RUN_LOG_TOPIC, on_damaged="skip")
        return sorted({record.key for record in records if record.key is not None and record.key.startswith(prefix)})
    except UnknownTopicError:
        return []


def log_json(pipeline: str, entries: Sequence[RunLogEntry]) -> dict[str, Any]:
    """A pipeline's log as the gateway and the command give it."""
    shown = [{"at_ms": entry.at_ms, "event": entry.event.value, "text": entry.text} for entry in entries]
    return {"pipeline": pipeline, "entries": shown}


def plan_json(pipeline: str, plan: RunPlan | None) -> dict[str, Any]:
    """A pipeline's plan as the gateway and the command give it."""
    if plan is None:
        return {"pipeline": pipeline, "plan": None, "at_ms": None, "batch_id": None}
    return {"pipeline": pipeline, "plan": plan.text, "at_ms": plan.at_ms, "batch_id": plan.batch_id}


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
