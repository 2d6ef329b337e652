"""A span for each micro-batch of a pipeline, linked to the traces of records that it read.

The links come from the first records of the range that the micro-batch read, as far as they name a sampled trace. When
the micro-batch is done the driver reads these records once more, a few milliseconds' work, but only if it traces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mainstem.client.log import Log
from mainstem.errors import MainstemError, UnknownTopicError
from mainstem.model import Headers
from mainstem.pipelines.progress import Progress
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.tracing.spans import is_tracing, links_to, processing_many

_LOG = logging.getLogger("mainstem.spark")
_RECORDS_MAX: Final = 256
"""Of each input."""
_FETCH_BYTES: Final = 64 << 10
_POSITION_CHARS: Final = 1000


@contextmanager
def traced_batch(pipeline: str, batch_id: int, log: Log, progress: ProgressLog) -> Iterator[None]:
    """The span of the micro-batch that the block processes; what the block appends itself belongs to its trace."""
    if not is_tracing():
        yield
        return
    before = _last_of(progress)
    with processing_many(
        f"process {pipeline}", {"mainstem.pipeline": pipeline, "mainstem.micro_batch": batch_id}
    ) as span:
        yield
        after = progress.last()
        if span is None or after is None or not span.is_recording():
            return
        for link in links_to(_first_headers(log, before, after)):
            span.add_link(link.context)
        span.set_attribute("mainstem.read", str(after.source)[:_POSITION_CHARS])
        span.set_attribute("mainstem.wrote", str(after.sink)[:_POSITION_CHARS])


def _last_of(progress: ProgressLog) -> Progress | None:
    """The progress before the micro-batch; None also where its topic was deleted, which ``advance`` makes again."""
    try:
        return progress.last()
    except UnknownTopicError:
        return None


def _first_headers(log: Log, before: Progress | None, after: Progress) -> Iterator[Headers]:
    """The headers of the first records between two positions; none of a topic that cannot be read."""
    start = "earliest" if before is None else before.source
    for topic in after.inputs:
        end = after.source.restrict([topic])
        try:
            reader = log.read(topic, start=start, end=end, limit=_RECORDS_MAX, fetch_bytes=_FETCH_BYTES)
            yield from (record.headers for record in reader if record.headers)
        except MainstemError as error:
            _LOG.warning("the span of a micro-batch has no links to records of %s: %s", topic, error)
