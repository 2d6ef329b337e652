"""Stores: names written once, one version after another, and the proof of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainstem.errors import ConfigError
from mainstem.object_stores.directory_store import DirectoryStore
from mainstem.object_stores.opening import check_url, open_store, probe
from mainstem.object_stores.store import ObjectMissingError, StoreConflictError, StoreRefusedError
from tests.backup.generation_server import GenerationServer
from tests.support.azure_server import AzureServer
from tests.support.s3_server import S3Server


def test_an_object_is_created_once(store_url: str) -> None:
    store = open_store(store_url)
    store.create("a/one", b"first")
    with pytest.raises(StoreConflictError):
        store.create("a/one", b"second")
    assert store.get("a/one").data == b"first"


def test_a_version_is_replaced_by_its_reader_alone(store_url: str) -> None:
    store = open_store(store_url)
    first = store.create("a/one", b"first")
    second = store.replace("a/one", b"second", first)
    with pytest.raises(StoreConflictError):
        store.replace("a/one", b"third", first)
    assert store.get("a/one") == (b"second", second)


def test_objects_are_listed_read_in_part_and_removed(store_url: str) -> None:
    store = open_store(store_url)
    for name in ("a/1", "a/2", "b/1"):
        store.put(name, b"0123456789")
    assert sorted(store.list("a/")) == [("a/1", 10), ("a/2", 10)]
    assert store.get_range("a/1", 3, 4) == b"3456"
    store.delete(["a/1", "a/none"])
    assert [each.name for each in store.list("a/")] == ["a/2"]
    with pytest.raises(ObjectMissingError):
        store.get("a/1")


def test_a_store_that_keeps_conditions_is_taken(store_url: str) -> None:
    store = open_store(store_url)
    probe(store)
    assert not list(store.list("probes/"))


class OverwritingStore(DirectoryStore):
    """As an S3 server is that ignores the headers of conditional writes."""

    def create(self, name: str, data: bytes) -> str:
        self.put(name, data)
        return self.get(name).version

    def replace(self, name: str, data: bytes, version: str) -> str:
        return self.create(name, data)


def test_a_store_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not keep conditional writes"):
        probe(OverwritingStore(tmp_path / "copies"))


def test_a_user_without_rights_is_refused(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreRefusedError, match="refuses this user"):
        probe(open_store("s3://backups/log"))


def test_a_key_of_another_account_is_refused(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(StoreRefusedError, match="refuses this user"):
        probe(open_store("az://backups/log"))


def test_missing_credentials_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StoreRefusedError, match="no credentials were found"):
        open_store("az://container/log")


def test_a_missing_bucket_is_said(s3_server: S3Server) -> None:
    with pytest.raises(StoreRefusedError, match="no such bucket"):
        probe(open_store("s3://other/log"))


def test_a_missing_container_is_said(azure_server: AzureServer) -> None:
    store = open_store("az://other/log")
    with pytest.raises(StoreRefusedError, match="no such bucket or container"):
        probe(store)
    with pytest.raises(StoreRefusedError, match="no such bucket or container"):
        list(store.list(""))


def test_google_cloud_storage_is_asked_for_generations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with GenerationServer() as server:
        account = tmp_path / "account.json"
        nobody = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        account.write_text(json.dumps({**nobody, "gcs_base_url": server.url}))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)  # so that plain HTTP is taken: Google's own address has TLS
        store = open_store("gs://bucket/log")
        probe(store)
        first = store.create("a/one", b"first")
        with pytest.raises(StoreConflictError):
            store.create("a/one", b"second")
        second = store.replace("a/one", b"second", first)
        with pytest.raises(StoreConflictError):
            store.replace("a/one", b"third", first)
        assert store.get("a/one") == (b"second", second)


@pytest.mark.parametrize("url", ["", "ftp://host/x", "s3://", "file://host/x", "http://host/x"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="invalid backup URL"):
        check_url(url)
