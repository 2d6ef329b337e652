"""Writing to each kind of store behind its view's back: one row changed, added or removed through the store's library.

``TAMPERINGS[view][what](store)``; the view is that of `tests.views.hosting`, the row changed or removed is that of key
``1``, the one added is of key ``9``. A new kind joins with an entry of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import duckdb
import tantivy
from rocksdict import Options, Rdict

Tampering = Callable[[Path], None]
ROW = {"origin": "A", "dest": "B", "miles": 99}


@contextmanager
def rocksdb(store: Path) -> Iterator[Rdict]:
    db = Rdict(str(store), Options(raw_mode=True))
    yield db
    db.close()


def put_in_key_value(store: Path, *, key: bytes) -> None:
    with rocksdb(store) as db:
        db[b"r" + key] = json.dumps(ROW).encode()


def remove_from_key_value(store: Path) -> None:
    with rocksdb(store) as db:
        del db[b"r1"]


def run_in_duckdb(store: Path, *, statement: str) -> None:
    with duckdb.connect(str(store / "view.duckdb")) as connection:
        connection.execute(statement)


def run_in_sqlite(store: Path, *, statement: str) -> None:
    with closing(sqlite3.connect(store / "view.sqlite")) as connection, connection:
        connection.execute(statement)


def write_to_search(store: Path, *, key: str, adds: bool) -> None:
    writer = tantivy.Index.open(str(store)).writer(heap_size=32 << 20, num_threads=1)
    writer.delete_documents_by_term("_key", key)
    if adds:
        document = tantivy.Document()
        document.add_text("_what", "record")
        document.add_text("_key", key)
        document.add_bytes("_text", json.dumps(ROW).encode())
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


_SQL = partial(partial, run_in_duckdb)
_SQLITE = partial(partial, run_in_sqlite)
_ADD_EDGE = "INSERT INTO supports SELECT '9', id FROM edges WHERE source = 'A'"
_CHANGE_EDGE = "UPDATE supports SET edge = (SELECT id FROM edges WHERE source = 'B') WHERE key = '1'"

TAMPERINGS: Mapping[str, Mapping[str, Tampering]] = {
    "kv": {
        "changed": partial(put_in_key_value, key=b"1"),
        "added": partial(put_in_key_value, key=b"9"),
        "removed": remove_from_key_value,
    },
    "sql": {
        "changed": _SQL(statement="UPDATE sql SET miles = 99 WHERE _key = '1'"),
        "added": _SQL(statement="INSERT INTO sql VALUES ('9', 'A', 'B', 99)"),
        "removed": _SQL(statement="DELETE FROM sql WHERE _key = '1'"),
    },
    "search": {
        "changed": partial(write_to_search, key="1", adds=True),
        "added": partial(write_to_search, key="9", adds=True),
        "removed": partial(write_to_search, key="1", adds=False),
    },
    "graph": {
        "changed": _SQLITE(statement=_CHANGE_EDGE),
        "added": _SQLITE(statement=_ADD_EDGE),
        "removed": _SQLITE(statement="DELETE FROM supports WHERE key = '1'"),
    },
}
SAMPLED_TAMPERINGS = [
    ("kv", "changed"),
    ("sql", "added"),
    ("search", "removed"),
    ("graph", "changed"),
    ("graph", "added"),
]
"""What the verification in the background is shown. How rounds go does not depend on the store, so each has a part; of
a graph, edges and records are compared in different rounds."""
VERIFIED_TAMPERINGS = [
    (view, what)
    for view, ways in TAMPERINGS.items()
    for what in ways
    if view == "kv" or (view, what) not in SAMPLED_TAMPERINGS
]
"""What a verification that is asked for is shown: with those above, every way to write to every kind of store."""


def named(key: str, view: str) -> str:
    """How a difference names the row of a key."""
    return f"record {key}" if view == "graph" else key
