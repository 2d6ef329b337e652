"""The object store port: named, immutable objects, and one object that changes by compare-and-set.

``directory_store`` and ``cloud_store`` implement it. A store must hold two promises: ``create`` refuses a name that
exists, and ``replace`` refuses when the object is not the version that the caller read. ``opening.probe`` proves both.

Errors: StoreConflictError for a refused condition, ObjectMissingError, StoreRefusedError when the store does not let
this user in, StoreError for all that may pass. Safe from several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mainstem.errors import InputError, UnavailableError


class StoreError(UnavailableError):
    """The store did not answer, or failed. The same request may succeed later."""


class StoreRefusedError(InputError):
    """The store does not let this user do it: wrong credentials, no right, or no such bucket."""


class ObjectMissingError(InputError):
    """No object of this name."""


class StoreConflictError(InputError):
    """The condition of a write does not hold: another process has written meanwhile."""


class StoredObject(NamedTuple):
    """An object's bytes, and the version that a ``replace`` names."""

    data: bytes
    version: str


class Listed(NamedTuple):
    """A name, and the size of what it names."""

    name: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects by name, below one URL."""

    @property
    def url(self) -> str: ...

    def get(self, name: str) -> StoredObject: ...

    def get_range(self, name: str, start: int, length: int) -> bytes: ...

    def put(self, name: str, data: bytes) -> None: ...

    def create(self, name: str, data: bytes) -> str:
        """Write a new object; its version. Raises StoreConflictError when there is one."""
        ...

    def replace(self, name: str, data: bytes, version: str) -> str:
        """Write a new version over ``version``; the new one. Raises StoreConflictError when it is another."""
        ...

    def list(self, prefix: str) -> Iterator[Listed]: ...

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are missing count as removed."""
        ...
