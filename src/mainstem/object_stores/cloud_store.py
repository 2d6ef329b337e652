"""Objects in S3, Google Cloud Storage or Azure, through obstore.

Credentials and the endpoint come from the environment, by the names that the vendors' own tools use
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_ACCOUNT_NAME``, …).
Each request is tried for half a minute at most; the backup itself then tries again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import from_url

from mainstem.object_stores.store import (
    Listed,
    ObjectMissingError,
    StoreConflictError,
    StoredObject,
    StoreError,
    StoreRefusedError,
)

_ENDPOINTS: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
)
_TRY_S: Final = 30
_RETRIES: Final = 4
_DELETED_AT_ONCE: Final = 500
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_NO_CREDENTIALS: Final = ("169.254.169.254", "token request", "Account must be specified")
"""Signs that the environment names no credentials, and the machine was asked for those of a role."""
_REFUSALS: Final = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidBucketName")


class CloudStore:
    """See ``store.ObjectStore``."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # What names the version of an object in a condition: on Google Cloud Storage its generation.
        self._condition: Final = "version" if urlsplit(url).scheme == "gs" else "e_tag"
        options: Any = _with_http({"timeout": f"{_TRY_S}s", "connect_timeout": "5s"})
        retries: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_TRY_S)}
        with _as_store_error(self.url):
            self._store: Any = from_url(self.url, client_options=options, retry_config=retries)

    def get(self, name: str) -> StoredObject:
        with _as_store_error(f"{self.url}/{name}"):
            found = obstore.get(self._store, name)
            return StoredObject(bytes(found.bytes()), found.meta[self._condition] or "")

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with _as_store_error(f"{self.url}/{name}"):
            return bytes(obstore.get_range(self._store, name, start=start, length=length))

    def put(self, name: str, data: bytes) -> None:
        with _as_store_error(f"{self.url}/{name}"):
            obstore.put(self._store, name, data, use_multipart=False)

    def create(self, name: str, data: bytes) -> str:
        return self._put_if(name, data, "create")

    def replace(self, name: str, data: bytes, version: str) -> str:
        return self._put_if(name, data, {self._condition: version})

    def _put_if(self, name: str, data: bytes, mode: Any) -> str:
        with _as_store_error(f"{self.url}/{name}"):
            return obstore.put(self._store, name, data, mode=mode, use_multipart=False)[self._condition] or ""

    def list(self, prefix: str) -> Iterator[Listed]:
        with _as_store_error(f"{self.url}/{prefix}"):
            for chunk in obstore.list(self._store, prefix):
                yield from (Listed(each["path"], each["size"]) for each in chunk)

    def delete(self, names: Sequence[str]) -> None:
        for first in range(0, len(names), _DELETED_AT_ONCE):
            with _as_store_error(self.url):
                try:
                    obstore.delete(self._store, list(names[first : first + _DELETED_AT_ONCE]))
                except (exceptions.NotFoundError, FileNotFoundError):
                    continue


def _with_http(options: dict[str, Any]) -> dict[str, Any]:
    """Plain HTTP where the endpoint says so: a store on this machine or in a private network."""
    import os

    if any(urlsplit(os.environ.get(name, "")).scheme == "http" for name in _ENDPOINTS):
        options["allow_http"] = True
    return options


@contextmanager
def _as_store_error(what: str) -> Iterator[None]:
    try:
        yield
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
        raise StoreConflictError(f"{what} was written by another process") from error
    except (exceptions.NotFoundError, FileNotFoundError) as error:
        _refuse_without_bucket(what, error)
        raise ObjectMissingError(f"{what} does not exist") from error
    except exceptions.NotSupportedError as error:
        raise StoreRefusedError(f"{what}: the store has no conditional writes; use another store") from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise _refused(what, error) from error
    except (exceptions.BaseError, OSError, ValueError) as error:
        _refuse_without_bucket(what, error)
        if any(word in str(error) for word in _REFUSALS):
            raise _refused(what, error) from error
        if any(word in str(error) for word in _NO_CREDENTIALS):
            raise StoreRefusedError(
                f"{what}: no credentials were found; set those of the store in the environment ({_first_line(error)})"
            ) from error
        raise StoreError(f"{what}: {_first_line(error)}") from error


def _refuse_without_bucket(what: str, error: Exception) -> None:
    if any(word in str(error) for word in _NO_BUCKET):
        raise StoreRefusedError(f"{what}: no such bucket or container; make it, or name another URL") from error


def _refused(what: str, error: Exception) -> StoreRefusedError:
    code = next((word for word in _REFUSALS if word in str(error)), "access denied")
    return StoreRefusedError(f"{what}: the store refuses this user ({code}); check the credentials and their rights")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
