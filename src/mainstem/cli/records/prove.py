"""``mainstem prove``: proofs that the history of a verifiable topic was not changed; made, and verified offline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError, ProofError, StorageError
from mainstem.exit_codes import DONE, NO

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.client.read.witnesses import Witness
    from mainstem.tlog.cosignatures import WitnessKey
    from mainstem.tlog.notes import VerifierKey

_TARGET: Final = re.compile(r"([^/]+)/(\d{1,10})(?::(\d{1,18}))?")


def prove(  # noqa: PLR0913 - a command's options are its parameters
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
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness",
            metavar="'KEY URL'",
            help="A witness that cosigns the checkpoint; repeatable. With --verify its key, which must have cosigned.",
        ),
    ] = None,
    quorum: Annotated[
        int | None, typer.Option("--quorum", metavar="N", min=1, help="So many witnesses are enough; default: all.")
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> int:
    """Prove that a record is in the history, and that the history only grew. Exit code 5: the proof does not hold."""
    if verify is not None:
        if target is not None or since is not None or output is not None:
            raise InputError("--verify takes a file, --key and --witness alone: it asks no server")
        return _verify(verify, _keys(key), _Cosigners.of_keys(witness, quorum), as_json=json)
    (topic, partition, offset), witnesses = _place(target), _witnesses(witness, quorum)
    if since is not None and witnesses:
        raise InputError("--since takes no --witness: ask the witness for a new checkpoint first")
    with connect(bootstrap) as log:
        if since is not None:
            return _show_continues(log, topic, partition, since, _keys(key), output)
        reader = log.tree(topic, partition)
        if offset is None:
            _write(output, reader.cosigned(witnesses, quorum) if witnesses else reader.checkpoint())
            return DONE
        proof = reader.prove(offset, with_batch=not without_batch, witnesses=witnesses, quorum=quorum)
    if key is not None:
        proof.verify(_keys(key))
    if not proof.batch and not without_batch:
        note("the record batch was removed or compacted: the proof shows its hash alone")
    _write(output, proof.encode())
    return DONE


def _place(target: str | None) -> tuple[str, int, int | None]:
    """Topic, partition and offset, None for the partition as a whole. Raises InputError."""
    if target is None:
        raise InputError("name a record to prove, as TOPIC/PARTITION:OFFSET, or a file with --verify")
    match = _TARGET.fullmatch(target)
    if match is None:
        raise InputError(f"invalid record {target[:100]!r}: use TOPIC/PARTITION:OFFSET, such as ledger/0:4711")
    return match[1], int(match[2]), None if match[3] is None else int(match[3])


def _keys(texts: list[str] | None) -> list[VerifierKey]:
    from mainstem.tlog.notes import parse_verifier_key

    if not texts:
        raise InputError("give the public key that you trust: --key KEY, as mainstem keys show prints it")
    return [parse_verifier_key(text) for text in texts]


class _Cosigners(NamedTuple):
    """The witnesses of which ``quorum`` must have cosigned."""

    keys: list[WitnessKey]
    quorum: int

    @classmethod
    def of_keys(cls, texts: list[str] | None, quorum: int | None) -> _Cosigners:
        """Those of ``--witness``; a URL beside the key is passed over. Raises InputError, ConfigError."""
        from mainstem.tlog.cosignatures import parse_witness_key

        keys = [parse_witness_key(text.partition(" ")[0]) for text in texts or ()]
        _check_quorum(len(set(keys)), quorum)
        return cls(keys, len(set(keys)) if quorum is None else quorum)


def _witnesses(texts: list[str] | None, quorum: int | None) -> list[Witness]:
    from mainstem.client.read.witnesses import parse_witness

    found = [parse_witness(text) for text in texts or ()]
    _check_quorum(len({each.key for each in found}), quorum)
    return found


def _check_quorum(count: int, quorum: int | None) -> None:
    if quorum is not None and quorum > count:
        raise InputError(f"--quorum {quorum} needs as many witnesses; --witness names {count}")


def _verify(path: Path, keys: list[VerifierKey], cosigners: _Cosigners, *, as_json: bool) -> int:
    """Print what the file shows; of a checkpoint its size, of a proof the batch."""
    from mainstem.tlog.checkpoints import open_checkpoint
    from mainstem.tlog.cosignatures import require_cosigned
    from mainstem.tlog.proofs import decode_proof, is_proof

    data = path.read_bytes()
    try:
        require_cosigned(decode_proof(data).checkpoint if is_proof(data) else data, cosigners.keys, cosigners.quorum)
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
        by = f"; cosigned by {cosigners.quorum} of the witnesses at least" if cosigners.keys else ""
        out(f"valid: {text}{by}")
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
