"""The records of a lake as a feed's steps: for building a view whose history the log has removed.

The lake's files up to the position of one commit of it come first; the log goes on from exactly there
(`views.feed.feed`, with the store's bookmark): no gap and no overlap. Partitions come one after the other, each in the
order of its offsets; so the store's content depends on the position alone. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from mainstem.lake.columns import RECORD
from mainstem.lake.reading import LakeFiles, read_lake
from mainstem.model import Position, TopicPartition
from mainstem.views.feed.feed import FeedStep
from mainstem.views.stores.store import Bookmark, ViewStore, no_dead_letters


def lake_steps(lake: LakeFiles, columns: frozenset[str]) -> Iterator[FeedStep]:
    """Every record of ``lake``, with ``columns`` of a feed; after the last step the bookmark is the lake's own.

    Raises StorageError when a file cannot be read.
    """
    names = [field.name for field in RECORD if field.name[1:] in columns]
    whole = Bookmark.from_text(lake.bookmark)
    bookmark = replace(whole, position=Position())
    for partition in lake.partitions:
        tp = TopicPartition(lake.topic, partition)
        for part in lake.records(partition, [*dict.fromkeys([*names, "_offset"])]):
            after = part.column("_offset")[-1].as_py() + 1
            bookmark = replace(bookmark, position=bookmark.position | Position({tp: after}))
            yield FeedStep(_record_batch(part.select(names)), bookmark)
        bookmark = replace(bookmark, position=bookmark.position | Position({tp: lake.position[tp]}))
    yield FeedStep(_record_batch(RECORD.empty_table().select(names)), bookmark)


def fill_from_lake(store: ViewStore, location: Path, columns: frozenset[str], go_on: Callable[[], None]) -> int:
    """Apply the newest commit of the lake in ``location`` to an empty store; how many records.

    What cannot be applied is counted, and not sent to the dead-letter topic: the lake has it. ``go_on`` is called at
    each step, and may raise to end it. Raises InputError and StorageError when the lake cannot be read.
    """
    records = 0
    for step in lake_steps(read_lake(location), columns):
        go_on()
        store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
        records += step.arrow_batch.num_rows
    return records


def _record_batch(part: pa.Table) -> pa.RecordBatch:
    """The columns under the names that they have in the log."""
    columns = {name[1:]: part.column(name).combine_chunks().cast(RECORD.field(name).type) for name in part.column_names}
    return pa.record_batch(columns)
