"""Keeps the watermark of each input of a query over restarts, and names the input that holds the query back.

A query with several watermarks (a join of streams, a union) uses the lowest one, so an input without new rows holds it
back. Spark keeps only this lowest one in the checkpoint. After a restart Spark treats each input as if it never had a
row, and the query's watermark does not move until *every* input has new rows. Until then an outer join emits no rows
without a partner. This module writes the inputs' own watermarks to a file beside the checkpoint and gives them back to
Spark. After the tasks of each micro-batch:

1. In a run's first micro-batch, restore the watermark of each input that has had no row since the restart.
2. Let Spark take the micro-batch's rows into account. Spark repeats this before its commit, with the same result.
3. If a watermark has changed, write all of them durably. After a crash before Spark's commit the same micro-batch is
   run again, and the file is still right.

Spark has no public interface for this, so it uses internals of Spark 4.3. If another Spark version does not have them,
it logs one line, and the query behaves as Spark alone does.

Queries with fewer than two watermarks cost nothing. Called in the query's own thread; ``held_by`` from any.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.spark.checkpoints.checkpoint import local_path

_LOG: Final = logging.getLogger("mainstem.spark")
_SAID_CHARS_MAX: Final = 200
FILE: Final = "mainstem-watermarks.json"
_NODE: Final = "EventTimeWatermark"
_TOPICS: Final = re.compile(r"\bsubscribe=([^,\]]+)")
_KNOWN: Final = re.compile(r"([0-9a-f-]{36}) -> Some\((-?\d+)\)")
_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(slots=True)
class _Input:
    """One watermark of the query: the id of its node in Spark's plan, and its topics. ``moved_ms``: its last move."""

    node: str
    topics: str
    watermark_ms: int | None = None
    moved_ms: int | None = None


class InputWatermarks:
    """Keeps the watermark of each input of one query over restarts."""

    def __init__(self, frame: DataFrame, checkpoint: str) -> None:
        self._frame = frame
        self._path = local_path(checkpoint) / FILE
        self._inputs = _inputs(frame)
        self._goes_by_lowest = frame.sparkSession.conf.get(_POLICY, "min") == "min"
        self._is_first = True
        self.held_by: str | None = None
        """The input that holds the watermark back, in words; None when none does."""

    def begin(self) -> None:
        """Call when the query is started, for the first time or again."""
        self._is_first = True

    def advance(self, query_id: str) -> None:
        """Steps 1 to 3 of a micro-batch whose tasks are done. Raises StorageError."""
        if len(self._inputs) < 2:
            return
        try:
            has_moved = self._has_moved(query_id)
        except (Py4JError, AttributeError, TypeError) as error:
            self._inputs, self.held_by = [], None
            _say_missing(error)
            return
        if has_moved:
            document = [[each.topics, each.watermark_ms, each.moved_ms] for each in self._inputs]
            replace_file(LOCAL_FILES, self._path, json.dumps(document).encode())  # 3
        self.held_by = self._held_by()

    def _has_moved(self, query_id: str) -> bool:
        """Steps 1 and 2; returns whether a watermark has moved.

        Raises Py4JError, AttributeError or TypeError when this Spark does not have the internals.
        """
        execution = self._frame.sparkSession._jsparkSession.streams().get(query_id).streamingQuery()
        tracker = execution.watermarkTracker()
        if self._is_first:
            self._restore(tracker)  # 1
            self._is_first = False
        tracker.updateWatermark(execution.lastExecution().executedPlan())  # 2
        return self._take(_known(tracker))

    def _restore(self, tracker: Any) -> None:
        kept = self._read()
        if [topics for topics, *_ in kept] != [each.topics for each in self._inputs]:
            return  # no file yet, or the pipeline was changed and has other inputs
        jvm = self._frame.sparkSession._jvm
        assert jvm is not None
        field = tracker.getClass().getDeclaredField("operatorToWatermarkMap")
        field.setAccessible(True)
        known, watermarks = _known(tracker), field.get(tracker)
        for each, (_, watermark_ms, moved_ms) in zip(self._inputs, kept, strict=True):
            each.watermark_ms, each.moved_ms = watermark_ms, moved_ms
            if watermark_ms is not None and each.node not in known:
                # Boxed in the JVM, because Py4J would turn a small Long into an Integer.
                boxed = jvm.java.util.stream.LongStream.range(watermark_ms, watermark_ms + 1).boxed().toList()
                some = jvm.scala.jdk.javaapi.CollectionConverters.asScala(boxed).headOption()
                watermarks.put(jvm.java.util.UUID.fromString(each.node), some)

    def _read(self) -> list[Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return []  # none yet, or damaged: then the watermark waits for rows of every input, as in Spark alone
        return found if isinstance(found, list) else []

    def _take(self, known: Mapping[str, int]) -> bool:
        """Whether a watermark has moved."""
        has_moved, now_ms = False, time.time_ns() // 1_000_000
        for each in self._inputs:
            if known.get(each.node, each.watermark_ms) != each.watermark_ms:
                each.watermark_ms, each.moved_ms = known[each.node], now_ms
                has_moved = True
        return has_moved

    def _held_by(self) -> str | None:
        if not self._goes_by_lowest:
            return None
        silent = sorted({each.topics for each in self._inputs if each.watermark_ms is None})
        if silent:
            return f"{', '.join(silent)}, which has had no row with a time yet"
        lowest = min(self._inputs, key=lambda each: each.watermark_ms or 0)
        if all(each.watermark_ms == lowest.watermark_ms for each in self._inputs):
            return None
        since = datetime.datetime.fromtimestamp((lowest.moved_ms or 0) / 1_000, datetime.UTC)
        return f"{lowest.topics}, whose newest time has not moved since {since.isoformat(timespec='seconds')}"


def _inputs(frame: DataFrame) -> list[_Input]:
    plan = frame._jdf.queryExecution().analyzed()
    if plan.toString().count(_NODE) < 2:
        return []
    try:
        found = {node.nodeId().toString(): node for node in _nodes(plan) if node.nodeName() == _NODE}
    except Py4JError as error:
        _say_missing(error)
        return []
    return [_Input(name, ", ".join(sorted(set(_TOPICS.findall(node.toString()))))) for name, node in found.items()]


def _say_missing(error: Exception) -> None:
    _LOG.warning(
        "this Spark does not show the watermarks of a query's inputs (%s): a query with several of them, once it was "
        "restarted, waits until each input has new rows; PySpark 4.3 shows them",
        " ".join(str(error).split())[:_SAID_CHARS_MAX],
    )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _known(tracker: Any) -> dict[str, int]:
    return {node: int(watermark_ms) for node, watermark_ms in _KNOWN.findall(tracker.watermarkMap().toString())}
