"""How many values of each input column became null in a pipeline, because they do not fit the column.

The tasks that read a topic know it, the driver publishes it, and Spark has no way from the one to the other. So a task
writes one small file for each range of offsets with such values:
``<checkpoint>/nulled_values/TOPIC/PARTITION-OFFSET.json``, ``{column: number}``. The driver adds the files up and
removes them after each micro-batch.

Contract: a range that is read again replaces its file, so its values count once. A range without such values costs
nothing. A machine that does not have the checkpoint's directory does not count. The files are not synced: after a power
cut the counts start again, as they do with each driver.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.model import TopicPartition
from mainstem.spark.checkpoints.checkpoint import local_path

NulledValues: TypeAlias = Mapping[str, Mapping[str, int]]
"""Topic → column → number of values."""

_DIRECTORY: Final = "nulled_values"
_COUNTS: Final = ".json"


def begin(checkpoint: str, topics: Iterable[str]) -> None:
    """Before a query starts: make the topics' directories, without what an earlier start left there."""
    for topic in topics:
        directory = local_path(checkpoint) / _DIRECTORY / topic
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.iterdir():
            path.unlink(missing_ok=True)


def write(checkpoint: str, tp: TopicPartition, start: int, counts: Mapping[str, int]) -> None:
    """In a task: the values of the range that starts at ``start``, by column."""
    directory = local_path(checkpoint) / _DIRECTORY / tp.topic
    if directory.is_dir():
        path = directory / f"{tp.partition}-{start}{_COUNTS}"
        replace_file(LOCAL_FILES, path, json.dumps(counts).encode(), sync=False)


def collect(checkpoint: str, before: NulledValues) -> NulledValues:
    """After a micro-batch: ``before`` and what its tasks have written, which is removed."""
    found = list((local_path(checkpoint) / _DIRECTORY).glob(f"*/*{_COUNTS}"))
    if not found:
        return before
    sums = {topic: Counter(columns) for topic, columns in before.items()}
    for path in found:
        sums.setdefault(path.parent.name, Counter()).update(json.loads(path.read_text()))
        path.unlink()
    return {topic: dict(columns) for topic, columns in sums.items()}
