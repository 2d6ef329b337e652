"""Tokens for OAUTHBEARER: from a file that another program keeps new, or from an identity provider.

A provider gives a token for the client's id and secret (RFC 6749, section 4.4), which are sent by HTTP's Basic scheme
(section 2.3.1). A token is used until a fifth of its time is left; a file is read each time. The provider's answer is
bounded in bytes and in time, and no redirect is followed. No error shows a token or a secret. Safe from any thread.
"""

from __future__ import annotations

import base64
import json
import math
import re
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from mainstem.addresses import is_loopback
from mainstem.errors import AuthenticationError, LogUnavailableError

ANSWER_BYTES_MAX: Final = 64 << 10
_FETCH_S: Final = 10.0
_PART_KEPT: Final = 0.8
_UNKNOWN_LIFETIME_S: Final = 300.0
_SOURCES_MAX: Final = 64
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_WORD: Final = re.compile(r"[\x20-\x7e]{1,200}")


class OauthToken(NamedTuple):
    """A token, and when it ends: seconds since the epoch."""

    text: str
    ends_s: float


def is_token_address(text: str) -> bool:
    """Whether a token may come from there: https, http on this machine, or a file."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and parts.path.startswith("/")
    is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    return (is_local or parts.scheme == "https") and bool(parts.hostname) and parts.username is None


@lru_cache(_SOURCES_MAX)
def token_source(address: str, client_id: str, secret: str, scope: str) -> TokenSource:
    """The source of a client's tokens; clients with the same options share it."""
    return TokenSource(address, client_id, secret, scope)


class TokenSource:
    """Where the tokens of one client come from."""

    def __init__(self, address: str, client_id: str, secret: str, scope: str) -> None:
        self._address = address
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._lock = threading.Lock()
        self._token = OauthToken("", 0.0)
        self._kept_until_s = 0.0

    def token(self) -> OauthToken:
        """A token that holds now.

        Raises AuthenticationError (no token was given, or what was given is not one), LogUnavailableError (the provider
        does not answer, is overloaded or fails; try again).
        """
        if self._address.startswith("file:"):
            return self._from_file()
        with self._lock:
            now_s = time.time()
            if now_s >= self._kept_until_s:
                self._token = self._fetched(now_s)
                self._kept_until_s = now_s + _PART_KEPT * (self._token.ends_s - now_s)
            return self._token

    def _from_file(self) -> OauthToken:
        path = Path(unquote(urlsplit(self._address).path))
        try:
            with path.open("rb") as file:
                data = file.read(ANSWER_BYTES_MAX + 1)
        except OSError as error:
            raise AuthenticationError(f"the token file {path} cannot be read: {error.strerror or error}") from error
        text = data.decode("ascii", errors="replace").strip()
        if len(data) > ANSWER_BYTES_MAX or _TOKEN.fullmatch(text) is None:
            raise AuthenticationError(f"the file {path} does not hold one token of at most {ANSWER_BYTES_MAX} bytes")
        return OauthToken(text, _end_of(text) or time.time() + _UNKNOWN_LIFETIME_S)

    def _fetched(self, now_s: float) -> OauthToken:
        status, data = self._answer()
        try:
            answer = json.loads(data) if len(data) <= ANSWER_BYTES_MAX else None
        except (ValueError, RecursionError):
            answer = None
        if status != 200:
            may_pass = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            error_class = LogUnavailableError if may_pass else AuthenticationError
            raise error_class(f"{self._place} gave no token: HTTP {status}{_reason(answer)}")
        answer = answer if isinstance(answer, dict) else {}
        text = answer.get("access_token")
        if not isinstance(text, str) or len(text) > ANSWER_BYTES_MAX or _TOKEN.fullmatch(text) is None:
            raise AuthenticationError(f"{self._place} gave no token: its answer has no access_token")
        lasts_s, ends_s = answer.get("expires_in"), _end_of(text)
        if isinstance(lasts_s, (int, float)) and not isinstance(lasts_s, bool) and 0 < lasts_s < 1e9:
            return OauthToken(text, min(ends_s or math.inf, now_s + lasts_s))
        return OauthToken(text, ends_s or now_s + _UNKNOWN_LIFETIME_S)

    def _answer(self) -> tuple[int, bytes]:
        """The status and the body, a byte more than allowed at most. Raises LogUnavailableError."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        from mainstem.redirects import direct_opener

        form = {"grant_type": "client_credentials", **({"scope": self._scope} if self._scope else {})}
        who = base64.b64encode(f"{quote_plus(self._client_id)}:{quote_plus(self._secret)}".encode()).decode()
        headers = {"Authorization": f"Basic {who}", "Accept": "application/json"}
        request = Request(self._address, urlencode(form).encode(), headers)
        opener = direct_opener(proxies=not is_loopback(urlsplit(self._address).hostname or ""))
        ends_s = time.monotonic() + _FETCH_S
        try:
            with opener.open(request, timeout=_FETCH_S) as answer:
                return answer.status, _read(answer, ends_s)
        except HTTPError as error:
            with error:
                return error.code, _read(error, ends_s)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise LogUnavailableError(f"{self._place} does not answer: {reason}") from error

    @property
    def _place(self) -> str:
        parts = urlsplit(self._address)
        return f"the token endpoint {parts.scheme}://{parts.netloc}{parts.path}"


def _read(answer: Any, ends_s: float) -> bytes:
    """The body, a little over the bound at most. Raises TimeoutError."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) <= ANSWER_BYTES_MAX and (piece := answer.read1(ANSWER_BYTES_MAX)):
        pieces.append(piece)
        if time.monotonic() > ends_s:
            raise TimeoutError(f"the answer is not complete after {_FETCH_S:g} s")
    return b"".join(pieces)


def _reason(answer: Any) -> str:
    """Why, as RFC 6749 section 5.2 has it; empty where the answer does not say it."""
    words = [answer.get(name) for name in ("error", "error_description")] if isinstance(answer, Mapping) else []
    shown = [word for word in words if isinstance(word, str) and _WORD.fullmatch(word)]
    return f" ({': '.join(shown)})" if shown else ""


def _end_of(token: str) -> float | None:
    """When a token ends, as it says itself if it is a JWT; its signature is for the log to check."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        claims = None
    ends_s = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(ends_s, (int, float)) and not isinstance(ends_s, bool) and 0 < ends_s < 1e12:
        return float(ends_s)
    return None
