"""The only package that imports pyspark: the ``mainstem`` data source, sessions, and the runner of pipelines.

``table`` and ``session`` load on first use, so that importing a part of the package costs that part alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.spark.history import table as table

_HOMES = {"table": "mainstem.spark.history"}
__all__ = ["table"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
