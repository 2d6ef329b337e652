"""The public keys that tokens are checked with: a JWKS document, from a file or from the address of an issuer.

The document is read again when it is older than the refresh time, and when a token names a key that is not in it; at
most once in ``_READ_AGAIN_S``. While one thread reads, others go on with the keys that are there; one that lacks its
key waits. When a document cannot be read, the keys stay, and a warning is logged. Documents are bounded: their bytes,
their keys, and the time to fetch them. Redirects are not followed.

A token is refused when its key is not in the last document, which was read at most ``_READ_AGAIN_S`` ago. If that
document could not be read, the connection is closed instead: clients take a refusal as final, and connect again after a
close.

The threads that check tokens are few. So while there are keys, all waits for one read end ``_WAIT_S`` after it began:
tokens with unknown keys cannot hold up the others when the issuer is slow. Concurrency: safe from these threads; never
on the event loop.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from mainstem.addresses import is_loopback
from mainstem.errors import AuthenticationError, ConfigError, FrameError
from mainstem.extras import naming_the_extra

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

_LOG: Final = logging.getLogger("mainstem.broker")
JWKS_BYTES_MAX: Final = 1 << 20
JWKS_KEYS_MAX: Final = 100
_FETCH_S: Final = 10.0
_READ_AGAIN_S: Final = 10.0
_WAIT_S: Final = 1.0
_PIECE_BYTES: Final = 64 * 1024


def parse_jwks_address(text: str) -> str:
    """Parse the address of a JWKS document: https, http on loopback, or a file. Raises ValueError."""
    if not text:
        return ""
    parts = urlsplit(text)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    is_local = parts.scheme == "http" and parts.hostname is not None and is_loopback(parts.hostname)
    if not is_file and not is_local and not (parts.scheme == "https" and parts.hostname):
        raise ValueError("must be https://…, file:///…, or http:// on this machine")
    return text


class OauthKeys:
    """The keys by their ids (``kid``). Raises ConfigError for a file that cannot be used."""

    def __init__(self, address: str, refresh_s: float) -> None:
        self._address = address
        self._refresh_s = refresh_s
        self._changed = threading.Condition()
        self._is_reading = False
        self._keys: Mapping[str | None, Any] = {}
        self._read_s = float("-inf")
        self._tried_s = float("-inf")
        if address.startswith("file:"):
            try:
                self._read(time.monotonic())
            except (OSError, ValueError) as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url={address!r}: {error}") from error

    def key(self, key_id: str | None) -> Any:
        """Return the key of that id; without an id the only key.

        Raises AuthenticationError; FrameError when the document cannot be read now: the connection must be closed.
        """
        if self._is_to_read(key_id):
            self._refresh()
        found = self._find(key_id)
        if found is None and self._read_s < self._tried_s:
            raise FrameError("the keys of the tokens' issuer cannot be read now; the client may connect again")
        if found is None:
            raise AuthenticationError("the token is signed with a key that the issuer does not list")
        return found

    def _is_to_read(self, key_id: str | None) -> bool:
        """Whether the caller must read the document; waits for a thread that reads it, if the key is not there."""
        with self._changed:
            now_s = time.monotonic()
            is_missing, is_old = self._find(key_id) is None, now_s - self._read_s > self._refresh_s
            if self._is_reading:
                if is_missing:
                    limit_s = _WAIT_S if self._keys else _FETCH_S
                    self._changed.wait_for(lambda: not self._is_reading, self._tried_s + limit_s - now_s)
                return False
            if not (is_missing or is_old) or now_s - self._tried_s <= _READ_AGAIN_S:
                return False
            self._is_reading, self._tried_s = True, now_s
            return True

    def _find(self, key_id: str | None) -> Any:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _refresh(self) -> None:
        try:
            self._read(self._tried_s)
        except (OSError, ValueError) as error:
            _LOG.warning("the keys of tokens cannot be read from %s: %s", self._address, error)
        finally:
            with self._changed:
                self._is_reading = False
                self._changed.notify_all()

    def _read(self, now_s: float) -> None:
        """Raises OSError, ValueError."""
        self._keys = _keys_of(_file(self._address) if self._address.startswith("file:") else _fetched(self._address))
        self._read_s = now_s


def _file(address: str) -> bytes:
    with Path(unquote(urlsplit(address).path)).open("rb") as file:
        return file.read(JWKS_BYTES_MAX + 1)


def _fetched(address: str) -> bytes:
    """Raises OSError (also for an answer that is not HTTP's), ValueError."""
    from http.client import HTTPException

    from mainstem.redirects import direct_opener

    try:
        return _answer(direct_opener(proxies=False), address)
    except HTTPException as error:
        raise OSError(f"the answer is not HTTP's: {error!r}") from error


def _answer(opener: OpenerDirector, address: str) -> bytes:
    ends_s = time.monotonic() + _FETCH_S
    pieces: list[bytes] = []
    with opener.open(address, timeout=_FETCH_S) as answer:
        while piece := answer.read1(_PIECE_BYTES):
            pieces.append(piece)
            if sum(map(len, pieces)) > JWKS_BYTES_MAX:
                break
            if time.monotonic() > ends_s:
                raise TimeoutError(f"the answer is not complete after {_FETCH_S:.0f} s")
    return b"".join(pieces)


def _keys_of(document: bytes) -> dict[str | None, Any]:
    """The public keys of a JWKS document. Secrets (``oct``) are left out. Raises ValueError."""
    with naming_the_extra():
        from jwt import PyJWK
    if len(document) > JWKS_BYTES_MAX:
        raise ValueError(f"the document has more than {JWKS_BYTES_MAX} bytes")
    try:
        listed = json.loads(document)["keys"]
        described = [dict(each) for each in listed]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("the document is not a JWKS: it needs a JSON object with a list keys") from error
    if len(described) > JWKS_KEYS_MAX:
        raise ValueError(f"the document has more than {JWKS_KEYS_MAX} keys")
    keys: dict[str | None, Any] = {}
    for each in described:
        if each.get("kty") == "oct" or each.get("use", "sig") != "sig":
            continue
        try:
            keys[each.get("kid")] = PyJWK.from_dict(each)
        except Exception as error:  # noqa: BLE001 - a strange key makes the library raise nearly anything
            _LOG.warning("a key of the issuer is left out: %s: %s", type(error).__name__, error)
    return keys
