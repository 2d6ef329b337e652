"""The hash of one entry, for digests that are summed in Python. Pure; safe from any thread."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from mainstem.views.stores.store import Digest

_MODULUS = 1 << 128


def digest_of(entries: Iterable[tuple[bytes, ...]]) -> Digest:
    """The digest of entries of several parts each; the parts' lengths are hashed too, so they cannot run together."""
    count = 0
    total = 0
    for parts in entries:
        state = blake2b(digest_size=16)
        for part in parts:
            state.update(len(part).to_bytes(8, "big"))
            state.update(part)
        total += int.from_bytes(state.digest(), "big")
        count += 1
    return Digest(count, total % _MODULUS)
