"""Reasons, from the plan and the log, why a pipeline's topics may rightly differ from what a batch derives.

A batch sees all records at once, a stream saw them one micro-batch after the other; for most pipelines that is the
same. Each caveat is a sentence that says why they may differ here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.definitions import Pipeline
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.changes import fingerprint
from mainstem.spark.changes.fingerprint import Fingerprint
from mainstem.spark.changes.plan_text import plan_text
from mainstem.spark.checkpoints.checkpoint import has_run
from mainstem.spark.queries.query import Query

_CLOCK: Final = re.compile(r"\b(current_timestamp|current_date|localtimestamp|now|current_time)\(")
_PYTHON: Final = re.compile(r"\bpython\(")
_STATEFUL: Final = re.compile(
    r"^(Aggregate|Join|Deduplicate|TransformWithState|FlatMapGroups|Distinct|GlobalLimit|LocalLimit)", re.MULTILINE
)
_OWN_STATE: Final = re.compile(r"^(TransformWithState|FlatMapGroups)", re.MULTILINE)
_DEDUPLICATES: Final = re.compile(r"^Deduplicate", re.MULTILINE)
_WAITING_FOR_ANOTHER: Final = re.compile(
    r"^(Join (LeftOuter|RightOuter|FullOuter)|TransformWithState|FlatMapGroups)", re.MULTILINE
)
_WAITING: Final = re.compile(rf"^Aggregate|{_WAITING_FOR_ANOTHER.pattern}", re.MULTILINE)
_WATERMARK: Final = re.compile(r"^EventTimeWatermark", re.MULTILINE)


class Plan:
    """Properties of a streaming query's function, from its plan. Immutable."""

    def __init__(self, frame: DataFrame) -> None:
        self._text = plan_text(frame)[0]
        self._is_deterministic = bool(frame._jdf.queryExecution().analyzed().deterministic())

    @property
    def is_stateful(self) -> bool:
        """Whether a row may depend on more than one record."""
        return bool(_STATEFUL.search(self._text))

    @property
    def has_watermark(self) -> bool:
        return bool(_WATERMARK.search(self._text))

    @property
    def holds_back(self) -> bool:
        """Whether rows wait for the watermark, where they do not change once they are given."""
        return self.has_watermark and bool(_WAITING.search(self._text))

    @property
    def waits_for_windows_only(self) -> bool:
        """Whether a row that waits tells by its own time how long."""
        return self.holds_back and not _WAITING_FOR_ANOTHER.search(self._text)

    def caveats(self) -> Iterator[str]:
        """The properties of the function that make a batch and a stream differ."""
        if not self._is_deterministic:
            yield (
                "the function is not deterministic (rand(), uuid(), or an aggregate such as first() and collect_list() "
                "that depends on the order of rows): it gives other rows each time"
            )
        if clock := _CLOCK.search(self._text):
            yield f"the function asks for the time ({clock[1]}()), which is another one now"
        if _PYTHON.search(self._text):
            yield "a Python function in it gives other values, if it depends on anything but its arguments"
        if self.has_watermark:
            yield "the stream dropped late rows, older than the watermark; the batch has them"
        if _DEDUPLICATES.search(self._text):
            yield "of rows that are duplicates the stream kept those that came first; the batch keeps any"
        if _OWN_STATE.search(self._text):
            yield "a processor of its own got the rows of a key in parts; in the batch it gets all at once"


def table_caveats(log: Log, pipeline: Pipeline, progress: Progress) -> Iterator[str]:
    """The tables that micro-batches may have joined as they were before ``progress.tables``.

    None is named when all progress records are there, and all of them say the same of it.
    """
    if not pipeline.tables:
        return
    entries = EntryReader(log, PROGRESS_TOPIC, Progress.from_record, key=pipeline.name)
    said = [found for _, found in entries if found is not None]
    first_is_there = any(each.batch_id <= 0 for each in said)
    for topic in dict.fromkeys(topic.name for topic in pipeline.tables):
        versions = {each.tables.restrict([topic]) for each in said if each.batch_id >= 0}
        if not first_is_there or len(versions) > 1:
            yield (
                f"the table {topic} was joined as it was at each micro-batch; the batch joins it as it was at the last "
                f"({progress.tables.restrict([topic])})"
            )


def topic_caveats(configs: Mapping[str, Mapping[str, str | None]], streams: tuple[str, ...]) -> Iterator[str]:
    """The inputs from which compaction takes what the stream has read; ``configs`` are those of each topic."""
    for topic in streams:
        if "compact" in (configs[topic].get("cleanup.policy") or ""):
            yield f"topic {topic} is compacted: of what the stream has read there, former values may be gone"


def version_caveats(query: Query | None, checkpoint: Path) -> Iterator[str]:
    """Whether the function was changed since, as far as its checkpoint is on this machine."""
    if query is None or not has_run(str(checkpoint)):
        return
    before = fingerprint.read(str(checkpoint))
    if before is not None and (differences := before.differences(Fingerprint.of(query))):
        yield f"the pipeline was changed since it last ran: {'; '.join(differences)}"


def removed_before(beginnings: Position) -> Position:
    """The partitions whose first records are gone, and where what is left begins."""
    return Position({tp: offset for tp, offset in beginnings.items() if offset})
