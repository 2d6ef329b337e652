"""Which box asks which kind of view."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.console.query_boxes import graph, key_value, metrics, search, sql
from mainstem.console.query_boxes.box import QueryBox

BOXES: Mapping[str, Callable[[QueryBox], None]] = {
    "key-value": key_value.show,
    "sql": sql.show,
    "search": search.show,
    "graph": graph.show,
    "metrics": metrics.show,
    "lake": sql.show,
    "postgres": key_value.show,
}
