"""The finished micro-batches: one record for each, in ``__mainstem_batches``, kept for a week.

The progress topic is compacted, so it keeps only where a pipeline is now. This topic says how it came there: the range
of its inputs that each micro-batch read, and the range of its outputs that it wrote. Key: the pipeline's name. The
record's timestamp is when the micro-batch ended, by the driver's clock.

``from`` names only the partitions that moved: the others are where ``to`` has them.

Two things may happen when a driver is killed. A micro-batch that runs again may be in the topic twice: the first one
counts. A micro-batch may be missing: then ``from`` of the next one covers what the missing one read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mainstem.errors import SchemaError
from mainstem.model import Position, Record

if TYPE_CHECKING:
    from mainstem.client.log import Log

BATCHES_TOPIC: Final = "__mainstem_batches"
_KEPT_MS: Final = 7 * 24 * 3_600 * 1_000
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(_KEPT_MS), "segment.bytes": str(16 << 20)}


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """One micro-batch of a pipeline: it read from ``source_from`` to ``source_to``, and wrote likewise.

    All four positions are complete and cumulative, as those of a progress record.
    """

    pipeline: str
    batch_id: int
    source_from: Position
    source_to: Position
    sink_from: Position
    sink_to: Position
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of its record."""
        document = {
            "batch_id": self.batch_id,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "source": _range_json(self.source_from, self.source_to),
            "sink": _range_json(self.sink_from, self.sink_to),
        }
        return self.pipeline.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_record(cls, record: Record) -> FinishedBatch | None:
        """Read a record of the topic; None for a tombstone. Raises SchemaError when it is not valid."""
        if record.value is None:
            return None
        try:
            document = json.loads(record.value)
            source_from, source_to = _range(document["source"])
            sink_from, sink_to = _range(document["sink"])
            return cls(
                pipeline=(record.key or b"").decode(),
                batch_id=int(document["batch_id"]),
                source_from=source_from,
                source_to=source_to,
                sink_from=sink_from,
                sink_to=sink_to,
                inputs=tuple(document["inputs"]),
                outputs=tuple(document["outputs"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise SchemaError(
                f"{record.topic}/{record.partition}:{record.offset} is not a finished micro-batch: {error}"
            ) from error


def create_batches_topic(log: Log) -> None:
    """Create the topic, unless it exists."""
    log.create_topic(BATCHES_TOPIC, partitions=1, configs=_CONFIGS, exist_ok=True)


def _range_json(start: Position, end: Position) -> dict[str, Any]:
    moved = {tp: start.get(tp, 0) for tp, offset in end.items() if start.get(tp, 0) != offset}
    return {"from": Position(moved).to_json(), "to": end.to_json()}


def _range(document: Mapping[str, Any]) -> tuple[Position, Position]:
    end, moved = Position.from_json(document["to"]), Position.from_json(document["from"])
    return Position({tp: moved.get(tp, offset) for tp, offset in end.items()}), end
