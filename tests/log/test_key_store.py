"""One suite over both stores: RocksDB, and the one in memory that the other tests of the index use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstem.errors import StorageError
from mainstem.log.key_index.key_store import KeyStore, RocksKeyStore, remove_store, write_sorted_files
from tests.log.features_support import MemoryKeyStore

STORES = {"rocksdb": lambda path: RocksKeyStore(path / "store"), "memory": lambda path: MemoryKeyStore()}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> KeyStore:
    open_store: Callable[[Path], KeyStore] = STORES[request.param]
    return open_store(tmp_path)


def test_what_was_put_is_there(store: KeyStore) -> None:
    store.write([(b"a", b"1"), (b"b", b"2")])
    store.write([(b"a", b"3")], [b"b"])
    assert (store.get(b"a"), store.get(b"b")) == (b"3", None)
    store.close()


def test_the_last_entry_of_a_range_is_found(store: KeyStore) -> None:
    store.write([(b"a1", b"1"), (b"a3", b"3"), (b"b1", b"x")])
    assert store.last(b"a", b"a4") == (b"a3", b"3")
    assert store.last(b"a", b"a3") == (b"a1", b"1")
    assert store.last(b"a", b"a1") is None
    assert store.last(b"a2", b"a3") is None
    assert store.last(b"c", b"d") is None
    store.close()


def test_a_range_is_scanned_in_order_and_deleted(store: KeyStore) -> None:
    store.write([(b"a%d" % at, b"v") for at in (3, 1, 2)] + [(b"b", b"v")])
    assert [key for key, _ in store.scan(b"a", b"b")] == [b"a1", b"a2", b"a3"]
    store.delete_range(b"a2", b"b")
    assert [key for key, _ in store.scan(b"", b"\xff")] == [b"a1", b"b"]
    store.close()


def test_a_store_opens_again_with_what_was_written(tmp_path: Path) -> None:
    store = RocksKeyStore(tmp_path / "store")
    store.write([(b"a", b"1")])
    with pytest.raises(StorageError):
        RocksKeyStore(tmp_path / "store")
    store.close()
    again = RocksKeyStore(tmp_path / "store")
    assert again.get(b"a") == b"1"
    again.close()


def test_sorted_files_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    entries = [(b"k%06d" % at, b"v" * 100) for at in range(2000)]
    files = write_sorted_files(tmp_path / "files", entries, 50_000)
    assert len(files) > 2
    store = RocksKeyStore(tmp_path / "store")
    store.write([(b"k000005x", b"beside")])
    store.ingest(files)
    assert len(list(store.scan(b"k", b"l"))) == 2001
    assert not any(file.exists() for file in files)
    store.close()


def test_a_damaged_store_is_told_and_can_be_removed(tmp_path: Path) -> None:
    store = RocksKeyStore(tmp_path / "store")
    store.write([(b"a", b"1")])
    store.close()
    for file in (tmp_path / "store").glob("MANIFEST-*"):
        file.write_bytes(b"nonsense")
    with pytest.raises(StorageError):
        RocksKeyStore(tmp_path / "store")
    remove_store(tmp_path / "store")
    RocksKeyStore(tmp_path / "store").close()
