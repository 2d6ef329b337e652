"""Signed notes (C2SP signed-note) with Ed25519, and their keys in the text forms that Go's ``sumdb/note`` reads, too.

A *verifier key* is ``NAME+KEYID+BASE64``, a *signing key* ``PRIVATE+KEY+NAME+KEYID+BASE64``. The same key may sign
under several names; each name has a key id of its own. Signatures of unknown keys are ignored; one of a known key that
does not hold makes the whole note invalid.

``cryptography`` is imported at the first signature: ``pip install 'mainstem[verifiable]'``. Pure functions and frozen
values; safe from any thread.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from mainstem.errors import ConfigError, ProofError
from mainstem.extras import naming_the_extra
from mainstem.tlog.base64_text import decode_base64, encode_base64

_ED25519: Final = b"\x01"
_DASH: Final = "\u2014"
_PRIVATE: Final = "PRIVATE+KEY+"
_NAME = re.compile(r"[^\s+]{1,512}")
SIGNATURES_MAX: Final = 64
NOTE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under a name. Raises ConfigError for a name that a note cannot have."""

    name: str
    public_key: bytes

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(f"invalid key name {self.name[:100]!r}: use no spaces and no '+', as in log.example.com")

    @property
    def key_id(self) -> bytes:
        """The four bytes that signatures carry."""
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.public_key).digest()[:4]

    def named(self, name: str) -> VerifierKey:
        """The same key under another name."""
        return VerifierKey(name, self.public_key)

    def verifies(self, text: bytes, signature: bytes) -> bool:
        """Whether the signature of ``text`` holds."""
        with naming_the_extra():
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(_ED25519 + self.public_key)}"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key under a name. Its text is the secret itself."""

    name: str
    seed: bytes = field(repr=False)

    def verifier(self) -> VerifierKey:
        """The public half."""
        with naming_the_extra():
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return VerifierKey(self.name, Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw())

    def named(self, name: str) -> SigningKey:
        """The same key under another name."""
        return SigningKey(name, self.seed)

    def signature_line(self, text: bytes) -> str:
        """The line that signs ``text``, without its newline."""
        with naming_the_extra():
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self.seed)
        key_id = VerifierKey(self.name, key.public_key().public_bytes_raw()).key_id
        return f"{_DASH} {self.name} {encode_base64(key_id + key.sign(text))}"

    def secret_text(self) -> str:
        """The key as a file keeps it."""
        return f"{_PRIVATE}{self.name}+{self.verifier().key_id.hex()}+{encode_base64(_ED25519 + self.seed)}"


class Note(NamedTuple):
    """A note whose signatures held: its text, and the names of the keys that signed it."""

    text: bytes
    signers: tuple[str, ...]


def new_signing_key(name: str) -> SigningKey:
    """A new key. Raises ConfigError for a name that a note cannot have."""
    key = SigningKey(name, secrets.token_bytes(32))
    key.verifier()
    return key


def parse_verifier_key(text: str) -> VerifierKey:
    """The key of a ``NAME+KEYID+BASE64``. Raises ConfigError."""
    name, key_id, data = _parts(text.strip(), "verifier key")
    key = VerifierKey(name, data)
    if key.key_id.hex() != key_id:
        raise ConfigError(f"the verifier key of {name[:100]} is damaged: its key id does not match; copy it again")
    return key


def parse_signing_key(text: str) -> SigningKey:
    """The key of a ``PRIVATE+KEY+NAME+KEYID+BASE64``. Raises ConfigError."""
    if not text.startswith(_PRIVATE):
        raise ConfigError("invalid signing key: it must begin with PRIVATE+KEY+; make one with: mainstem keys create")
    name, key_id, seed = _parts(text.removeprefix(_PRIVATE).strip(), "signing key")
    key = SigningKey(name, seed)
    if key.verifier().key_id.hex() != key_id:
        raise ConfigError(f"the signing key of {name[:100]} is damaged: its key id does not match")
    return key


def _parts(text: str, what: str) -> tuple[str, str, bytes]:
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        data = decode_base64(encoded)
    except ProofError:
        data = b""
    if not name or len(data) != 33 or data[:1] != _ED25519:
        raise ConfigError(f"invalid {what}: NAME+KEYID+BASE64 is expected, as mainstem keys show prints it")
    return name, key_id, data[1:]


def sign_note(text: bytes, keys: Iterable[SigningKey]) -> bytes:
    """A note of ``text``, which ends with a newline, signed with each key."""
    assert text.endswith(b"\n")
    lines = [key.signature_line(text) for key in keys]
    return text + b"\n" + "".join(f"{line}\n" for line in lines).encode()


def open_note(note: bytes, keys: Sequence[VerifierKey]) -> Note:
    """The text of a note that at least one of ``keys`` has signed. Raises ProofError."""
    text, signatures = split_note(note)
    known = {(key.name, key.key_id): key for key in keys}
    signers = []
    for name, key_id, signature in signatures:
        key = known.get((name, key_id))
        if key is None:
            continue
        if not key.verifies(text, signature):
            raise ProofError(f"the signature of {name[:100]} does not hold: the text was changed or forged")
        signers.append(name)
    if not signers:
        names = ", ".join(dict.fromkeys(f"{name}+{key_id.hex()}" for name, key_id, _ in signatures))
        raise ProofError(f"no signature of the given key; signed by {names[:300]}")
    return Note(text, tuple(signers))


def split_note(note: bytes) -> tuple[bytes, list[tuple[str, bytes, bytes]]]:
    """The text, and of each signature the name, the key id and the bytes; none is verified. Raises ProofError."""
    text, separator, lines = note.rpartition(b"\n\n")
    try:
        decoded = note.decode()
    except UnicodeDecodeError:
        decoded = "\x00"
    if len(note) > NOTE_BYTES_MAX or not separator or any(each < " " and each != "\n" for each in decoded):
        raise ProofError("this is not a signed note: text, an empty line and signatures are expected")
    signatures = []
    for line in lines.decode().removesuffix("\n").split("\n"):
        words = line.split(" ")
        try:
            data = decode_base64(words[2])
        except (IndexError, ProofError):
            data = b""
        if len(words) != 3 or words[0] != _DASH or len(data) < 5 or not lines.endswith(b"\n"):
            raise ProofError(f"invalid signature line {line[:100]!r} in a signed note")
        signatures.append((words[1], data[:4], data[4:]))
    if len(signatures) > SIGNATURES_MAX:
        raise ProofError(f"a signed note with more than {SIGNATURES_MAX} signatures")
    return text + b"\n", signatures
