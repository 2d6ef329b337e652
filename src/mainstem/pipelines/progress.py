"""The progress record: how a derived topic carries the positions of its sources.

After each micro-batch a pipeline appends one record to the compacted topic ``__mainstem_progress``: its key is the
pipeline's name, its value this document. A reader that has applied a derived topic past its part of ``sink`` covers
``source``. A pipeline that derives several topics writes one record for all of them: they move together.

Invariant: all three positions are complete and cumulative (every partition, not only those that one micro-batch
touched), and the records of one pipeline never go back. ``batch_id`` is -1 in the record that is written when a query
first starts, so that its coverage is known before its first micro-batch. ``rebuilt`` is set once the pipeline was
rebuilt: its topics then hold rows of an older version and the rows that replaced them, so only the latest value of
each key counts.

A key with a colon, which pipeline names cannot contain, marks a record of another kind (``losses.py``); readers of
progress skip it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mainstem.errors import SchemaError
from mainstem.model import Position, Record

PROGRESS_TOPIC = "__mainstem_progress"
OF_ANOTHER_KIND = b":"
"""Marks the keys of records in this topic that are not a pipeline's progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One pipeline's progress. ``inputs`` are the topics that it streams, ``outputs`` those that it derives."""

    pipeline: str
    batch_id: int
    source: Position
    sink: Position
    tables: Position
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rebuilt: bool = False

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the progress record."""
        document = {
            "batch_id": self.batch_id,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "source": self.source.to_json(),
            "sink": self.sink.to_json(),
            "tables": self.tables.to_json(),
            **({"rebuilt": True} if self.rebuilt else {}),
        }
        return self.pipeline.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_record(cls, record: Record) -> Progress | None:
        """Read a record of the progress topic; None for a tombstone (the pipeline was dropped), and for another kind.

        Raises SchemaError when the record is not a valid progress record.
        """
        if record.value is None or OF_ANOTHER_KIND in (record.key or b""):
            return None
        try:
            document = json.loads(record.value)
            return cls(
                pipeline=(record.key or b"").decode(),
                batch_id=int(document["batch_id"]),
                source=Position.from_json(document["source"]),
                sink=Position.from_json(document["sink"]),
                tables=Position.from_json(document["tables"]),
                inputs=tuple(document["inputs"]),
                outputs=tuple(document["outputs"]),
                rebuilt=document.get("rebuilt") is True,
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise SchemaError(
                f"{record.topic}/{record.partition}:{record.offset} is not a progress record: {error}"
            ) from error
