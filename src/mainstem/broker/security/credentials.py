"""The users of the node: SCRAM credentials in its metadata log. Passwords are not stored and cannot be derived.

A user may have one credential per mechanism. PLAIN passwords are checked against the same credentials. For an unknown
name the node makes a decoy credential from a secret of its own; no password fits it. So a client cannot learn from the
answers which users exist. Concurrency: the event loop only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast

from mainstem.broker.error_codes import refusal
from mainstem.log.node.metadata import Metadata
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.scram import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SHA_512,
    ScramCredential,
    as_salt,
)

_SCRAM: Final = "scram"
_SECRET: Final = "scram_secret"
_NAME_BYTES_MAX: Final = 1024


class Credentials:
    """All users, by name and mechanism."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._by_user: dict[str, dict[str, ScramCredential]] = {}
        for key, value in metadata.entries(_SCRAM).items():
            user, mechanism = cast("tuple[str, str]", key)
            self._by_user.setdefault(user, {})[mechanism] = _credential(value)
        self._secret: bytes | None = None

    def users(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._by_user)

    def of(self, user: str) -> Mapping[str, ScramCredential]:
        """Return a user's credentials by mechanism; empty for an unknown name."""
        return self._by_user.get(user, {})

    def credential(self, user: str, mechanism: str) -> ScramCredential:
        """Return the credential that a login is checked against; for an unknown name a decoy that no password fits."""
        return self.of(user).get(mechanism) or self._decoy(user, mechanism)

    def _decoy(self, user: str, mechanism: str) -> ScramCredential:
        random = hmac.digest(self._node_secret(), f"{mechanism},{user}".encode(), hashlib.sha512)
        size = 64 if mechanism == SHA_512 else 32
        iterations = self._decoy_iterations(user, mechanism)
        return ScramCredential(as_salt(random), secrets.token_bytes(size), secrets.token_bytes(size), iterations)

    def _decoy_iterations(self, user: str, mechanism: str) -> int:
        """Return an iteration count that some real user has: any other number would reveal that the user is unknown.

        The choice depends only on the name, as long as no user adds a new number.
        """
        held = {each[mechanism].iterations for each in self._by_user.values() if mechanism in each}
        return max(
            held or {ITERATIONS},
            key=lambda count: hmac.digest(self._node_secret(), f"{count},{mechanism},{user}".encode(), hashlib.sha512),
        )

    def _node_secret(self) -> bytes:
        if self._secret is None:
            held = self._metadata.entries(_SECRET).get(("secret",))
            if held is None:
                held = {"bytes": _text(secrets.token_bytes(32))}
                self._metadata.put_entries(_SECRET, {("secret",): held})
            self._secret = base64.b64decode(held["bytes"])
        return self._secret

    def for_plain(self, user: str) -> tuple[str, ScramCredential]:
        """Return the mechanism and credential that a PLAIN password is checked against; a decoy if there is none."""
        held = self.of(user)
        mechanism = next(iter(sorted(held, reverse=True)), SHA_512)
        return mechanism, self.credential(user, mechanism)

    def check(self, user: str, mechanism: str, credential: ScramCredential | None) -> None:
        """Check a change. Raises RemoteError: unknown mechanism, too few iterations, no such credential."""
        if not user or len(user.encode()) > _NAME_BYTES_MAX:
            raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"invalid user name: use 1 to {_NAME_BYTES_MAX} bytes")
        if mechanism not in MECHANISMS:
            raise refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"use {' or '.join(MECHANISMS)}")
        if credential is None:
            if mechanism not in self.of(user):
                raise refusal(ErrorCode.RESOURCE_NOT_FOUND, "there is no such credential to delete")
        elif not ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
            raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"use {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")

    def change(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Store credentials by user and mechanism, and remove those that are None; durable when it returns.

        Raises StorageError: then nothing has changed.
        """
        self._metadata.put_entries(_SCRAM, {key: value and _entry(value) for key, value in changes.items()})
        for (user, mechanism), credential in changes.items():
            if credential is not None:
                self._by_user.setdefault(user, {})[mechanism] = credential
                continue
            held = self._by_user.get(user, {})
            held.pop(mechanism, None)
            if not held:
                self._by_user.pop(user, None)


def _entry(credential: ScramCredential) -> dict[str, Any]:
    return {
        "salt": _text(credential.salt),
        "stored_key": _text(credential.stored_key),
        "server_key": _text(credential.server_key),
        "iterations": credential.iterations,
    }


def _credential(held: Mapping[str, Any]) -> ScramCredential:
    salt, stored_key, server_key = (base64.b64decode(held[name]) for name in ("salt", "stored_key", "server_key"))
    return ScramCredential(salt, stored_key, server_key, int(held["iterations"]))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
