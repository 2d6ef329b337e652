"""Which store a URL means, and the proof that it keeps the promises of one."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mainstem.errors import ConfigError
from mainstem.extras import require
from mainstem.object_stores.store import ObjectStore, StoreConflictError

CLOUD_SCHEMES: Final = ("s3", "gs", "az")
_PROBES: Final = "probes"


def check_url(url: str) -> None:
    """See that the URL is one that ``open_store`` takes, and that what it needs is installed. Connects to nothing.

    Raises ConfigError, MissingDependencyError.
    """
    parts = urlsplit(url)
    if parts.scheme in CLOUD_SCHEMES and parts.netloc:
        require("backup", otherwise=", or back up into a directory (file:///PATH)")
        return
    is_file = parts.scheme in ("", "file") and parts.path and not parts.netloc
    if not is_file or (parts.scheme == "file" and not parts.path.startswith("/")):
        raise ConfigError(
            f"invalid backup URL {url!r}: use s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or file:///PATH"
        )


def open_store(url: str) -> ObjectStore:
    """The store of a URL; a path is a directory's. Raises ConfigError, MissingDependencyError."""
    check_url(url)
    if urlsplit(url).scheme in CLOUD_SCHEMES:
        from mainstem.object_stores.cloud_store import CloudStore

        return CloudStore(url)
    from mainstem.object_stores.directory_store import DirectoryStore

    return DirectoryStore(Path(urlsplit(url).path).absolute())


def probe(store: ObjectStore) -> None:
    """Prove with an object of our own that conditional writes hold, and that this user may read, write and remove.

    Raises ConfigError when they do not, and what the store raises.
    """
    name = f"{_PROBES}/{secrets.token_hex(8)}"
    first = store.create(name, b"first")
    try:
        refused = 0
        with suppress(StoreConflictError):
            store.create(name, b"again")
            refused -= 1
        second = store.replace(name, b"second", first)
        with suppress(StoreConflictError):
            store.replace(name, b"third", first)
            refused -= 1
        found = store.get(name)
        if refused or found.data != b"second" or found.version != second:
            raise ConfigError(
                f"{store.url} does not keep conditional writes, without which two backups would mix: use another store"
            )
    finally:
        store.delete([name])
