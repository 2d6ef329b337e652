"""The only package that imports PySpark: the ``mainstem`` data source, sessions and pipelines.

* ``session``: a Spark session that works at once
* ``startup``: Java, environment, fast start of processes
* ``options``: options of the data source
* ``clients``: one connection to each log for each Python process
* ``features``: what the installed PySpark has
* ``per_process``: values that each process makes for itself
* ``checkpoints``: positions in checkpoints
* ``tasks``: what executors run
* ``planning``: what the driver plans for reads
* ``sink``: writes, exactly once
* ``source``: the data source ``mainstem``, registered with Spark
* ``schemas``: a topic's schema and Spark's
* ``queries``: pipelines as streaming queries
* ``changes``: changed pipelines: resume, rebuild, drop
* ``verification``: pipelines run as a batch and compared
* ``lake_and_topic``: ``table``: a lake and its topic as one DataFrame
* ``runner``, ``process``: all pipelines of an App, in a process

``table`` and ``session`` load on first use, so that importing a part of the package costs that part alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mainstem.extras import naming_the_extra

if TYPE_CHECKING:
    from mainstem.spark.lake_and_topic import table as table

_HOMES = {"table": "mainstem.spark.lake_and_topic"}
__all__ = ["table"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_the_extra():
        return getattr(importlib.import_module(home), name)
