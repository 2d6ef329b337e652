"""Signed notes and keys: the examples of C2SP's page, and everything that must be refused."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainstem.errors import ConfigError, ProofError, UnavailableError
from mainstem.tlog import key_file
from mainstem.tlog.key_file import create_keys, read_keys, retire_key, rotate_keys
from mainstem.tlog.notes import (
    SigningKey,
    new_signing_key,
    open_note,
    parse_signing_key,
    parse_verifier_key,
    sign_note,
)

_EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
_EXAMPLE = (
    "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1"
    "ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()
KEY = SigningKey("log.example.com", bytes(range(32)))
TEXT = b"log.example.com\n1\nroot\n"


def test_the_example_of_the_specification_verifies() -> None:
    note = open_note(_EXAMPLE, [parse_verifier_key(_EXAMPLE_KEY)])
    assert note.text == b"This is an example message.\n"
    assert str(parse_verifier_key(_EXAMPLE_KEY)) == _EXAMPLE_KEY


def test_a_note_is_opened_by_its_key_alone() -> None:
    note = sign_note(TEXT, [KEY])
    assert open_note(note, [KEY.verifier()]).text == TEXT
    stranger = new_signing_key("log.example.com").verifier()
    with pytest.raises(ProofError, match="no signature of the given key"):
        open_note(note, [stranger])
    with pytest.raises(ProofError, match="no signature of the given key"):
        open_note(note, [KEY.named("other.example.com").verifier()])


def test_two_keys_sign_and_each_opens() -> None:
    new = new_signing_key("log.example.com")
    note = sign_note(TEXT, [new, KEY])
    assert open_note(note, [KEY.verifier()]).signers == ("log.example.com",)
    assert open_note(note, [new.verifier()]).text == TEXT


@pytest.mark.parametrize("at", range(len(TEXT)))
def test_a_changed_text_is_refused(at: int) -> None:
    note = bytearray(sign_note(TEXT, [KEY]))
    note[at] ^= 1
    with pytest.raises(ProofError):
        open_note(bytes(note), [KEY.verifier()])


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"text",
        b"text\n",
        b"text\n\n",
        b"text\n\nno signature\n",
        b"text\n\n\xe2\x80\x94 a b\n",
        b"a\x01\n\nb\n",
        b"\xff",
    ],
)
def test_what_is_no_note_is_refused(note: bytes) -> None:
    with pytest.raises(ProofError):
        open_note(note, [KEY.verifier()])


def test_a_key_survives_its_text_and_a_damaged_one_is_refused() -> None:
    assert parse_signing_key(KEY.secret_text()) == KEY
    assert parse_verifier_key(str(KEY.verifier())) == KEY.verifier()
    with pytest.raises(ConfigError, match="damaged"):
        parse_verifier_key(_EXAMPLE_KEY.replace("530d", "530e"))
    for text in ("", "a", "a+b", "a+b+c", f"a+00000000+{base64.b64encode(b'x').decode()}"):
        with pytest.raises(ConfigError):
            parse_verifier_key(text)
        with pytest.raises(ConfigError):
            parse_signing_key(text)


def test_the_secret_is_in_no_representation() -> None:
    assert "seed" not in repr(KEY)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\n"])
def test_a_name_that_a_note_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid key name"):
        new_signing_key(name)


def test_two_commands_do_not_change_the_keys_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    first = create_keys(path, "log.example.com").verifier().key_id.hex()
    rotate_keys(path)
    monkeypatch.setattr(key_file, "_LOCK_S", 0.0)
    write = key_file._write

    def write_late(path: Path, keys: Sequence[SigningKey]) -> None:
        with pytest.raises(UnavailableError, match="is changing the keys"):
            retire_key(path, first)
        write(path, keys)

    monkeypatch.setattr(key_file, "_write", write_late)
    rotate_keys(path)
    monkeypatch.setattr(key_file, "_write", write)
    retire_key(path, first)
    assert first not in [key.verifier().key_id.hex() for key in read_keys(path)]
