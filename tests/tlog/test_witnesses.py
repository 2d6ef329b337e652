"""Checkpoints that witnesses cosign: litewitness, and witnesses that are away, lie, or have seen another history."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mainstem.client.log import Log
from mainstem.client.read.witnesses import ANSWER_BYTES_MAX, parse_witness
from mainstem.errors import ConfigError, ProofError, UnavailableError
from mainstem.exit_codes import NO
from mainstem.tlog.base64_text import encode_base64
from mainstem.tlog.checkpoints import open_checkpoint, unverified_checkpoint
from mainstem.tlog.cosignatures import cosigned_at, parse_witness_key, require_cosigned
from mainstem.tlog.notes import SigningKey
from tests.cli.commands import Commands
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.tlog import witness
from tests.tlog.support import TOPIC, broker_on, make_key
from tests.tlog.witness import PLAIN, SIZE


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("witnessed")


@pytest.fixture(scope="module")
def key(directory: Path) -> SigningKey:
    return make_key(directory)


@pytest.fixture(scope="module")
def log(key: SigningKey, directory: Path) -> Iterator[Log]:
    with broker_on(directory) as broker, Log(broker.bootstrap, timeout_s=20) as log:
        log.create_topic(TOPIC, partitions=1, configs={"mainstem.verifiable": "true"})
        append(log, 5)
        yield log


def append(log: Log, count: int) -> None:
    for number in range(count):
        log.append(TOPIC, f"{number}", key="k")


def test_a_witness_cosigns_what_continues_its_last_checkpoint(log: Log, key: SigningKey) -> None:
    spec = witness.SpecWitness(key)
    with witness.answering(spec.answer) as url:
        for count in (3, 0, 300):
            append(log, count)
            note = log.tree(TOPIC, 0).cosigned([spec.at(url)])
            found = cosigned_at(note, [spec.at(url).key])
            assert abs(found[spec.at(url).key] - witness.now_s()) < 600
            assert open_checkpoint(note, [key.verifier()]).size == spec.sizes[-1]
        proof = log.tree(TOPIC, 0).prove(2, witnesses=[spec.at(url)])
    assert len(spec.sizes) == 4
    assert spec.sizes[2] - spec.sizes[0] == 300
    require_cosigned(proof.checkpoint, [spec.at(url).key], 1)
    assert proof.verify([key.verifier()]).index == 2


def test_litewitness_cosigns_and_refuses_a_fork(log: Log, key: SigningKey, tmp_path: Path) -> None:
    origin = unverified_checkpoint(log.tree(TOPIC, 0).checkpoint()).origin
    with witness.litewitness(tmp_path, origin, str(key.verifier().named(origin))) as (public_key, url):
        lite = parse_witness(f"{public_key} {url}")

        def cosigned() -> bytes | None:
            try:
                return log.tree(TOPIC, 0).cosigned([lite])
            except UnavailableError:
                return None  # it does not listen yet

        first = eventually(cosigned, "litewitness answers")
        append(log, 20)
        second = log.tree(TOPIC, 0).cosigned([lite])
        assert unverified_checkpoint(second).size == unverified_checkpoint(first).size + 20
        for note in (first, second):
            require_cosigned(note, [lite.key], 1)
        with broker_on(tmp_path_of_a_fork(tmp_path, key)) as broker, Log(broker.bootstrap, timeout_s=20) as other:
            other.create_topic(TOPIC, partitions=1, configs={"mainstem.verifiable": "true"})
            append(other, 1)
            with pytest.raises(UnavailableError, match="HTTP 403"):
                other.tree(TOPIC, 0).cosigned([lite])


def tmp_path_of_a_fork(tmp_path: Path, key: SigningKey) -> Path:
    """The directory of another log with the same key."""
    directory = tmp_path / "fork"
    directory.mkdir()
    file = directory / "keys"
    file.touch(mode=0o600)
    file.write_text(f"{key.secret_text()}\n")
    return directory


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((409, SIZE, b"999999\n"), ProofError, "its history was cut"),
        ((409, SIZE, b"0\n"), ProofError, "another history"),
        ((409, SIZE, b"-1\n"), UnavailableError, "HTTP 409"),
        ((409, PLAIN, b"3\n"), UnavailableError, "HTTP 409"),
        ((403, PLAIN, b"unknown log\n"), UnavailableError, "unknown log"),
        ((302, PLAIN, b""), UnavailableError, "HTTP 302"),
        ((200, PLAIN, b""), ProofError, "without a cosignature"),
        ((200, PLAIN, b"\xff\n"), ProofError, "does not hold"),
        ((200, PLAIN, b"x" * (ANSWER_BYTES_MAX + 1)), UnavailableError, "more than"),
    ],
)
def test_a_witness_that_answers_otherwise_is_one_error(
    log: Log, answer: witness.Answer, error: type[Exception], words: str
) -> None:
    public_key = witness.key_text(Ed25519PrivateKey.generate())
    with witness.answering(lambda _: answer) as url, pytest.raises(error, match=words):
        log.tree(TOPIC, 0).cosigned([parse_witness(f"{public_key} {url}")])


def test_a_cosignature_of_another_text_or_key_does_not_hold(log: Log) -> None:
    right, wrong = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    text = unverified_checkpoint(log.tree(TOPIC, 0).checkpoint()).text()
    for line in (witness.cosignature(right, text + b"x"), witness.cosignature(wrong, text)):
        with witness.answering(lambda _, line=line: (200, PLAIN, line)) as url, pytest.raises(ProofError):  # type: ignore[misc]
            log.tree(TOPIC, 0).cosigned([parse_witness(f"{witness.key_text(right)} {url}")])


def test_a_quorum_is_enough_and_a_witness_that_is_away_is_named(log: Log, key: SigningKey) -> None:
    spec, gone = witness.SpecWitness(key), witness.key_text(Ed25519PrivateKey.generate(), "gone.example")
    away = parse_witness(f"{gone} http://127.0.0.1:{free_port()}")
    with witness.answering(spec.answer) as url:
        with pytest.raises(UnavailableError, match=r"1 of 2 witnesses .* gone.example does not answer"):
            log.tree(TOPIC, 0).cosigned([spec.at(url), away])
        with pytest.raises(UnavailableError, match="1 of 2 witnesses"):
            log.tree(TOPIC, 0).cosigned([spec.at(url), spec.at(url)], quorum=2)
        note = log.tree(TOPIC, 0).cosigned([spec.at(url), away], quorum=1)
    keys = [spec.at(url).key, away.key]
    require_cosigned(note, keys, 1)
    with pytest.raises(ProofError, match=r"1 of 2 witnesses .* not gone.example"):
        require_cosigned(note, keys, 2)


def test_the_command_asks_witnesses_and_verifies_them_offline(
    log: Log, key: SigningKey, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", log.bootstrap)
    command, spec, file = Commands(capsys), witness.SpecWitness(key), str(tmp_path / "proof")
    public, other = witness.key_text(spec.key), witness.key_text(Ed25519PrivateKey.generate(), "other.example")
    with witness.answering(spec.answer) as url:
        asked = ("--witness", f"{public} {url}", "--output")
        assert command.run("prove", f"{TOPIC}/0:1", *asked, file).code == 0
        assert command.run("prove", f"{TOPIC}/0", *asked, f"{file}.checkpoint").code == 0
    trusted = ("--key", str(key.verifier()))
    for path in (file, f"{file}.checkpoint"):
        assert "cosigned by 1" in command.run("prove", "--verify", path, *trusted, "--witness", public).out
        refused = command.run("prove", "--verify", path, *trusted, "--witness", public, "--witness", other)
        assert (refused.code, "other.example" in refused.out) == (NO, True)
        both = ("--witness", public, "--witness", other)
        assert command.run("prove", "--verify", path, *trusted, *both, "--quorum", "1").code == 0
    assert command.run("prove", "--verify", file, *trusted, "--witness", public, "--quorum", "2").code != 0


@pytest.mark.parametrize("text", ["", "w", "w+00000000+AAAA", "w+00000000+" + encode_base64(b"\x04" + b"k" * 32)])
def test_a_wrong_key_of_a_witness_is_one_error(text: str) -> None:
    with pytest.raises(ConfigError, match="witness"):
        parse_witness_key(text)


@pytest.mark.parametrize("url", ["ftp://w", "w", "http://", "https://w?x=1"])
def test_a_wrong_url_of_a_witness_is_one_error(url: str) -> None:
    with pytest.raises(ConfigError, match="invalid"):
        parse_witness(f"{witness.key_text(Ed25519PrivateKey.generate())} {url}")


def test_a_cosignature_has_the_bytes_of_the_specification() -> None:
    key = Ed25519PrivateKey.generate()
    line = witness.cosignature(key, b"origin\n1\nroot\n", 1_679_315_147)
    data = base64.b64decode(line.split(b" ")[2])
    assert struct.unpack(">Q", data[4:12]) == (1_679_315_147,)
    found = parse_witness_key(witness.key_text(key))
    assert found.time_of(b"origin\n1\nroot\n", data[4:]) == 1_679_315_147
    assert found.time_of(b"origin\n2\nroot\n", data[4:]) is None
    assert found.time_of(b"origin\n1\nroot\n", data[4:-1]) is None
    assert str(found) == witness.key_text(key)
