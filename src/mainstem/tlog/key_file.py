"""The signing keys of a node, in a file for its owner alone (mode 600): a key a line, in Go's form.

Every key of the file signs each checkpoint; the first is the newest. So a key is rotated in two steps: ``rotate`` puts
a new key before the old one, and verifiers learn it while both sign; ``retire`` removes the old one. All keys have one
name, the beginning of the origin of every log that they sign.

The log process reads the file; a change of it counts from the next checkpoint on. One writer at a time, by a lock file.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mainstem.durable_files import LOCAL_FILES, OTHERS, DirectoryLock, replace_file
from mainstem.errors import ConfigError, DirectoryLockedError, UnavailableError
from mainstem.tlog.notes import SigningKey, new_signing_key, parse_signing_key

KEYS_MAX: Final = 16
_LOCK_S: Final = 5.0


def read_keys(path: Path) -> list[SigningKey]:
    """The keys of a file, the newest first. Raises ConfigError for a file that is wrong, or that others may read."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"the signing keys in {path} cannot be read: {reason}; make them with: mainstem keys create NAME"
        ) from error
    if stat.S_IMODE(mode) & OTHERS:
        raise ConfigError(f"{path} may be read by others; do: chmod 600 {path}")
    keys = [parse_signing_key(line) for line in text.splitlines() if line.strip()]
    if not keys or len({key.name for key in keys}) != 1:
        raise ConfigError(f"{path} must have keys of one name, a line each; make them with: mainstem keys create NAME")
    if len(keys) > KEYS_MAX:
        raise ConfigError(f"{path} has more than {KEYS_MAX} keys; retire old ones with: mainstem keys retire KEYID")
    return keys


def create_keys(path: Path, name: str) -> SigningKey:
    """Make the file, with one new key. Raises ConfigError when it is there, StorageError, UnavailableError."""
    with _locked(path):
        if path.exists():
            raise ConfigError(f"{path} is there already; a new key beside the old one takes: mainstem keys rotate")
        key = new_signing_key(name)
        _write(path, [key])
        return key


def rotate_keys(path: Path) -> SigningKey:
    """Put a new key before the others, which go on signing. Raises ConfigError, StorageError, UnavailableError."""
    with _changing(path) as keys:
        if len(keys) == KEYS_MAX:
            raise ConfigError(f"{path} has {KEYS_MAX} keys already; retire old ones with: mainstem keys retire KEYID")
        key = new_signing_key(keys[0].name)
        _write(path, [key, *keys])
        return key


def retire_key(path: Path, key_id: str) -> None:
    """Remove the key with this id, which is not the newest. Raises ConfigError, StorageError, UnavailableError."""
    with _changing(path) as keys:
        left = [key for key in keys if key.verifier().key_id.hex() != key_id]
        if len(left) == len(keys):
            raise ConfigError(f"no key {key_id[:100]!r} in {path}; to list them: mainstem keys show")
        if left[:1] != keys[:1]:
            raise ConfigError(f"{key_id} is the newest key; put another before it first: mainstem keys rotate")
        _write(path, left)


@contextmanager
def _changing(path: Path) -> Iterator[list[SigningKey]]:
    """The keys of a file, to change. Two commands that change the same keys at once would undo each other's change."""
    read_keys(path)  # a path without a key file gets no lock file either
    with _locked(path):
        yield read_keys(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    in_use = f"{path}: process {{holder}} is changing the keys; try again"
    try:
        lock = DirectoryLock.take(path.with_name(path.name + ".lock"), in_use, wait_s=_LOCK_S)
    except DirectoryLockedError as error:
        raise UnavailableError(str(error)) from error
    try:
        yield
    finally:
        lock.release()


def _write(path: Path, keys: Sequence[SigningKey]) -> None:
    replace_file(LOCAL_FILES, path, "".join(f"{key.secret_text()}\n" for key in keys).encode())
