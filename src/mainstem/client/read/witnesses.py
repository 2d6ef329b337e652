"""Asking witnesses to cosign a checkpoint (C2SP tlog-witness): ``log.tree("ledger", 0).cosigned([Witness(…)])``.

1. The checkpoint is sent with the size of the tree that the witness has signed last, first guessed as 0, and the proof
   that the checkpoint continues that tree.
2. A witness at another size answers with it (409), and is asked once more.
3. Its cosignature is verified before it becomes a line of the checkpoint.

The client asks, and not the log's process, which opens no connection of its own. Answers are bounded in bytes and time,
and no redirect is followed. Blocking; safe from any thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mainstem.errors import ConfigError, ProofError, UnavailableError
from mainstem.tlog.base64_text import encode_base64
from mainstem.tlog.checkpoints import unverified_checkpoint
from mainstem.tlog.cosignatures import WitnessKey, cosigned_at, parse_witness_key, with_lines

ANSWER_BYTES_MAX: Final = 16 << 10
_FETCH_S: Final = 10.0
_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,18})\n?")
_SIZE_TYPE: Final = "text/x.tlog.size"
_TRIES: Final = 3
Prove = Callable[[int], Sequence[bytes]]
"""The hashes which prove that the checkpoint continues the tree of a size."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness: its key, and the URL below which it answers ``/add-checkpoint``. Raises ConfigError."""

    key: WitnessKey
    url: str

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"invalid URL of the witness {self.key.name[:100]}: {self.url[:200]!r}; use https://…")


def parse_witness(text: str) -> Witness:
    """The witness of ``KEY URL``. Raises ConfigError."""
    words = text.split()
    if len(words) != 2:
        raise ConfigError(f"invalid witness {text[:200]!r}: use its key and its URL, with a space between them")
    return Witness(parse_witness_key(words[0]), words[1])


def cosigned(note: bytes, witnesses: Sequence[Witness], quorum: int, prove: Prove) -> bytes:
    """The checkpoint with the cosignatures of at least ``quorum`` witnesses.

    Raises UnavailableError (too few of them answer), ProofError (a witness has seen another history, or its answer does
    not hold).
    """
    lines, failures = [], []
    for witness in witnesses:
        try:
            lines.append(_cosignature(note, witness, prove))
        except UnavailableError as error:
            failures.append(str(error))
    if len(lines) < quorum:
        raise UnavailableError(f"{len(lines)} of {quorum} witnesses have cosigned: {'; '.join(failures)}")
    return with_lines(note, lines)


def _cosignature(note: bytes, witness: Witness, prove: Prove) -> bytes:
    """The signature line of a witness. Raises UnavailableError, ProofError."""
    checkpoint, name = unverified_checkpoint(note), witness.key.name[:100]
    origin, old_size = checkpoint.origin[:300], 0
    for _ in range(_TRIES):
        proof = prove(old_size) if 0 < old_size < checkpoint.size else ()
        head = f"old {old_size}\n" + "".join(f"{encode_base64(each)}\n" for each in proof)
        status, kind, answer = _post(witness, head.encode() + b"\n" + note)
        if status == 200:
            return _verified(note, witness, answer)
        found = _SIZE.fullmatch(answer)
        if status != 409 or kind != _SIZE_TYPE or found is None:
            why = answer[:200].decode(errors="replace").strip()
            raise UnavailableError(f"the witness {name} does not cosign {origin}: HTTP {status} {why!r}")
        signed = int(found[1])
        if signed > checkpoint.size:
            raise ProofError(
                f"the witness {name} has signed {signed} batches of {origin}, and the log has {checkpoint.size}: its "
                "history was cut, or another log signs with the same key"
            )
        if signed == old_size:
            raise ProofError(f"the witness {name} has signed another history of {origin} at this size")
        old_size = signed
    raise UnavailableError(f"the witness {name} moves on: others ask it for the same log; try again")


def _verified(note: bytes, witness: Witness, answer: bytes) -> bytes:
    """The line of the answer that the witness's key has signed. Raises ProofError."""
    for line in answer.splitlines():
        try:
            if witness.key in cosigned_at(with_lines(note, [line]), [witness.key]):
                return line
        except ProofError as error:
            raise ProofError(f"the answer of the witness {witness.key.name[:100]} does not hold: {error}") from error
    raise ProofError(f"the witness {witness.key.name[:100]} answers without a cosignature of its key")


def _post(witness: Witness, body: bytes) -> tuple[int, str, bytes]:
    """Status, media type and body. Raises UnavailableError."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    from mainstem.redirects import direct_opener

    request = Request(f"{witness.url.rstrip('/')}/add-checkpoint", body)
    ends_s = time.monotonic() + _FETCH_S
    try:
        try:
            answer = direct_opener(proxies=True).open(request, timeout=_FETCH_S)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.headers.get_content_type(), _read(answer, ends_s)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnavailableError(f"the witness {witness.key.name[:100]} does not answer: {reason}") from error


def _read(answer: Any, ends_s: float) -> bytes:
    pieces: list[bytes] = []
    while piece := answer.read1(ANSWER_BYTES_MAX):
        pieces.append(piece)
        if sum(map(len, pieces)) > ANSWER_BYTES_MAX:
            raise OSError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > ends_s:
            raise TimeoutError(f"the answer is not complete after {_FETCH_S:g} s")
    return b"".join(pieces)
