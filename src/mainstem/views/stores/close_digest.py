"""The digest of a closed store that one process at a time can open: the next opening compares it.

Some libraries neither number their writes nor let a digest be kept at a low cost (decision 0021), but hold a lock that
lets no other process write while the store is open. For them it is enough to check, at each opening, that the content
is the same as at the last closing:

1. *Closing*, if no foreign write is known: a proof of the content (each store defines its own) goes into
   ``sealed.json``.
2. *Opening*: the proof is computed again. If it is the same, no other process wrote, and the file is removed, because
   the content changes from here on. If it differs, another process wrote meanwhile; the file stays, so that every later
   opening finds this, too. Without the file the process was killed: the store is unverified until a replay.

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
    """The digest of one store's last closing."""

    def __init__(self, directory: Path, prove: Prove, *, is_new: bool) -> None:
        """``is_new``: the store was made just now, so no other process can have written to it."""
        self._path = directory / _SEAL
        self._prove = prove
        self._is_whole = True if is_new else self._compare()
        if self._is_whole is not False:
            remove_file(self._path)  # durable before the store changes: an old file would report a foreign write

    @property
    def is_whole(self) -> bool | None:
        """Whether no other process wrote between the last closing and this opening; None: unknown."""
        return self._is_whole

    def mark_verified(self) -> None:
        """A replay has shown that the content is correct."""
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
