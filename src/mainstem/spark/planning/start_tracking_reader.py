"""Streams on a Spark that does not tell a Python source where a stream stands (4.0 and 4.1): this reader keeps that.

Spark calls ``latestOffset()`` without the start. Where the stream stands is the end of the micro-batch that was planned
last. Spark names it in each call of ``partitions``: also when a query goes on from a checkpoint, where Spark first asks
for the partitions from the last planned end to that same end. Before the first micro-batch Spark may ask for the latest
offsets first and for the initial ones later: they are looked up once and kept until then.

The limits of the options bound every micro-batch. Spark runs ``Trigger.AvailableNow`` as one micro-batch here, and does
not say that it does: a limit bounds that one, too. Owned by Spark's one thread for the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from mainstem.errors import ConfigError
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.planning.stream_reader import LogStreamReader


class StartTrackingReader(LogStreamReader):
    """Plans the micro-batches of one stream, each from the end of the one before it."""

    _since: dict[str, Any] | None = None
    _initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:
            self._initial = super().initialOffset()
        if self._since is None:
            self._since = self._initial
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        start = self._since if self._since is not None else self.initialOffset()
        self._since = super().latestOffset(start, self.getDefaultReadLimit())
        return self._since

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._since = end
        if start == end:
            return []
        _require_same_stream(StreamOffsets.from_checkpoint(start), StreamOffsets.from_checkpoint(end))
        return super().partitions(start, end)


def _require_same_stream(start: StreamOffsets, end: StreamOffsets) -> None:
    """Raises ConfigError when ``end`` was planned without the checkpoint's offsets: records would be left out."""
    if not start.is_initial and start.stream != end.stream:
        raise ConfigError(
            "Spark asked for the end of this micro-batch before it said where the stream stands: set "
            "spark.sql.streaming.triggerAvailableNowWrapper.enabled=false, Spark's default"
        )
