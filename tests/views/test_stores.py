"""A store gets its name when it is whole: what a killed process left half made is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Kind, Search
from mainstem.views.stores.store import StoreDefinition
from mainstem.views.stores.store_kinds import open_store
from tests.views.support import SCHEMA

KINDS = [KeyValue(), SQL(), Search("origin"), Graph(source="origin", target="dest")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_store_that_was_left_half_made_is_made_anew(kind: Kind, tmp_path: Path) -> None:
    half_made = tmp_path / "store.making"
    half_made.mkdir()
    for name in ("view.duckdb", "CURRENT", "meta.json", "view.sqlite", "graph.sqlite"):
        (half_made / name).write_bytes(b"\0" * 4096)
    store = open_store(tmp_path / "store", StoreDefinition("routes", kind, SCHEMA))
    assert (store.count(), str(store.position)) == (0, "")
    store.close()
    assert not half_made.exists()
