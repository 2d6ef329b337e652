"""Drop a pipeline for good: its open transactions, its checkpoint and its records. The topics that it derived stay.

1. Its sink's open transactions are ended: decided ones are committed, the rest aborted. An open transaction would hold
   back its topics' last stable offsets.
2. Its checkpoint is removed, and everything that an interrupted rebuild left.
3. Tombstones are appended for its progress, its state, its commands and its log.
Each step may be repeated: an interrupted drop is run again. No run may hold the App's checkpoints meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mainstem.client.log import Log
from mainstem.errors import InputError, UnknownTopicError
from mainstem.pipelines.control.commands import COMMANDS_TOPIC
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, keys_of
from mainstem.pipelines.definitions import require_name
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.spark.changes.rebuilding import Site, abandon
from mainstem.spark.checkpoints.checkpoint import has_run, query_id, remove_checkpoint
from mainstem.spark.checkpoints.checkpoint_lock import locked
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.options.options import LogOptions
from mainstem.spark.sink.transactions import end_open_transactions


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of a drop."""

    transactions: int
    checkpoint: bool
    records: bool


def drop(log: Log, checkpoints: Path, pipeline: str) -> Dropped:
    """Drop a pipeline whose App keeps its checkpoints in ``checkpoints``.

    Raises DirectoryLockedError while it runs, InputError for an unknown pipeline or an invalid name (an empty name
    would mean the checkpoints of all), LogUnavailableError.
    """
    require_name("a pipeline", pipeline)
    checkpoint = checkpoints / pipeline
    has_checkpoint = checkpoint.is_dir()
    known = [topic for topic in (PROGRESS_TOPIC, STATES_TOPIC, COMMANDS_TOPIC) if _has_value(log, topic, pipeline)]
    if not has_checkpoint and not known:
        raise InputError(
            f"there is no pipeline {pipeline!r}: neither a checkpoint {checkpoint} nor a record in the log"
        )
    options, resolved = LogOptions(log.bootstrap), 0
    if has_checkpoint:
        with locked(checkpoints):
            if has_run(str(checkpoint)):
                resolved = end_open_transactions(options, query_id(str(checkpoint)))
            site = Site(log, options, checkpoints)
            if site.beside(pipeline).is_dir():
                abandon(site, pipeline, _outputs(options, pipeline))
            remove_checkpoint(str(checkpoint))
    for topic in known:
        log.append(topic, None, key=pipeline)
    if entries := keys_of(log, pipeline):
        log.append_many(RUN_LOG_TOPIC, [(key, None) for key in entries])
    return Dropped(resolved, has_checkpoint, bool(known))


def _outputs(options: LogOptions, pipeline: str) -> tuple[str, ...]:
    """The pipeline's output topics, from its progress."""
    with ProgressLog(options, pipeline, ()) as progress:
        last = progress.last()
    return () if last is None else last.outputs


def _has_value(log: Log, topic: str, pipeline: str) -> bool:
    """Whether the topic's last record of the pipeline is a value, not a tombstone."""
    last = None
    try:
        for record in log.read(topic, key=pipeline, every_partition=True, on_damaged="skip"):
            last = record.value
    except UnknownTopicError:
        return False
    return last is not None
