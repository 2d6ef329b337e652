"""Bearer tokens: their names, hashes and scopes. This module uses no web framework: the commands use it, too.

A file of tokens is JSON, for its owner's eyes only (mode 600):

    {"tokens": [{"name": "shop", "sha256": "…", "read": ["topic:orders", "view:*"], "write": ["topic:orders*"]}]}

A token is 32 random bytes, so its plain SHA-256 reveals nothing. A scope is ``topic:NAME``, ``view:NAME``, either
with a ``*`` at the end for all names that begin so, or ``*`` alone for everything. ``admin`` implies the other two;
``write`` does not imply ``read``.

Values and pure functions, but for ``TokenFile``, which is used by one thread.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from mainstem.clock import Clock, SystemClock
from mainstem.durable_files import LOCAL_FILES, DirectoryLock, FileSystem, replace_file
from mainstem.errors import ConfigError, InputError, StorageError, TokenExistsError, UnknownTokenError

_LOG: Final = logging.getLogger(__name__)

Scope: TypeAlias = Literal["read", "write", "admin"]
Kind: TypeAlias = Literal["topic", "view"]
EVERYTHING: Final = "*"
TOKEN_PREFIX: Final = "mainstem_"
FILE_BYTES_MAX: Final = 4 << 20

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PATTERN = re.compile(r"\*|(?:topic|view):(?:[^*\s]{1,249}\*?|\*)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOOK_EVERY_S: Final = 1.0
_EXTRA_LOOKS: Final = 10.0
"""How often in a second the file is looked at because of unknown tokens, all requests together."""
_LOCK_S: Final = 5.0
_FORBIDDEN: Final = 0o077
_FORBIDDEN_OF_ROOTS: Final = 0o037
"""Of a file that belongs to root: its group may read it. So PostgreSQL reads keys, and Kubernetes mounts secrets."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The rights of a caller: patterns for each scope."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()

    def may(self, scope: Scope, kind: Kind, name: str) -> bool:
        """Whether the scope holds for this topic or view."""
        return any(_matches(pattern, f"{kind}:{name}") for pattern in self._patterns(scope))

    def may_everything(self, scope: Scope) -> bool:
        """Whether the scope holds for everything."""
        return EVERYTHING in self._patterns(scope)

    def _patterns(self, scope: Scope) -> tuple[str, ...]:
        granted = {"read": self.read, "write": self.write, "admin": ()}[scope]
        return granted + self.admin


ALL: Final = Grants(admin=(EVERYTHING,))
"""The grants of every caller where no token file is set."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its file stores it: only its hash, never the token itself. Raises ConfigError for an invalid entry."""

    name: str
    sha256: str
    grants: Grants

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(
                f"invalid token name {self.name[:100]!r}: use letters, digits, '.', '_' and '-', at most 100"
            )
        if _DIGEST.fullmatch(self.sha256) is None:
            raise ConfigError(f"token {self.name}: sha256 takes 64 hexadecimal digits")
        for pattern in (*self.grants.read, *self.grants.write, *self.grants.admin):
            if _PATTERN.fullmatch(pattern) is None:
                raise ConfigError(
                    f"token {self.name}: {pattern[:100]!r} is not topic:NAME, view:NAME, topic:PREFIX* or *"
                )


def digest_of(token: str) -> str:
    """The hash of a token that its file stores."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def new_token(name: str, grants: Grants) -> tuple[Token, str]:
    """A new token: what its file keeps, and the token itself, which is shown once. Raises ConfigError."""
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return Token(name, digest_of(text), grants), text


def read_tokens(path: Path) -> dict[str, Token]:
    """The tokens of a file, by name. Raises ConfigError for a file that is wrong, or that others may read."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_mode & (_FORBIDDEN_OF_ROOTS if status.st_uid == 0 != os.geteuid() else _FORBIDDEN):
                raise ConfigError(f"{path}: others may read or change it; chmod 600 {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        hint = "; mainstem tokens create makes the file" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{path}: the tokens cannot be read: {error.strerror or error}{hint}") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: more than {FILE_BYTES_MAX} bytes of tokens")
    try:
        return _parsed(json.loads(data))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path} is not a token file: {error}; mainstem tokens create makes one") from error


def write_tokens(path: Path, tokens: Iterable[Token], files: FileSystem = LOCAL_FILES) -> None:
    """Replace a file of tokens: whole, durable and for its owner only. Raises ConfigError.

    A token that was revoked stays revoked after a power cut.
    """
    rows = [{"name": token.name, "sha256": token.sha256, **asdict(token.grants)} for token in tokens]
    try:
        replace_file(files, path, (json.dumps({"tokens": rows}, indent=2) + "\n").encode())
    except StorageError as error:
        raise ConfigError(f"{path}: the tokens cannot be written: {error}") from error


def add_token(path: Path, token: Token, *, make_file: bool = False) -> None:
    """Add a token to a file. Raises TokenExistsError, ConfigError. ``make_file``: the file need not exist."""
    with _changing(path, make_file=make_file) as tokens:
        if token.name in tokens:
            raise TokenExistsError(f"token {token.name!r} exists already; revoke it first, or take another name")
        tokens[token.name] = token


def revoke_token(path: Path, name: str, *, keep_admin: bool = False) -> None:
    """Remove a token from a file. Raises UnknownTokenError, ConfigError.

    ``keep_admin``: the last token that may administer everything stays (InputError).
    """
    with _changing(path) as tokens:
        if tokens.pop(name, None) is None:
            raise UnknownTokenError(f"token {name[:100]!r} is not in {path}; mainstem tokens list shows all")
        if keep_admin and not any(token.grants.may_everything("admin") for token in tokens.values()):
            raise InputError(
                f"{name!r} is the last token with admin on *: create another one first, or revoke it on the gateway's "
                "machine with: mainstem tokens revoke"
            )


@contextmanager
def _changing(path: Path, *, make_file: bool = False) -> Iterator[dict[str, Token]]:
    """The tokens of a file, to change; they are written at the end of the block, unless it raises.

    A lock file beside it keeps other writers out meanwhile, so that no writer undoes the change of another.
    """
    in_use = f"{path}: process {{holder}} is changing the tokens; try again"
    try:
        lock = DirectoryLock.take(path.with_name(path.name + ".lock"), in_use, wait_s=_LOCK_S)
    except StorageError as error:
        raise ConfigError(f"{path}: the tokens cannot be changed: {error}") from error
    try:
        tokens = {} if make_file and not path.exists() else read_tokens(path)
        yield tokens
        write_tokens(path, tokens.values())
    finally:
        lock.release()


class TokenFile:
    """The tokens of a file, as it is now: it is looked at every second, so that a revoked token ends.

    It is also looked at when a token is unknown, so that a new token counts at once. One budget for all requests bounds
    these looks: it holds ten and gains ten a second. So an attacker with wrong tokens costs ten ``stat`` a second, and
    delays a new token by a tenth of a second. A file that was refused is read again once a second.

    A file that has become unusable changes nothing but a line in the process's log.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._path = path
        self._clock = clock or SystemClock()
        self._seen = self._state()  # before the file is read, so that no change is missed
        self._tokens = tuple(read_tokens(path).values())
        self._refusal: str | None = None
        self._looked_s = self._budgeted_s = self._clock.monotonic_s()
        self._extra_looks = _EXTRA_LOOKS

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def look_again(self) -> None:
        """Read the file at the next request, because it was changed."""
        self._looked_s = float("-inf")

    def find(self, text: str) -> Token | None:
        """The token with this text, or None. A comparison takes the same time for every text."""
        digest, now_s = digest_of(text), self._clock.monotonic_s()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        found = self._compared(digest)
        if found is None and self._refusal is None and self._may_look_again(now_s) and self._look():
            found = self._compared(digest)
        return found

    def _compared(self, digest: str) -> Token | None:
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def _may_look_again(self, now_s: float) -> bool:
        """Take one extra look from the budget, if there is one."""
        gained = (now_s - self._budgeted_s) * _EXTRA_LOOKS
        self._extra_looks, self._budgeted_s = min(_EXTRA_LOOKS, self._extra_looks + gained), now_s
        if self._extra_looks < 1:
            return False
        self._extra_looks -= 1
        return True

    def _look(self) -> bool:
        """Read the file again if it changed; whether its tokens may have changed."""
        state = self._state()
        if state == self._seen:
            self._refusal = None
            return False
        try:
            self._tokens = tuple(read_tokens(self._path).values())
        except ConfigError as error:  # it is read again each time: chmod, for one, changes nothing that ``_state`` sees
            if str(error) != self._refusal:
                _LOG.error("the tokens stay as they were: %s", error)
            self._refusal = str(error)
            return False
        self._seen, self._refusal = state, None
        return True

    def _state(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size


def _parsed(document: Any) -> dict[str, Token]:
    tokens: dict[str, Token] = {}
    for row in document["tokens"]:
        unknown = sorted(set(row) - {"name", "sha256", "read", "write", "admin"})
        if unknown:
            raise ConfigError(f"{unknown[0]!r} is not a field of a token")
        scopes = [tuple(str(pattern) for pattern in row.get(scope, ())) for scope in ("read", "write", "admin")]
        token = Token(str(row["name"]), str(row["sha256"]), Grants(*scopes))
        if token.name in tokens:
            raise ConfigError(f"token {token.name} is in it twice")
        tokens[token.name] = token
    return tokens


def grants_of(read: Iterable[str], write: Iterable[str], admin: Iterable[str]) -> Grants:
    """Grants by their patterns. Raises InputError when there is none."""
    grants = Grants(tuple(read), tuple(write), tuple(admin))
    if grants == Grants():
        raise InputError(
            "a token needs a scope: --read, --write or --admin, with topic:NAME, view:NAME, topic:PREFIX* or *"
        )
    return grants


def _matches(pattern: str, name: str) -> bool:
    if pattern == EVERYTHING:
        return True
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
