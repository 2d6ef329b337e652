"""``mainstem prove`` and ``mainstem keys``: proofs are made of a running log, and verified without one."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.exit_codes import NO, REFUSED
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


@pytest.fixture
def keys(tmp_path: Path, command: Commands, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAINSTEM_SIGNING_KEYS", str(tmp_path / "keys"))
    command.run("keys", "create", "log.example.com")
    return tmp_path / "keys"


@pytest.fixture
def log(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    with EmbeddedBroker(settings={"mainstem.signing.keys": str(keys)}) as broker, Log(broker.bootstrap) as log:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
        log.create_topic("ledger", partitions=1, configs={"mainstem.verifiable": "true"})
        for number in range(5):
            log.append("ledger", {"n": number}, key="ada")
        yield log


def public_key(command: Commands) -> str:
    [key] = command.run("keys", "show", "--json").json["keys"]
    return str(key)


@pytest.mark.usefixtures("log")
def test_a_proof_is_made_and_verified_and_a_changed_one_is_refused(command: Commands, tmp_path: Path) -> None:
    file, key = tmp_path / "proof", public_key(command)
    assert command.run("prove", "ledger/0:3", "--output", str(file)).code == 0
    verified = command.run("prove", "--verify", str(file), "--key", key)
    assert verified.code == 0
    assert verified.out.startswith(
        "valid: the record batch with the offsets 3 to 3 is in the history of log.example.com/"
    )
    shown = command.run("prove", "--verify", str(file), "--key", key, "--json").json
    assert (shown["valid"], shown["size"], shown["index"], shown["has_batch"]) == (True, 5, 3, True)
    data = file.read_bytes()
    for at in range(0, len(data), 7):
        file.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        assert command.run("prove", "--verify", str(file), "--key", key).code in (NO, REFUSED), at


@pytest.mark.usefixtures("log")
def test_the_key_of_another_node_is_refused(command: Commands, tmp_path: Path) -> None:
    file = tmp_path / "proof"
    command.run("prove", "ledger/0:3", "--without-batch", "--output", str(file))
    for name in ("log.example.com", "other.example.com"):
        path = tmp_path / name
        [other] = command.run("keys", "create", name, "--file", str(path), "--json").json["keys"]
        done = command.run("prove", "--verify", str(file), "--key", other)
        assert (done.code, done.out[:9]) == (NO, "refused: ")


def test_the_history_continues_and_another_history_does_not(command: Commands, tmp_path: Path, log: Log) -> None:
    file, key = tmp_path / "checkpoint", public_key(command)
    command.run("prove", "ledger/0", "--output", str(file))
    log.append("ledger", {"n": 5}, key="ada")
    grown = command.run("prove", "ledger/0", "--since", str(file), "--key", key)
    assert (grown.code, "grew from 5 to 6 record batches and changed none" in grown.out) == (0, True)
    log.delete_topic("ledger")
    log.create_topic("ledger", partitions=1, configs={"mainstem.verifiable": "true"})
    other = command.run("prove", "ledger/0", "--since", str(file), "--key", key)
    assert (other.code, "of two logs" in other.out) == (NO, True)


def test_a_key_is_rotated_while_both_sign(command: Commands, tmp_path: Path, log: Log, keys: Path) -> None:
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    old = public_key(command)
    [new] = command.run("keys", "rotate", "--json").json["keys"]
    note = log.tree("ledger", 0).checkpoint()
    (tmp_path / "note").write_bytes(note)
    for key in (old, new):
        assert command.run("prove", "--verify", str(tmp_path / "note"), "--key", key).code == 0
    assert command.run("keys", "retire", old.split("+")[1]).out == f"retired {old.split('+')[1]}\n"
    (tmp_path / "note").write_bytes(log.tree("ledger", 0).checkpoint())
    assert command.run("prove", "--verify", str(tmp_path / "note"), "--key", old).code == NO
    assert command.run("keys", "show", "--json").json["keys"] == [new]


def test_what_cannot_be_is_one_line(command: Commands, keys: Path) -> None:
    assert "is there already" in command.run("keys", "create", "log.example.com").error
    assert "to list them: mainstem keys show" in command.run("keys", "retire", "00000000").error
    assert "put another before it first" in command.run("keys", "retire", public_key(command).split("+")[1]).error
    assert "TOPIC/PARTITION:OFFSET" in command.run("prove", "ledger").error
    assert "name a record" in command.run("prove").error
    assert "--key KEY" in command.run("prove", "--verify", str(keys)).error
    assert "NAME+KEYID+BASE64" in command.run("prove", "--verify", str(keys), "--key", "x").error
    keys.chmod(0o644)
    assert "chmod 600" in command.run("keys", "show").error


def test_a_log_without_keys_says_how_to_make_them(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
        log.create_topic("ledger", partitions=1, configs={"mainstem.verifiable": "true"})
        assert "mainstem keys create NAME" in command.run("prove", "ledger/0").error
