"""A PostgreSQL DSN: what it names, connections by it, and errors in one line without the password.

Captures and sinks connect through this module. psycopg2 is loaded with it where it is installed. Immutable; safe from
any thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from mainstem.errors import ConfigError, MissingDependencyError

try:
    import psycopg2
    from psycopg2 import extensions
except ImportError:  # the extra is not installed: `PostgresDsn` raises the error
    psycopg2 = None

_CONNECT_S: Final = 10
_DEFAULTS: Final[Mapping[str, Any]] = {
    "connect_timeout": _CONNECT_S,
    "application_name": "mainstem",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq where the DSN does not set them: seconds, and milliseconds for the last one."""
_WRONG_WORDS: Final = ("invalid ", "missing ", "unterminated ", "unexpected ", "end of string", "could not parse")
"""How libpq begins when it finds out while connecting that it cannot read the DSN; it then quotes parts of it."""
_WRONG: Final = (
    "the DSN of the database cannot be read: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE or as "
    "host=HOST port=PORT dbname=DATABASE user=USER password=PASSWORD"
)


class PostgresDsn:
    """One DSN. The module's docstring has the contract."""

    def __init__(self, text: str) -> None:
        """Raises ConfigError for a text that is no DSN, MissingDependencyError without psycopg2."""
        if psycopg2 is None:
            raise MissingDependencyError(
                "PostgreSQL needs psycopg2, which is not installed: pip install 'mainstem[postgres]'"
            )
        self._text = text
        try:
            self._parts: dict[str, str] = extensions.parse_dsn(text)
        except psycopg2.Error:
            raise ConfigError(_WRONG) from None  # libpq's own text repeats the DSN, and a password with it
        self._password = self._parts.get("password") or os.environ.get("PGPASSWORD")

    @property
    def database(self) -> str:
        """The database that the DSN names; empty when it names none."""
        return self._parts.get("dbname", "")

    @property
    def address(self) -> str:
        """``HOST:PORT/DATABASE``, without the user and the password."""
        host = self._parts.get("host", os.environ.get("PGHOST", "localhost"))
        port = self._parts.get("port", os.environ.get("PGPORT", "5432"))
        return f"{host}:{port}/{self._parts.get('dbname', self._parts.get('user', ''))}"

    def connect(self, settings: Mapping[str, object] | None = None, **parameters: Any) -> Any:
        """A connection of psycopg2. ``settings`` of the session win over those in the DSN's ``options``.

        ``parameters`` are for ``psycopg2.connect`` and win over the DSN, too. Raises psycopg2.Error, ConfigError.
        """
        wanted = {name: value for name, value in _DEFAULTS.items() if name not in self._parts} | parameters
        if settings:
            options = self._parts.get("options", os.environ.get("PGOPTIONS", ""))
            wanted["options"] = " ".join([options, *(f"-c {name}={value}" for name, value in settings.items())]).strip()
        try:
            return psycopg2.connect(self._text, **wanted)
        except psycopg2.Error as error:
            if isinstance(error, psycopg2.ProgrammingError) or str(error).startswith(_WRONG_WORDS):
                raise ConfigError(_WRONG) from None
            raise

    def line(self, error: Exception) -> str:
        """An error of psycopg2 in one line: the server's message with its detail, the password replaced by ``***``."""
        diagnosis = getattr(error, "diag", None)
        primary = getattr(diagnosis, "message_primary", None)
        if primary:
            detail = getattr(diagnosis, "message_detail", None)
            text = f"{primary} ({detail})" if detail else str(primary)
        else:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
        return text.replace(self._password, "***") if self._password else text
