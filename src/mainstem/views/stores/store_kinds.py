"""Which store serves which kind of view. Its libraries are loaded when the first store of the kind is opened."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

from mainstem.durable_files import put_in_place
from mainstem.pipelines.kinds import Kind
from mainstem.views.stores.store import StoreDefinition, ViewStore


def store_class(kind: Kind) -> type[ViewStore]:
    """The store that serves ``kind``, e.g. ``KeyValueStore`` of ``key_value``; loads its libraries."""
    words = (kind.store or kind.kind).split("-")
    name = "_".join(words)
    module = importlib.import_module(f"mainstem.views.stores.{name}.{name}")
    found: type[ViewStore] = getattr(module, "".join(map(str.capitalize, words)) + "Store")
    return found


def open_store(path: Path, definition: StoreDefinition, *, for_users: bool = False) -> ViewStore:
    """Open the store in the directory ``path``; an empty or missing directory makes a new one.

    ``for_users``: users will query this store. A query may end the process that runs it, so SQL, over a lake too, runs
    in a process of its own (decision 0027).
    Raises StorageError, and DefinitionError for what the kind cannot hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    store = store_class(definition.kind)
    if not store.makes_itself and (not path.exists() or not any(path.iterdir())):
        _make(path, definition)
    return store.isolated(path.absolute(), definition) if for_users else store(path, definition)


def _make(path: Path, definition: StoreDefinition) -> None:
    """Make an empty store, and give it its name when it is whole.

    A process that is killed while a library lays out its first files leaves some that it will not open again (DuckDB's
    header is three blocks, written one by one); under their own name they would stop the view at every start.
    """
    making = path.with_name(f"{path.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    store_class(definition.kind)(making, definition).close()
    put_in_place(making, path)
