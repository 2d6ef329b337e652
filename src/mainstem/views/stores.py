"""Which store serves which kind of view. Its libraries are loaded when the first store of the kind is opened."""

from __future__ import annotations

from pathlib import Path

from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Search
from mainstem.views.store import StoreDefinition, ViewStore


def open_store(path: Path, definition: StoreDefinition) -> ViewStore:
    """Open the store in the directory ``path``; an empty or missing directory makes a new one.

    Raises StorageError, and DefinitionError for what the kind cannot hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    match definition.kind:
        case KeyValue():
            from mainstem.views.key_value import KeyValueStore

            return KeyValueStore(path, definition)
        case SQL():
            from mainstem.views.sql import SqlStore

            return SqlStore(path, definition)
        case Search():
            from mainstem.views.search import SearchStore

            return SearchStore(path, definition)
        case Graph():
            from mainstem.views.graph import GraphStore

            return GraphStore(path, definition)
