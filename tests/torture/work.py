"""What a driver's program is told to do: a query from a topic to a topic, or a batch write; one JSON line each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Literal

Kind = Literal["plain", "pipeline", "totals", "split", "batch", "table"]


@dataclass(frozen=True)
class Work:
    """``plain``: a DataFrame stream; ``pipeline``: the same by an App; ``totals``: an App that counts by key,
    and multiplies by ``version``, with a rebuild where that is another one than before; ``split``: an App with two
    outputs, of odd and of even numbers; ``batch``: one batch read and a write that has a name; ``table``: the same of
    ``ms.spark.table``, with its lake in ``checkpoint``. Else Spark's own state is in ``checkpoint``.
    """

    kind: Kind
    checkpoint: str
    source: str
    sink: str
    offsets_max: int = 300
    partitions_min: int = 1
    repartition: int = 0
    version: int = 1
    timeout_ms: int = 0
    """How long a transaction of a ``plain`` stream may be open; 0: as long as the log allows."""

    @property
    def sinks(self) -> tuple[str, ...]:
        """The topics that are written."""
        return (f"{self.sink}-even", f"{self.sink}-odd") if self.kind == "split" else (self.sink,)

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Work:
        return cls(**json.loads(line))

    def with_tasks(self, *, partitions_min: int, repartition: int = 0) -> Work:
        """The same with another number of tasks that read, and (0: as many) that write."""
        return replace(self, partitions_min=partitions_min, repartition=repartition)
