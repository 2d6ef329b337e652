"""Cosignatures of witnesses (C2SP tlog-cosignature, version 1): who else has seen a checkpoint, and when.

A witness signs a checkpoint only if it continues the last one that it has signed. So a log that shows two histories
needs two sets of witnesses. A cosignature is one more signature line of the checkpoint's note, by a key of algorithm 4,
``NAME+KEYID+BASE64``; verifiers that do not know the witness pass over it. Pure functions; safe from any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from mainstem.errors import ConfigError, ProofError
from mainstem.tlog.base64_text import decode_base64, encode_base64
from mainstem.tlog.notes import VerifierKey, split_note

_ALGORITHM: Final = b"\x04"
_TIME: Final = struct.Struct(">Q")
_SIGNATURE_BYTES: Final = 64
_TIME_MAX: Final = 2**63


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """The public key of a witness under its name. Raises ConfigError for a name that a note cannot have."""

    name: str
    public_key: bytes

    def __post_init__(self) -> None:
        VerifierKey(self.name, self.public_key)

    @property
    def key_id(self) -> bytes:
        """The four bytes that its signatures carry."""
        return sha256(self.name.encode() + b"\n" + _ALGORITHM + self.public_key).digest()[:4]

    def time_of(self, text: bytes, signature: bytes) -> int | None:
        """When it signed ``text``, in seconds since the epoch; None when the signature does not hold."""
        if len(signature) != _TIME.size + _SIGNATURE_BYTES:
            return None
        time_s: int = _TIME.unpack_from(signature)[0]
        signed = f"cosignature/v1\ntime {time_s}\n".encode() + text
        holds = time_s < _TIME_MAX and VerifierKey(self.name, self.public_key).verifies(signed, signature[_TIME.size :])
        return time_s if holds else None

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(_ALGORITHM + self.public_key)}"


def parse_witness_key(text: str) -> WitnessKey:
    """The key of a witness's ``NAME+KEYID+BASE64``. Raises ConfigError."""
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        data = decode_base64(encoded)
    except ProofError:
        data = b""
    if not name or len(data) != 33 or data[:1] != _ALGORITHM:
        raise ConfigError(
            f"invalid key of a witness {text[:100]!r}: NAME+KEYID+BASE64 of algorithm 4 is expected, as it publishes it"
        )
    key = WitnessKey(name, data[1:])
    if key.key_id.hex() != key_id:
        raise ConfigError(f"the key of the witness {name[:100]} is damaged: its key id does not match; copy it again")
    return key


def cosigned_at(note: bytes, keys: Sequence[WitnessKey]) -> dict[WitnessKey, int]:
    """Which of ``keys`` have cosigned a checkpoint, and when: seconds since the epoch.

    Raises ProofError when a cosignature of one of them does not hold.
    """
    text, signatures = split_note(note)
    known = {(key.name, key.key_id): key for key in keys}
    found: dict[WitnessKey, int] = {}
    for name, key_id, signature in signatures:
        key = known.get((name, key_id))
        if key is None:
            continue
        time_s = key.time_of(text, signature)
        if time_s is None:
            raise ProofError(f"the cosignature of {name[:100]} does not hold: the checkpoint was changed or forged")
        found[key] = time_s
    return found


def require_cosigned(note: bytes, keys: Sequence[WitnessKey], quorum: int) -> None:
    """Require that ``quorum`` of the keys have cosigned a checkpoint. Raises ProofError."""
    found = cosigned_at(note, keys)
    if len(found) < quorum:
        missing = ", ".join(key.name[:100] for key in keys if key not in found)
        raise ProofError(f"{len(found)} of {quorum} witnesses have cosigned the checkpoint; not {missing}")


def with_lines(note: bytes, lines: Iterable[bytes]) -> bytes:
    """A note with more signature lines."""
    return note + b"".join(line.removesuffix(b"\n") + b"\n" for line in lines)
