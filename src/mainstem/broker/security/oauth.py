"""OAUTHBEARER (KIP-255, RFC 7628): a client proves who it is by a signed token of an issuer (JWT, RFC 7519).

The token must be signed with a key of the issuer's JWKS document, by RSA or an elliptic curve. Tokens without a
signature, or with a shared secret, are refused. A token must name its end (``exp``), its user (``sub``), and the issuer
and the audience that the settings expect. The user is the principal; ACLs give it rights. The session ends with the
token. Tokens are checked in threads of their own. Concurrency: ``OauthTokens`` is safe from any thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mainstem.broker.security.principal import ANONYMOUS
from mainstem.errors import AuthenticationError
from mainstem.extras import naming_the_extra

OAUTHBEARER: Final = "OAUTHBEARER"
TOKEN_BYTES_MAX: Final = 16 * 1024
_USER_BYTES_MAX: Final = 1024
_ENDS_S_MAX: Final = 253_402_300_799
"""The end of the year 9999: a session as long as that fits the answer."""
_ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]
_FIRST_MESSAGE: Final = re.compile(rb"n,(?:a=(?P<user>[^,\x01]*))?,\x01(?P<pairs>.*)\x01", re.DOTALL)


class TokenUser(NamedTuple):
    """The user of a token, and when the token ends, in seconds since 1970."""

    user: str
    ends_s: float


@dataclass(frozen=True, slots=True)
class OauthSettings:
    """The claims that a token must have. An empty issuer or audience is not checked."""

    issuer: str
    audience: tuple[str, ...]
    user_claim: str
    clock_skew_s: int


class OauthTokens:
    """Checks tokens."""

    def __init__(self, settings: OauthSettings, keys: Callable[[str | None], Any]) -> None:
        """``keys`` returns the key of an id; it raises AuthenticationError, and FrameError to close the connection."""
        self._settings = settings
        self._keys = keys

    def check(self, message: bytes) -> TokenUser:
        """Check a client's first message.

        Raises AuthenticationError, which says what is wrong, never what was sent. Raises FrameError when the issuer's
        keys cannot be read now: then the connection must be closed.
        """
        authorized_as, token = _parse(message)
        with naming_the_extra():
            import jwt
        settings = self._settings
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._keys(None if key_id is None else str(key_id)),
                algorithms=_ALGORITHMS,
                audience=list(settings.audience) or None,
                issuer=settings.issuer or None,
                leeway=settings.clock_skew_s,
                options={"require": ["exp", settings.user_claim], "verify_aud": bool(settings.audience)},
            )
        except jwt.exceptions.PyJWTError as error:
            raise AuthenticationError(f"the token is refused: {error}") from error
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise AuthenticationError("the token is refused: it cannot be read") from error
        user = claims[settings.user_claim]
        if not _is_user(user):
            raise AuthenticationError(f"the token's claim {settings.user_claim} does not name a user")
        if authorized_as not in ("", user):
            raise AuthenticationError("the client asks for another user than that of its token")
        return TokenUser(user, float(min(int(claims["exp"]), _ENDS_S_MAX)))


def _is_user(user: object) -> bool:
    if not isinstance(user, str) or user == ANONYMOUS.name:
        return False
    try:
        return 0 < len(user.encode()) <= _USER_BYTES_MAX
    except UnicodeEncodeError:  # JSON can hold half a character
        return False


def _parse(message: bytes) -> tuple[str, str]:
    """The user that the client asks to be, and its token. Raises AuthenticationError."""
    if len(message) > TOKEN_BYTES_MAX:
        raise AuthenticationError(f"the token has more than {TOKEN_BYTES_MAX} bytes")
    found = _FIRST_MESSAGE.fullmatch(message)
    pairs = {} if found is None else dict(_pair(each) for each in found["pairs"].split(b"\x01") if each)
    scheme, _, token = pairs.get("auth", "").partition(" ")
    if found is None or scheme.lower() != "bearer" or not token.strip():
        raise AuthenticationError("an OAUTHBEARER message needs auth=Bearer and a token")
    return (found["user"] or b"").decode(errors="replace"), token.strip()


def _pair(text: bytes) -> tuple[str, str]:
    name, _, value = text.decode(errors="replace").partition("=")
    return name, value


def remaining_ms(user: TokenUser) -> int:
    """How long a token is still valid."""
    return max(1, int((user.ends_s - time.time()) * 1000))
