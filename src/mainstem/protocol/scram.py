"""SCRAM (RFC 5802, 7677) as Kafka speaks it: both sides of the exchange, and the credential that a server keeps.

Each side is a small state machine without I/O: bytes in, bytes out, AuthenticationError for a refusal. A server keeps
no password: a credential can verify a password, but a stolen credential neither allows a login nor reveals the
password. As in Kafka, names and passwords are plain UTF-8 (no SASLprep), and there is no channel binding. Secrets are
compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mainstem.errors import AuthenticationError

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
ITERATIONS: Final = 4096
"""The default number of iterations of a credential, as in Kafka's own tools."""

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
_HASHES: Final[Mapping[str, str]] = MappingProxyType({SHA_256: "sha256", SHA_512: "sha512"})
MECHANISMS: Final = tuple(_HASHES)
_SALT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_BYTES: Final = 26
_MESSAGE_BYTES_MAX: Final = 16 * 1024


class ScramCredential(NamedTuple):
    """The credential that a server stores for one user and one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def make_credential(mechanism: str, password: str, iterations: int = ITERATIONS) -> ScramCredential:
    """The credential of a password, with a salt of its own."""
    salt = as_salt(secrets.token_bytes(32))
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def as_salt(random: bytes) -> bytes:
    """A salt made of at least 32 random bytes; it looks like those that Kafka's own tools make."""
    number = int.from_bytes(random, "big")
    digits = bytearray()
    for _ in range(_SALT_BYTES):
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(ord(_SALT_DIGITS[digit]))
    return bytes(digits)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of a password: milliseconds of work, during which other threads run."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a password that was salted already, as an administrator's client sends it."""
    name = _HASHES[mechanism]
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def is_password(mechanism: str, password: str, credential: ScramCredential) -> bool:
    """Whether a credential is that of a password (mechanism PLAIN asks); as slow as ``salted_password``."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    made = credential_of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)


class ScramServer:
    """The server's side of one exchange: ``step`` takes a message and returns the next; then ``username`` is verified.

    ``look_up`` returns the credential of a name. For an unknown name it returns one that fits no password, so that the
    refusal comes at the same step as for a wrong password.
    """

    def __init__(self, mechanism: str, look_up: Callable[[str], ScramCredential], nonce: str | None = None) -> None:
        self.username = ""
        self.is_done = False
        self._hash = _HASHES[mechanism]
        self._look_up = look_up
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._gs2_header = b""
        self._messages: list[bytes] = []
        self._credential: ScramCredential | None = None

    def step(self, message: bytes) -> bytes:
        """Raises AuthenticationError: then the exchange is over."""
        if len(message) > _MESSAGE_BYTES_MAX or self.is_done:
            raise _refused()
        return self._final(message) if self._credential is not None else self._first(message)

    def _first(self, message: bytes) -> bytes:
        binding, _, rest = message.partition(b",")
        authorized_as, comma, bare = rest.partition(b",")
        if binding != b"n" or not comma:
            raise _refused()
        self._gs2_header = binding + b"," + authorized_as + b","
        attributes = _attributes(bare)
        self.username = _unescaped(attributes.get("n", ""))
        nonce = attributes.get("r", "")
        if "m" in attributes or not self.username or not nonce:
            raise _refused()
        if authorized_as and authorized_as != b"a=" + attributes["n"].encode():
            raise _refused()
        self._nonce = nonce + self._nonce
        self._credential = self._look_up(self.username)
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}".encode()
        self._messages = [bare, answer]
        return answer

    def _final(self, message: bytes) -> bytes:
        assert self._credential is not None
        without_proof, comma, _ = message.rpartition(b",p=")
        attributes = _attributes(message)
        proof = _decoded(attributes.get("p", ""))
        if not comma or _decoded(attributes.get("c", "")) != self._gs2_header:
            raise _refused()
        signed = b",".join((*self._messages, without_proof))
        signature = hmac.digest(self._credential.stored_key, signed, self._hash)
        client_key = _xor(proof, signature) if len(proof) == len(signature) else b""
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), self._credential.stored_key)
        if not is_right or not hmac.compare_digest(attributes.get("r", "").encode(), self._nonce.encode()):
            raise _refused()
        self.is_done = True
        return b"v=" + base64.b64encode(hmac.digest(self._credential.server_key, signed, self._hash))


class ScramClient:
    """The client's side: send ``first()``, then ``final`` of the answer, then let ``check`` see the last one."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str | None = None) -> None:
        self._mechanism = mechanism
        self._hash = _HASHES[mechanism]
        self._password = password
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={_escaped(username)},r={self._nonce}".encode()
        self._expected = b""

    def first(self) -> bytes:
        """The client's first message."""
        return b"n,," + self._bare

    def final(self, message: bytes) -> bytes:
        """The client's proof. Raises AuthenticationError for an answer that no honest server gives."""
        attributes = _attributes(message)
        nonce, salt = attributes.get("r", ""), _decoded(attributes.get("s", ""))
        iterations = int(attributes.get("i", "0")) if attributes.get("i", "").isdecimal() else 0
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise AuthenticationError("the log's answer does not belong to this login")
        if not ITERATIONS_MIN <= iterations <= 1_000_000:
            raise AuthenticationError(
                f"the log asks for {iterations} iterations: a login from {ITERATIONS_MIN} on is safe"
            )
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        without_proof = b"c=biws,r=" + nonce.encode()
        signed = b",".join((self._bare, message, without_proof))
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        self._expected = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        return without_proof + b",p=" + base64.b64encode(_xor(client_key, signature))

    def check(self, message: bytes) -> None:
        """See that the server knows the password, too. Raises AuthenticationError."""
        verifier = _decoded(_attributes(message).get("v", ""))
        if not self._expected or not hmac.compare_digest(verifier, self._expected):
            raise AuthenticationError("the log could not prove that it knows the user: it may be another server")


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise _refused() from None
    return {part[0]: part[2:] for part in parts if len(part) >= 2 and part[1] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _refused() from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _refused() -> AuthenticationError:
    return AuthenticationError("the user or the password is wrong")
