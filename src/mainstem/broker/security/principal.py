"""Principals: the sender of a request as a kind and a name, as Kafka writes them, e.g. ``User:alice``."""

from __future__ import annotations

from typing import Final, NamedTuple

from mainstem.errors import ConfigError

USER: Final = "User"


class Principal(NamedTuple):
    """One sender; ``str`` gives Kafka's text form."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Read the text form. Raises ConfigError."""
        kind, colon, name = text.strip().partition(":")
        if not colon or not kind or not name:
            raise ConfigError(f"principal {text!r} is not TYPE:NAME, e.g. User:alice")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of every client on a listener without authentication."""
