"""``mainstem prove``: proofs that the history of a verifiable topic was not changed; made, and verified offline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError, ProofError, StorageError
from mainstem.exit_codes import DONE, NO

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.tlog.notes import VerifierKey

_TARGET: Final = re.compile(r"([^/]+)/(\d{1,10})(?::(\d{1,18}))?")


def prove(
    target: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC/PARTITION[:OFFSET]", help="A record; without OFFSET the partition's checkpoint."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; default: standard output.")
    ] = None,
    without_batch: Annotated[
        bool, typer.Option("--without-batch", help="Leave out the record batch: the proof then shows only its hash.")
    ] = False,
    verify: Annotated[
        Path | None, typer.Option("--verify", metavar="FILE", help="Verify a proof or a checkpoint, without a server.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="FILE", help="Show that the history continues this checkpoint or proof."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY", help="A public key that is trusted (mainstem keys show); repeatable."),
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> int:
    """Prove that a record is in the history, and that the history only grew. Exit code 5: the proof does not hold."""
    if verify is not None:
        if target is not None or since is not None or output is not None:
            raise InputError("--verify takes a file and --key alone: it asks no server")
        return _verify(verify, _keys(key), as_json=json)
    if target is None:
        raise InputError("name a record to prove, as TOPIC/PARTITION:OFFSET, or a file with --verify")
    match = _TARGET.fullmatch(target)
    if match is None:
        raise InputError(f"invalid record {target[:100]!r}: use TOPIC/PARTITION:OFFSET, such as ledger/0:4711")
    topic, partition = match[1], int(match[2])
    with connect(bootstrap) as log:
        if since is not None:
            return _show_continues(log, topic, partition, since, _keys(key), output)
        if match[3] is None:
            _write(output, log.tree(topic, partition).checkpoint())
            return DONE
        proof = log.tree(topic, partition).prove(int(match[3]), with_batch=not without_batch)
    if key is not None:
        proof.verify(_keys(key))
    if not proof.batch and not without_batch:
        note("the record batch was removed or compacted: the proof shows its hash alone")
    _write(output, proof.encode())
    return DONE


def _keys(texts: list[str] | None) -> list[VerifierKey]:
    from mainstem.tlog.notes import parse_verifier_key

    if not texts:
        raise InputError("give the public key that you trust: --key KEY, as mainstem keys show prints it")
    return [parse_verifier_key(text) for text in texts]


def _verify(path: Path, keys: list[VerifierKey], *, as_json: bool) -> int:
    """Print what the file shows; of a checkpoint its size, of a proof the batch."""
    from mainstem.tlog.checkpoints import open_checkpoint
    from mainstem.tlog.proofs import decode_proof, is_proof

    data = path.read_bytes()
    try:
        if is_proof(data):
            verified = decode_proof(data).verify(keys)
            leaf, checkpoint = verified.leaf, verified.checkpoint
            offsets = f"{leaf.base_offset} to {leaf.last_offset}"
            what = "the record batch" if verified.batch else "a record batch, known by its hash alone,"
            text = f"{what} with the offsets {offsets} is in the history of {checkpoint.origin}"
            found = {"first_offset": leaf.base_offset, "last_offset": leaf.last_offset}
            found |= {"index": verified.index, "has_batch": bool(verified.batch)}
        else:
            checkpoint = open_checkpoint(data, keys)
            text, found = f"{checkpoint.origin} had {checkpoint.size} record batches", {}
    except ProofError as error:
        if as_json:
            out_json({"valid": False, "reason": str(error)})
        else:
            out(f"refused: {error}")
        return NO
    if as_json:
        out_json({"valid": True, "origin": checkpoint.origin, "size": checkpoint.size, **found})
    else:
        out(f"valid: {text}")
    return DONE


def _show_continues(
    log: Log, topic: str, partition: int, since: Path, keys: list[VerifierKey], output: Path | None
) -> int:
    """Verify that the log continues what the file's checkpoint says; writes the new checkpoint."""
    from mainstem.tlog.checkpoints import open_checkpoint
    from mainstem.tlog.proofs import decode_proof, is_proof

    data = since.read_bytes()
    former = open_checkpoint(decode_proof(data).checkpoint if is_proof(data) else data, keys)
    reader = log.tree(topic, partition)
    recent = reader.checkpoint()
    try:
        checkpoint = open_checkpoint(recent, keys)
        reader.check_continues(former, checkpoint)
    except ProofError as error:
        out(f"refused: {error}")
        return NO
    if output is not None:
        _write(output, recent)
    out(f"valid: {checkpoint.origin} grew from {former.size} to {checkpoint.size} record batches and changed none")
    return DONE


def _write(path: Path | None, data: bytes) -> None:
    if path is None:
        out(data.decode().removesuffix("\n"))
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from error
