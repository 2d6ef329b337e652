"""transparency-dev's own code checks the log that is served: Tessera's fsck, Merkle proofs, Go's signed notes.

The records are librdkafka's. Each fault is planted in the node's files, as a careful forger would do it, and separately
told by a server that lies. ``MAINSTEM_TREE_RECORDS`` is the number of records; ``make tree-fsck`` writes a million.
"""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mainstem.tlog.checkpoints import unverified_checkpoint
from mainstem.tlog.merkle import leaf_hash
from mainstem.tlog.notes import SigningKey, new_signing_key
from mainstem.tlog.tiles import TILE_WIDTH, decode_bundle, encode_bundle
from tests.support.foreign_programs import ask, go_argv
from tests.tlog import support

_RECORDS = int(os.environ.get("MAINSTEM_TREE_RECORDS", "10000"))
_GO = Path(__file__).parent / "foreign" / "go"


class Written(NamedTuple):
    directory: Path
    key: SigningKey
    vkey: str
    files: dict[str, bytes]
    checkpoints: list[bytes]


@pytest.fixture(scope="module")
def checker() -> list[str]:
    return go_argv(_GO, "tlog-checker")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("verifiable")
    key = support.make_key(directory)
    with support.broker_on(directory) as broker, support.Log(broker.bootstrap) as log:
        log.create_topic(support.TOPIC, partitions=1, configs={"mainstem.verifiable": "true"})
        checkpoints = []
        for _ in range(2):
            support.write_by_librdkafka(broker.bootstrap, _RECORDS // 2, max(13, _RECORDS // 20_000))
            checkpoints.append(log.tree(support.TOPIC, 0).checkpoint())
        files = support.resources(log.tree(support.TOPIC, 0))
    origin = unverified_checkpoint(checkpoints[-1]).origin
    return Written(directory, key, str(key.verifier().named(origin)), files, checkpoints)


def fsck(checker: list[str], prefix: str, key: str, workers: int = 2) -> str:
    [answer] = ask(checker, [{"Kind": "fsck", "URL": prefix, "Key": key, "Workers": workers}])
    return str(answer)


def test_fsck_accepts_the_log_that_is_served(checker: list[str], written: Written) -> None:
    assert unverified_checkpoint(written.checkpoints[-1]).size > 512, "more than two tiles"
    with support.serving(written.directory) as (_, prefix):
        assert fsck(checker, prefix, written.vkey) == ""
    with support.serving_files(written.files) as prefix:
        assert fsck(checker, prefix, written.vkey) == ""


@pytest.mark.parametrize("change", [support.flip_a_byte, support.remove_a_batch, support.swap_two_batches])
def test_fsck_refuses_a_log_whose_files_were_changed(
    checker: list[str], written: Written, change: support.Change, tmp_path: Path
) -> None:
    shutil.copytree(written.directory, tmp_path / "copy")
    support.tamper(tmp_path / "copy", change)
    with support.serving(tmp_path / "copy") as (_, prefix):
        assert "bundle" in fsck(checker, prefix, written.vkey)


@pytest.mark.parametrize("lie", ["flipped", "removed", "swapped", "tile", "key"])
def test_fsck_refuses_a_server_that_lies(checker: list[str], written: Written, lie: str) -> None:
    files = dict(written.files)
    bundles = sorted(path for path in files if path.startswith("tile/entries/"))
    entries = [entry for path in bundles for entry in decode_bundle(files[path])]
    if lie == "flipped":
        entries[40] = entries[40][:-1] + bytes((entries[40][-1] ^ 1,))
    elif lie == "removed":
        entries = [
            *entries[:40],
            *entries[41:],
            entries[-1],
        ]  # fsck panics at a short bundle
    elif lie == "swapped":
        entries[40], entries[41] = entries[41], entries[40]
    elif lie == "tile":
        files["tile/0/000"] = files["tile/0/000"][:-1] + b"\0"
    for number, path in enumerate(bundles):
        files[path] = encode_bundle(entries[number * TILE_WIDTH :][:TILE_WIDTH])
    key = written.vkey if lie != "key" else str(new_signing_key(written.vkey.partition("+")[0]).verifier())
    with support.serving_files(files) as prefix:
        assert fsck(checker, prefix, key, workers=1024) != ""


def test_other_implementations_take_our_proofs_and_notes(checker: list[str], written: Written) -> None:
    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    questions: list[dict[str, Any]] = []
    with support.serving(written.directory) as (log, _):
        reader = log.tree(support.TOPIC, 0)
        former, recent = (unverified_checkpoint(each) for each in (written.checkpoints[0], reader.checkpoint()))
        hashes = reader.check_continues(former, recent)
        for offset in (0, 1, _RECORDS // 2, _RECORDS - 1):
            proof = reader.prove(offset)
            assert proof.verify([written.key.verifier()]).batch
            inclusion = {"Kind": "inclusion", "Leaf": text(leaf_hash(proof.entry)), "Index": proof.index}
            questions.append(
                {**inclusion, "Size": recent.size, "Hashes": [text(each) for each in proof.hashes]}
                | {"Root": text(recent.root)}
            )
            questions.append({"Kind": "note", "Note": proof.checkpoint.decode(), "Key": written.vkey})
    sizes = {"Size": former.size, "Second": recent.size, "Root": text(former.root), "NextRoot": text(recent.root)}
    questions.append({"Kind": "consistency", **sizes, "Hashes": [text(each) for each in hashes]})
    assert ask(checker, questions) == [""] * len(questions)
    questions[0]["Index"] += 1
    questions[-1]["Root"] = text(recent.root)
    wrong = ask(checker, [questions[0], questions[-1]])
    assert all(wrong), "the checker refuses what is wrong"
