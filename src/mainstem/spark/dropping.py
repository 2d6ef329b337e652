"""Drop a pipeline for good: nothing of it stays open or known. The topics that it derived stay.

1. What its sink left open is resolved: what was decided is committed, the rest aborted. An open transaction would hold
   its topics' last stable offsets.
2. Its checkpoint is removed.
3. Its progress and its state are said to be gone.
Each step may be repeated: a drop that was cut short is run again. No run may hold the App's checkpoints meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mainstem.client.log import Log
from mainstem.errors import InputError, UnknownTopicError
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.spark.checkpoint import has_run, query_id, remove_checkpoint
from mainstem.spark.checkpoint_lock import locked
from mainstem.spark.options import LogOptions
from mainstem.spark.transactions import resolve_abandoned


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a drop found to do."""

    transactions: int
    checkpoint: bool
    records: bool


def drop(log: Log, checkpoints: Path, pipeline: str) -> Dropped:
    """Drop a pipeline whose App keeps its checkpoints in ``checkpoints``.

    Raises DirectoryLockedError while it runs, InputError when nothing is known of it, LogUnavailableError.
    """
    checkpoint = checkpoints / pipeline
    has_checkpoint = checkpoint.is_dir()
    known = [topic for topic in (PROGRESS_TOPIC, STATES_TOPIC) if _is_told(log, topic, pipeline)]
    if not has_checkpoint and not known:
        raise InputError(
            f"there is no pipeline {pipeline!r}: neither a checkpoint {checkpoint} nor a record in the log"
        )
    resolved = 0
    if has_checkpoint:
        with locked(checkpoints):
            if has_run(str(checkpoint)):
                resolved = resolve_abandoned(LogOptions(log.bootstrap), query_id(str(checkpoint)))
            remove_checkpoint(str(checkpoint))
    for topic in known:
        log.append(topic, None, key=pipeline)
    return Dropped(resolved, has_checkpoint, bool(known))


def _is_told(log: Log, topic: str, pipeline: str) -> bool:
    """Whether the topic's last record of the pipeline is no tombstone."""
    last = None
    try:
        for record in log.read(topic, key=pipeline, every_partition=True):
            last = record.value
    except UnknownTopicError:
        return False
    return last is not None
