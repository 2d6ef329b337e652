"""Which store serves which kind of view. Its libraries are loaded when the first store of the kind is opened."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from mainstem.durable_files import put_in_place
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Kind, Lake, Metrics, Search
from mainstem.views.stores.store import StoreDefinition, ViewStore


def store_class(kind: Kind, *, for_users: bool = False) -> Callable[[Path, StoreDefinition], ViewStore]:
    """The store that serves ``kind``; loads its libraries. ``for_users``: as in ``open_store``."""
    match kind:
        case KeyValue():
            from mainstem.views.stores.key_value.key_value import KeyValueStore

            return KeyValueStore
        case SQL():
            from mainstem.views.stores.sql.sql import SqlStore

            return SqlStore.isolated if for_users else SqlStore
        case Search():
            from mainstem.views.stores.search.search import SearchStore

            return SearchStore
        case Graph():
            from mainstem.views.stores.graph.graph import GraphStore

            return GraphStore
        case Lake():
            from mainstem.views.stores.lake.lake import LakeStore

            return LakeStore.isolated if for_users else LakeStore
        case Metrics():
            from mainstem.views.stores.metrics.metrics import MetricsStore

            return MetricsStore


def open_store(path: Path, definition: StoreDefinition, *, for_users: bool = False) -> ViewStore:
    """Open the store in the directory ``path``; an empty or missing directory makes a new one.

    ``for_users``: they ask it, so SQL runs in a process of its own, which a query may end (decision 0027).
    Raises StorageError, and DefinitionError for what the kind cannot hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(definition.kind, Lake) and (not path.exists() or not any(path.iterdir())):
        _make(path, definition)  # a lake, whose files name each other by their paths, makes itself in one step
    return store_class(definition.kind, for_users=for_users)(path, definition)


def _make(path: Path, definition: StoreDefinition) -> None:
    """Make an empty store, and give it its name when it is whole.

    A process that is killed while a library lays out its first files leaves some that it will not open again (DuckDB's
    header is three blocks, written one by one); under their own name they would stop the view at every start.
    """
    making = path.with_name(f"{path.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    store_class(definition.kind)(making, definition).close()
    put_in_place(making, path)
