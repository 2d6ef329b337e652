"""Which box asks which kind of view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mainstem.console.query_boxes import graph, key_value, metrics, search, sql
from mainstem.console.query_boxes.box import QueryBox
from mainstem.pipelines.kinds import SINK_NAMES

BOXES: Mapping[str, Callable[[QueryBox], None]] = {
    "key-value": key_value.show,
    "sql": sql.show,
    "search": search.show,
    "graph": graph.show,
    "metrics": metrics.show,
    "lake": partial(sql.show, has_past=False),
    **dict.fromkeys(SINK_NAMES, partial(key_value.show, has_past=False)),
}
