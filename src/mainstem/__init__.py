"""Mainstem: one durable log that speaks the Kafka protocol, pipelines on Spark, views that prove their answers.

The public names load on first use, so that ``import mainstem`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.client.http.requests import requests as requests
    from mainstem.client.http.views import views as views
    from mainstem.client.http.worker import Worker as Worker
    from mainstem.client.log import Log as Log
    from mainstem.encodings.topic_values import Codec as Codec
    from mainstem.model import Position as Position
    from mainstem.model import Record as Record
    from mainstem.model import TopicPartition as TopicPartition
    from mainstem.pipelines.app import App as App
    from mainstem.pipelines.folds import FoldRecord as FoldRecord
    from mainstem.pipelines.kinds import SQL as SQL
    from mainstem.pipelines.kinds import Graph as Graph
    from mainstem.pipelines.kinds import KeyValue as KeyValue
    from mainstem.pipelines.kinds import Lake as Lake
    from mainstem.pipelines.kinds import MariaDB as MariaDB
    from mainstem.pipelines.kinds import Metrics as Metrics
    from mainstem.pipelines.kinds import Postgres as Postgres
    from mainstem.pipelines.kinds import Search as Search
    from mainstem.pipelines.kinds import SQLite as SQLite
    from mainstem.schema.validation import Validator as Validator
    from mainstem.tracing.spans import processing as processing

__version__ = "0.1.0"

_HOMES = {
    "App": "mainstem.pipelines.app",
    "Codec": "mainstem.encodings.topic_values",
    "FoldRecord": "mainstem.pipelines.folds",
    "Graph": "mainstem.pipelines.kinds",
    "KeyValue": "mainstem.pipelines.kinds",
    "Lake": "mainstem.pipelines.kinds",
    "Log": "mainstem.client.log",
    "MariaDB": "mainstem.pipelines.kinds",
    "Metrics": "mainstem.pipelines.kinds",
    "Position": "mainstem.model",
    "Postgres": "mainstem.pipelines.kinds",
    "Record": "mainstem.model",
    "SQL": "mainstem.pipelines.kinds",
    "SQLite": "mainstem.pipelines.kinds",
    "Search": "mainstem.pipelines.kinds",
    "TopicPartition": "mainstem.model",
    "Validator": "mainstem.schema.validation",
    "Worker": "mainstem.client.http.worker",
    "processing": "mainstem.tracing.spans",
    "requests": "mainstem.client.http.requests",
    "views": "mainstem.client.http.views",
}
__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    home = "mainstem.spark" if name == "spark" else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mainstem.extras import naming_the_extra

    with naming_the_extra():
        module = importlib.import_module(home)
    return module if name == "spark" else getattr(module, name)
