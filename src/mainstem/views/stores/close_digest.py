"""The seal of a store that one process at a time can open: what it held when it was closed, for the next opening.

Some libraries neither number their writes nor let a digest be kept at a bearable price (decision 0021), but hold a lock
that lets no other process write while the store is open. For them it is enough to know, at each opening, that what is
there is what was left:

1. *Closing*, with an account that is whole: a proof of what is stored (the store says which) goes into ``sealed.json``.
2. *Opening*: the proof is taken again. The same: the account is whole, and the seal is removed, because what is stored
   changes from here on. Another: someone wrote meanwhile, and the seal stays, so that every later opening says so too.
   No seal: the process was killed, so nothing is known until a replay vouches for the store.

Concurrency: opened and closed by the store's owner; ``is_whole`` and ``mark_verified`` from any thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from mainstem.durable_files import LOCAL_FILES, remove_file, replace_file

# What was proved by (a library's version counts: another one computes otherwise), and the proof; None: none in time.
Proof: TypeAlias = tuple[str, str]
Prove: TypeAlias = Callable[[], Proof | None]

_SEAL = "sealed.json"


class CloseDigest:
    """See the module."""

    def __init__(self, directory: Path, prove: Prove, *, is_new: bool) -> None:
        """``is_new``: the store was made just now, and nobody can have written to it yet."""
        self._path = directory / _SEAL
        self._prove = prove
        self._is_whole = True if is_new else self._compare()
        if self._is_whole is not False:
            remove_file(self._path)  # durable before the store changes: a seal that came back would accuse somebody

    @property
    def is_whole(self) -> bool | None:
        """Whether nobody else wrote between the last closing and this opening; None: it cannot be told."""
        return self._is_whole

    def mark_verified(self) -> None:
        """What is stored is right after all."""
        self._is_whole = True

    def close(self) -> None:
        """Seal the store, if its account is whole."""
        proof = self._prove() if self._is_whole else None
        if proof is not None:
            replace_file(LOCAL_FILES, self._path, json.dumps(proof).encode())

    def _compare(self) -> bool | None:
        try:
            by, value = json.loads(self._path.read_text())
        except (OSError, ValueError, TypeError):
            return None
        proof = self._prove()
        if proof is None or proof[0] != by:
            return None
        return bool(proof[1] == value)
